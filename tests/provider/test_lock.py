"""Is a run that changes a stack told to the next one by name, and one that died cleared? The engine's own locks."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarm_iac.cli import engine, engine_lock
from swarm_iac.errors import Retryable
from swarm_iac.live import checkpoint
from swarm_iac.provider.plugin import process_identity
from tests.provider.conftest import Project, two_nodes
from tests.provider.test_engine import start

pytestmark = pytest.mark.engine


def test_a_running_up_is_named_and_a_killed_one_is_cleared(project: Project) -> None:
    project.give(two_nodes())
    project.tamper({"n2": {"sleep": 2}})
    state = project.folder / ".state"
    running = start(project)
    try:
        with pytest.raises(Retryable) as caught:
            engine_lock.refuse_held(state, "dev")
        assert (
            f"stack dev is being changed by {getpass.getuser()}@{socket.gethostname()} (process {running.pid}, since 20"
            in str(caught.value)
        )
        assert "kill -INT" in caught.value.hint
        engine_lock.clear_dead(state, "dev", print)
        assert str(running.pid) in project.up(ok=False), "Pulumi itself refuses and names the process"
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.communicate()
    assert list(engine_lock.owners(state, "dev")), "the killed run left its lock"
    engine_lock.refuse_held(state, "dev")
    lines: list[str] = []
    engine_lock.clear_dead(state, "dev", lines.append)
    assert len(lines) == 1 and f"process {running.pid}" in lines[0]
    project.up()
    assert not list(engine_lock.owners(state, "dev"))


def written(folder: Path, pid: int, host: str, timestamp: str) -> Path:
    """A lock as the engine writes it."""
    path = folder / ".pulumi" / "locks" / "organization" / "lab" / "dev" / "1b2c.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "username": "ada", "hostname": host, "timestamp": timestamp}))
    return path


def test_a_run_on_another_host_is_never_cleared(tmp_path: Path) -> None:
    path = written(tmp_path, 999_999_999, "elsewhere", "2026-11-21T19:00:00.123456789Z")
    engine_lock.clear_dead(tmp_path, "dev", pytest.fail)
    assert path.exists()
    with pytest.raises(Retryable) as caught:
        engine_lock.refuse_held(tmp_path, "dev")
    assert "ada@elsewhere (process 999999999, since 2026-11-21" in str(caught.value) and "pulumi cancel" in caught.value.hint
    engine_lock.refuse_held(tmp_path, "prod")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where engines of this machine are noted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    return tmp_path / "own" / "swarm" / "engines"


def test_a_number_that_another_process_has_now_is_not_the_owner(tmp_path: Path, notes: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        process_identity.note(other.pid, notes.parents[1])
        (noted,) = notes.glob("*.json")
        noted.write_text(json.dumps({**json.loads(noted.read_text()), "ticks": 1, "began": 1577836800}))
        path = written(tmp_path, other.pid, socket.gethostname(), "2020-01-01T00:00:05Z")
        engine_lock.clear_dead(tmp_path, "dev", lambda line: None)
        assert not path.exists()
    finally:
        other.communicate(b"\n")


def test_a_process_that_ended_and_was_not_waited_for_holds_nothing(tmp_path: Path, notes: Path) -> None:
    """An orphan is a zombie until init looks; its run is over."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process_identity.note(child.pid, notes.parents[1])
    assert child.stdin
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    path = written(tmp_path, child.pid, socket.gethostname(), f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}")
    engine_lock.refuse_held(tmp_path, "dev")
    engine_lock.clear_dead(tmp_path, "dev", lambda line: None)
    assert not path.exists()
    child.wait()


def test_what_the_engine_says_of_a_lock_elsewhere_is_understood_in_colour_too() -> None:
    told = (
        "\x1b[38;5;1merror: \x1b[0mthe stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or "
        "delete the lock file with `pulumi cancel`.\n  s3://b/.pulumi/locks/organization/lab/dev/1b2c.json: "
        "created by ada@elsewhere (pid 3577) at 2026-11-21T19:00:00Z\x1b[0m\n"
    )
    with pytest.raises(Retryable) as caught:
        engine_lock.refuse_said(told, "dev")
    assert "ada@elsewhere (process 3577, since 2026-11-21" in str(caught.value) and "pulumi cancel" in caught.value.hint
    with pytest.raises(Retryable, match="by another run"):
        engine_lock.refuse_said(told.partition("\n")[0], "dev")
    engine_lock.refuse_said("error: update failed\n  fleet: the stack is currently locked by 1 lock(s)", "dev")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"hostname": "h"}'])
def test_a_lock_that_cannot_be_read_is_left_to_the_engine(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, 1, "h", "")
    path.write_text(text)
    engine_lock.clear_dead(tmp_path, "dev", pytest.fail)
    engine_lock.refuse_held(tmp_path, "dev")
    assert path.exists()


def test_only_what_changes_the_stack_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    project.give(two_nodes())
    project.up()
    path = written(project.folder / ".state", os.getppid(), socket.gethostname(), f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}")
    for verb in ("up", "refresh", "destroy"):
        with pytest.raises(Retryable, match="is being changed by ada@"):
            engine.pulumi(project.folder, "dev", [verb, "--yes", "--skip-preview"], print)
    assert engine.pulumi(project.folder, "dev", ["preview", "--expect-no-changes"], print, capture=True).returncode == 0
    path.unlink()
    assert engine.pulumi(project.folder, "dev", ["up", "--yes", "--skip-preview"], print, capture=True).returncode == 0


@pytest.mark.parametrize(
    ("url", "folder"),
    [("file://./.state", ".state"), ("file:///srv/state", "/srv/state"), ("s3://fleet-state", None), ("", None)],
)
def test_only_a_state_of_files_is_looked_into(tmp_path: Path, url: str, folder: str | None) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: lab\nruntime: python\n{f'backend: {{url: {url}}}' if url else ''}\n")
    assert checkpoint.state_folder(tmp_path) == (tmp_path / folder if folder else None)
