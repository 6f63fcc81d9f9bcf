"""Is the process that this sandbox once started still that process, and how is it ended?

A pid is reused. So a process counts as ours only while its start time is the recorded one and its command line names
the sandbox's folder; nothing else is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from swarm_iac.sandbox.tool import SandboxError


def _stat(pid: int) -> tuple[str, str] | None:
    """State and start time (ticks since boot), or None: no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def _names(pid: int, marks: tuple[str, ...]) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return any(mark in line for mark in marks)


def record(pid_file: Path, seconds: float = 10) -> None:
    """Add the start time to the pid that a daemon writes into `pid_file`, maybe after its parent has returned."""
    end = time.monotonic() + seconds
    while not (pid_file.exists() and pid_file.read_text().strip()):
        if time.monotonic() > end:
            raise SandboxError(f"{pid_file.name} was not written within {seconds:.0f} s: the daemon did not start")
        time.sleep(0.02)
    pid = int(pid_file.read_text().split()[0])
    stat = _stat(pid)
    pid_file.write_text(f"{pid} {stat[1] if stat else '-'}\n")


def running(pid_file: Path, *marks: Path) -> int | None:
    """The pid, if the recorded process still runs and names one of `marks`."""
    try:
        pid_text, started = pid_file.read_text().split()
    except (OSError, ValueError):
        return None
    stat = _stat(int(pid_text))
    if stat is None or stat[0] in "ZX" or stat[1] != started:
        return None
    return int(pid_text) if _names(int(pid_text), tuple(map(str, marks))) else None


def wait_gone(pid_file: Path, *marks: Path, seconds: float) -> bool:
    """Whether the process has ended within `seconds`."""
    end = time.monotonic() + seconds
    while running(pid_file, *marks) is not None:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def end(pid_file: Path, *marks: Path, how: signal.Signals = signal.SIGKILL) -> None:
    """End the recorded process, if it is still ours, and forget it."""
    pid = running(pid_file, *marks)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        if not wait_gone(pid_file, *marks, seconds=5):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_gone(pid_file, *marks, seconds=5)
    pid_file.unlink(missing_ok=True)
