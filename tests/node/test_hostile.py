"""Does anything that a stack file or a user says become more than data on a node? Who may read what we keep there?"""

from __future__ import annotations

import json
import pwd
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import accounts, units
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import step
from swarm_node.records import ledger
from swarm_node.workload import launch, lives, secrets

from tests.hostile import HOSTILE, TEMPLATES
from tests.node.conftest import GUARD
from tests.node.test_units import systemd_reads


def machine(root: Path) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    return Context(book, root=str(root))


@pytest.mark.parametrize(
    "name", ["../../etc", "a-0/../b-0", "a-0;reboot", "$(id)-0", "-rf-0", "a 0", "a-0\n", "A-0", "a", "", "a-0.service", "%h-0"]
)
@pytest.mark.parametrize("verb", ["stop", "release", "slice", "directories", "traffic", "start", "health"])
def test_what_is_no_name_of_an_allocation_reaches_no_path(name: str, verb: str, tmp_path: Path) -> None:
    asked = {"verb": verb, "guard": GUARD, "steps": [{"id": "x", "allocation": name or "-", "want": {}}]}
    (result,) = step.perform(asked, root=str(tmp_path))["results"]
    assert not result["ok"] and "is no name of an allocation" in result["message"]
    assert not list(tmp_path.rglob("*")), "nothing was touched"


@pytest.mark.parametrize("value", [*HOSTILE, *TEMPLATES, "${HOME}", "$$", "$1", "a\nb"])
def test_a_health_check_hands_its_words_on_as_they_are(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, ran = machine(tmp_path), []
    monkeypatch.setattr(here, "run", lambda argv, **_: ran.append(argv) or "")
    assert units.probe(here, "web-1", {"user": "ada", "healthy": shlex.join(["check", value])}) == ""
    (argv,) = ran
    words = argv[argv.index("--") + 1 :]
    # systemd-run takes '$$' for a dollar, and its own variables for all other words with one
    assert [word.replace("$$", "$") for word in words] == ["/usr/bin/env", "--", "check", value]
    assert all("$" not in word.replace("$$", "") for word in words)


@pytest.mark.parametrize("kind", ["ExecStop", "ExecStopPost", "ExecStart"])
def test_no_shell_of_ours_is_given_a_value_to_read_as_code(kind: str, tmp_path: Path) -> None:
    """Scripts are constants; what is the user's comes after them, as arguments."""
    marker = "$(touch /pwned)"
    want = {"user": "ada", "command": f"'{marker}'", "env": {"A": marker, "B": "secret:hf"}, "restart": False}
    for line in units.render(machine(tmp_path), "web-1", want).splitlines():
        words = systemd_reads(line)
        if line.startswith(f"{kind}=") and words[0] == "/bin/sh":
            assert words[1] == "-c" and marker not in words[2]
        if line.startswith("ExecStart="):
            assert words[: len(launch.PREFIX)] == launch.PREFIX and marker not in "".join(launch.PREFIX)


def secret(root: Path, mode: int = 0o600) -> Any:
    path = root / secrets.FOLDER[1:] / "hf"
    path.parent.mkdir(parents=True)
    path.write_text("hf_very_secret\n")
    path.chmod(mode)
    return machine(root)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666])
def test_a_secret_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=f"secret hf: .* is not root's alone .mode {mode:04o}."):
        secrets.ready(secret(tmp_path, mode), ["hf"])


def test_a_secret_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    here = secret(tmp_path)
    secrets.ready(here, ["hf"])
    with pytest.raises(NodeError, match="secret other: /etc/swarm/secrets/other: No such file"):
        secrets.ready(here, ["hf", "other"])


def test_a_secret_stands_in_nothing_that_we_write(tmp_path: Path) -> None:
    here = secret(tmp_path)
    want = {"user": "ada", "command": "train", "env": {"HF_TOKEN": "secret:hf"}}
    here.ledger.record("allocations", "web-1", value={"workload": "web", "unit": want})
    here.write("/etc/systemd/system/swarm-web_1.service", units.render(here, "web-1", want))
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert len(files) == 2
    assert not any("very_secret" in path.read_text() for path in files)


def test_what_we_keep_is_for_root_alone(tmp_path: Path) -> None:
    """Also where an earlier version, or a person, left a folder open: who can open the lock can hold it."""
    for folder in ("var/lib/swarm", "run/swarm"):
        (tmp_path / folder).mkdir(parents=True, mode=0o755)
    with ledger.opened(check=False, root=str(tmp_path)) as book:
        book.guard(**GUARD)
        here = Context(book, root=str(tmp_path))
        lives.prepare(here, "web-1")
        lives.wait(here, "web-1")
    step.perform({"verb": "settings", "guard": GUARD, "steps": [{"id": "x", "want": {"settings": {}}}]}, root=str(tmp_path))
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    ours = {path: mode for path, mode in modes.items() if path.startswith(("var/lib/swarm", "run/swarm"))}
    assert {
        "var/lib/swarm/ledger.json",
        "var/lib/swarm/audit.jsonl",
        "run/swarm/lock",
        "run/swarm/waiting/web-1",
    } <= ours.keys()
    assert {path: oct(mode) for path, mode in ours.items() if mode & 0o077} == {}


def test_an_audit_quotes_no_value(tmp_path: Path) -> None:
    want = {"allocations": {"web-1": {"unit": {"user": "ada", "command": "hf_very_secret", "env": {"A": "hf_very_secret"}}}}}
    asked = {"verb": "start", "guard": GUARD, "steps": [{"id": "n/start/web-1", "allocation": "web-1", "want": want}]}
    with ledger.opened(check=False, root=str(tmp_path)) as book:
        book.guard(**GUARD)
    step.perform(asked, root=str(tmp_path))
    (line,) = (tmp_path / "var/lib/swarm/audit.jsonl").read_text().splitlines()
    assert "n/start/web-1" in line and "very_secret" not in line
    assert json.loads(line)["serial"] == GUARD["serial"]


def test_root_by_another_name_never_runs_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: root)
    with pytest.raises(NodeError, match="toor is another name for root"):
        accounts.account(machine(tmp_path), "toor")
