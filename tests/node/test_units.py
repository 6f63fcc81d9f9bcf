"""Can a value break out of a unit file, and is what systemd holds told as the user wrote it?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarm_node.concerns import accounts, units
from swarm_node.machine import systemd
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger
from swarm_node.workload import launch

from tests.hostile import HOSTILE


def systemd_reads(line: str) -> list[str]:
    """Words of a line as systemd.syntax(7) and systemd.exec(5) have it: quotes, C escapes, then specifiers."""
    found = []
    for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
        raw = re.sub(rb"\\x([0-9a-f]{2})", lambda hit: bytes([int(hit[1], 16)]), quoted.encode())
        found.append(raw.decode().replace("%%", "%"))
    return found


def variables(text: str) -> dict[str, str]:
    """The user's variables of a unit file, its credential read as systemd.exec(5) has it: C escapes and nothing else."""
    values = (line.partition(":")[2] for line in text.splitlines() if line.startswith("SetCredential=_env:"))
    octets = (re.sub(rb"\\x([0-9a-f]{2})", lambda hit: bytes([int(hit[1], 16)]), value.encode()) for value in values)
    return launch.read([["_env", list(each)] for each in octets])


def context(root: Path) -> Any:
    book = ledger.load(str(root))
    book.data["state"] = {"allocations": {"web-1": {"scratch": {"quota": 1, "owner": "ada"}}}}
    return Context(book, check=True, root=str(root))


def want(**more: Any) -> dict[str, Any]:
    return {"user": "ada", "command": "serve", "env": {}, "gpus": [1], **more}


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_never_leaves_its_line(value: str, tmp_path: Path) -> None:
    text = units.render(context(tmp_path), "web-1", want(command=shlex.join([value, "--x", value]), env={"A": value}))
    plain = units.render(context(tmp_path), "web-1", want(command="a --x b", env={"A": "c"}))
    keys = [line.split("=")[0] for line in text.splitlines()]
    assert keys == [line.split("=")[0] for line in plain.splitlines()]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", text)
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert command.startswith('ExecStart=:"/usr/bin/python3" "-I" ')
    assert systemd_reads(command)[-5:] == ["/usr/bin/env", "--", value, "--x", value]
    assert variables(text) == {"A": value}


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_quoted_words_read_back(text: str) -> None:
    line = systemd.quote(text)
    assert "\n" not in line
    assert systemd_reads(line) == [text]


@pytest.mark.parametrize(
    "bad",
    [{"command": "a\0b"}, {"env": {"A=B": "x"}}, {"env": {"A": "secret:../shadow"}}, {"user": "ada\nUser=root"},
     {"stop_signal": "KILL"}, {"command": "'open"}, {"command": "\ud800"}],
)  # fmt: skip
def test_what_systemd_cannot_carry_is_refused(bad: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NodeError):
        units.render(context(tmp_path), "web-1", want(**bad))


def test_workload_is_told_its_place_and_holds_only_its_cards(tmp_path: Path) -> None:
    text = units.render(context(tmp_path), "web-1", want())
    for line in ("Slice=swarm-web_1.slice", "User=ada", 'Environment="CUDA_VISIBLE_DEVICES=1"', "DevicePolicy=closed",
                 "DeviceAllow=/dev/nvidia1 rw", "WorkingDirectory=/srv/swarm/scratch/web-1", "NoNewPrivileges=yes"):  # fmt: skip
        assert line in text.splitlines()
    assert "SWARM_CACHE" not in text
    assert "nvidia0" not in text


def test_secret_reaches_the_environment_and_no_file(tmp_path: Path) -> None:
    text = units.render(context(tmp_path), "web-1", want(env={"HF_TOKEN": "secret:hf"}))
    assert "LoadCredential=hf:/etc/swarm/secrets/hf" in text
    assert "HF_TOKEN=secret" not in text


def test_a_command_without_words_is_a_holder() -> None:
    assert units.command_line({"command": ""}) == ["/bin/sleep", "infinity"]


def test_root_never_runs_a_workload(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="root"):
        accounts.account(context(tmp_path), "root")


def test_a_unit_changed_by_hand_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = context(tmp_path)
    shown = {"LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no", "DropInPaths": ""}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    truth = {"User": "ada", "ExecStart": [["/usr/bin/env", ["/usr/bin/env", "--", "serve", "a b"]]], "KillSignal": 1,
             "TimeoutStopUSec": 30_000_000, "Restart": "on-failure",
             "Environment": ["CUDA_VISIBLE_DEVICES=1", "NVIDIA_VISIBLE_DEVICES=7", "X=1"]}  # fmt: skip
    monkeypatch.setattr(systemd, "exactly", lambda context, unit: truth)
    recorded = {"user": "ada", "command": "serve  'a b'", "env": {"X": "1"}, "gpus": [1]}
    found = units.read(here, "web-1", recorded)
    assert found["command"] == "serve  'a b'"
    assert (found["stop_signal"], found["active"]) == ("HUP", True)
    assert found["env"] == {"X": "1", "NVIDIA_VISIBLE_DEVICES": "7"}


def test_what_ended_and_gave_its_cards_back_is_still_what_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = context(tmp_path)
    shown = {"LoadState": "loaded", "ActiveState": "inactive", "NeedDaemonReload": "no", "DropInPaths": ""}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    truth = {"User": "ada", "ExecStart": [["/bin/true", ["/bin/true"]]], "KillSignal": 15, "TimeoutStopUSec": 30_000_000,
             "Restart": "no", "Environment": ["CUDA_VISIBLE_DEVICES=1", "NVIDIA_VISIBLE_DEVICES=1", "X=1", "SWARM_GPUS=1",
                                              "SWARM_GPU_SHARE=0.5", "SWARM_GPU_MEMORY=1024"]}  # fmt: skip
    monkeypatch.setattr(systemd, "exactly", lambda context, unit: truth)
    found = units.read(here, "job-1", {"user": "ada", "command": "/bin/true", "env": {"X": "1"}, "gpus": []})
    assert found is not None and found["env"] == {"X": "1"}, "another environment would be another job, and run again"


@pytest.mark.parametrize(
    ("state", "sub", "health"),
    [("active", "running", "healthy"), ("deactivating", "stop-post", "stopping"), ("failed", "failed", "failed"),
     ("activating", "auto-restart", "starting"), ("inactive", "dead", "stopped")],
)  # fmt: skip
def test_health_of(state: str, sub: str, health: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        systemd, "show", lambda context, unit: {"ActiveState": state, "SubState": sub, "ActiveEnterTimestampMonotonic": "1"}
    )
    assert units.health_of(context(tmp_path), "web-1", {"user": "ada"}) == health
