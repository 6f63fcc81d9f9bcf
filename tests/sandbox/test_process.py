"""Is a process ended only when it is surely the sandbox's own?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.sandbox import process


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()  # while exec is under way the kernel shows no command line
        yield running
        running.kill()


def _record(tmp_path: Path, pid: int) -> Path:
    file = tmp_path / "pid"
    file.write_text(f"{pid}\n")
    process.record(file)
    return file


def test_a_process_of_this_folder_is_ended(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    file = _record(tmp_path, child.pid)
    assert process.running(file, tmp_path) == child.pid
    process.end(file, tmp_path)
    assert child.wait(5) == -9
    assert not file.exists()


def test_a_process_of_another_folder_is_never_ended(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    process.end(_record(tmp_path, child.pid), Path("/another/sandbox"))
    assert child.poll() is None


def test_a_reused_pid_is_never_ended(tmp_path: Path, child: subprocess.Popen[bytes]) -> None:
    file = tmp_path / "pid"
    file.write_text(f"{child.pid} 1\n")
    process.end(file, tmp_path)
    assert child.poll() is None
