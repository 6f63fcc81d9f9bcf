"""Does a value of a stack file ever write more than itself into a unit file? Each fails on 3f04825."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HOSTILE
from tests.node.conftest import GUARD

from swarm_node.concerns import slices, storage, units  # isort: skip
from swarm_node.machine import systemd  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context, NodeError  # isort: skip

BREAKS = [*HOSTILE, "/x\nExecStartPre=+/bin/sh -c id", "/x\rUser=root", "/x /y", "%h", "/x\\", '/x"', "/x\0", "$HOME"]


def machine(root: Path) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    book.record("allocations", "web-1", value={"workload": "web", "scratch": {"quota": 1, "owner": "ada"}, "gpus": [1]})
    return Context(book, root=str(root))


def want(**more: Any) -> dict[str, Any]:
    return {"user": "ada", "command": "serve", "env": {}, "gpus": [1], **more}


def keys(text: str) -> list[str]:
    return [line.split("=")[0] for line in text.splitlines()]


@pytest.mark.parametrize("name", ["SWARM_SCRATCH", "SWARM_CACHE"])
def test_a_directory_is_never_taken_from_the_users_variables(name: str, tmp_path: Path) -> None:
    here = machine(tmp_path)
    value = "/x\nExecStartPre=+/bin/sh -c 'id > /pwned'\nDescription="
    text = units.render(here, "web-1", want(env={name: value}))
    assert not any(line.startswith("ExecStartPre") for line in text.splitlines())
    assert "WorkingDirectory=/srv/swarm/scratch/web-1" in text.splitlines()
    assert "RequiresMountsFor=/srv/swarm/scratch/web-1" in text.splitlines()
    assert "/x" not in text


@pytest.mark.parametrize("name", ["SWARM_SCRATCH", "SWARM_ALLOCATION", "SWARM_ANYTHING"])
def test_a_variable_of_ours_is_never_the_users(name: str, tmp_path: Path) -> None:
    here = machine(tmp_path)
    with pytest.raises(NodeError, match=f"the variable {name} is set by swarm"):
        units.apply(here, "web-1", want(env={name: "x"}))
    assert not (tmp_path / systemd.UNITS[1:]).exists(), "nothing was written"


@pytest.mark.parametrize("value", BREAKS)
@pytest.mark.parametrize(
    "field", ["command", "env", "user", "stop_signal", "healthy", "secret", "name", "time_limit_s", "grace_s"]
)
def test_no_field_of_a_unit_ever_adds_a_line(field: str, value: str, tmp_path: Path) -> None:
    here = machine(tmp_path)
    bad = {"env": {"SWARM_CACHE": value}, "secret": {"A": f"secret:{value}"}, "name": {value: "x"}}
    asked = want(env=bad[field]) if field in bad else want(**{field: value})
    plain = units.render(here, "web-1", want(env={"A": "x"} if field in ("env", "name") else {}))
    try:
        text = units.render(here, "web-1", asked)
    except (NodeError, ValueError):  # what is no number is no grace
        return
    assert set(keys(text)) <= {*keys(plain), "Environment"} and len(keys(text)) <= len(keys(plain))


@pytest.mark.parametrize("value", [one for one in BREAKS if one.strip() not in ("-x", "+/bin/sh")])
def test_no_name_of_a_disk_or_an_allocation_ever_adds_a_line_or_a_word(value: str, tmp_path: Path) -> None:
    here = machine(tmp_path)
    for act in (
        lambda: slices.properties({"io_read_bps": 1}, value),
        lambda: slices.render(here, value, {"slice": {}}),
        lambda: storage._render(value),
        lambda: units.render(here, value, want()),
    ):
        with pytest.raises(NodeError, match="cannot stand in a unit"):
            act()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_unit_as_it_is(tmp_path: Path) -> None:
    """No line of it is unknown to systemd, however hostile the values are."""
    here = machine(tmp_path)
    words = [one for one in HOSTILE if "\0" not in one]
    for name, folder in (("web-1", "one"), ("job-2", "two")):
        here.ledger.record("allocations", name, value={"workload": "x", "scratch": {"quota": 1, "owner": "ada"}})
        file = tmp_path / folder / units.unit(name)
        file.parent.mkdir()
        env = {f"V{number}": value for number, value in enumerate(words)}
        file.write_text(units.render(here, name, want(user="root", env=env, restart=name == "web-1", time_limit_s=3600)))
        done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
        told = [line for line in done.stderr.splitlines() if folder in line or units.unit(name) in line]
        assert not told, done.stderr
