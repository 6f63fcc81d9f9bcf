"""No lock is cleared of a run that may live: on another machine of the same name, in another container, in this boot.

Fails on 3f04825: "here" was decided by the host's name, so a run elsewhere whose process is unknown here counted as dead.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli import engine_lock
from swarm_iac.errors import Retryable


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    return tmp_path / "own" / "swarm" / "engines"


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\n")


def held(state: Path, pid: int) -> Path:
    path = state / ".pulumi" / "locks" / "organization" / "lab" / "dev" / "1b2c.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).isoformat()
    path.write_text(json.dumps({"pid": pid, "username": "ada", "hostname": socket.gethostname(), "timestamp": now}))
    return path


def ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_on_another_machine_of_the_same_name(tmp_path: Path) -> None:
    path = held(tmp_path, ended())
    engine_lock.clear_dead(tmp_path, "dev", print)
    assert path.exists(), "nothing says that this run was ever here"
    with pytest.raises(Retryable) as caught:
        engine_lock.refuse_held(tmp_path, "dev")
    assert "pulumi cancel" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "cleared"),
    [
        ({}, False),
        ({"machine": "another"}, False),
        ({"machine": ""}, False),
        ({"space": "pid:[1]"}, False),
        ({"ticks": 1}, True),
        ({"boot": "before"}, True),
        ({"boot": "before", "space": "pid:[1]"}, True),
        ({"boot": "before", "machine": "another"}, False),
        ({"began": 1000.0, "ticks": 1}, False),
    ],
)
def test_a_lock_is_cleared_only_of_a_process_that_is_known_to_be_gone(
    change: dict[str, Any], cleared: bool, tmp_path: Path, noted: Path, engine: subprocess.Popen[bytes]
) -> None:
    from swarm_iac.provider.plugin import process_identity

    process_identity.note(engine.pid, noted.parents[1])
    (file,) = noted.glob("*.json")
    assert file.stat().st_mode & 0o077 == 0 or noted.stat().st_mode & 0o077 == 0
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    path = held(tmp_path, engine.pid)
    engine_lock.clear_dead(tmp_path, "dev", print)
    assert path.exists() is not cleared


def test_a_note_that_is_none_says_nothing(tmp_path: Path, noted: Path) -> None:
    noted.mkdir(parents=True)
    for number, text in enumerate(["", "{", "[]", "{}", '{"pid": "x"}', "null"]):
        (noted / f"{os.getpid()}-{number}.json").write_text(text)
    path = held(tmp_path, os.getpid())
    engine_lock.clear_dead(tmp_path, "dev", print)
    assert path.exists()
