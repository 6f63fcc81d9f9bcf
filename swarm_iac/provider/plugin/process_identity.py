"""Which process of which boot of which machine runs an engine? This identifies the owner of a lock, beyond its pid.

The engine's lock has a host name and a pid. Both are reused: by a clone, by a container with the same folder, by the next
process. So the command that starts an engine, and the provider that an engine starts, record more in the operator's own
folder, which is checked before a lock counts as stale.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

#: Age at which a note is deleted. [s]
_KEPT = 30 * 86_400
#: Longest time between the start of an engine and its lock, and precision of a process's start time. [s]
_SOON, _SLACK = 600.0, 2.0


@dataclass(frozen=True)
class Mark:
    """One process. `ticks`: its start, in the kernel's ticks since the boot; `began`: the same. [s since 1970]"""

    pid: int
    ticks: int
    machine: str
    boot: str
    space: str
    began: float

    @property
    def here(self) -> bool:
        """Is it on this machine, so that we can tell whether it is alive? In another boot it is not."""
        return bool(self.machine) and self.machine == _machine() and (self.boot != _boot() or self.space == _space())

    @property
    def lives(self) -> bool:
        """Is this very process running? A pid that was reused since does not count."""
        return self.boot == _boot() and _ticks(self.pid) == self.ticks


def note(pid: int, home: Path | None) -> None:
    """Record an engine that runs here, if there is a place for notes. `home`: RunOptions.state_home."""
    ticks = _ticks(pid)
    if ticks is None or home is None:
        return
    folder = _folder(home)
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    mark = Mark(pid, ticks, _machine(), _boot(), _space(), time.time() - age)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in folder.glob("*.json"):
            if time.time() - old.stat().st_mtime > _KEPT:
                old.unlink()
        fresh = folder / f"{pid}-{ticks}.new{os.getpid()}"
        fresh.write_text(json.dumps(asdict(mark)))
        fresh.replace(folder / f"{pid}-{ticks}.json")


def known(pid: int, since: float, home: Path | None) -> Mark | None:
    """The note about the engine with this pid that took a lock at that time [s since 1970]; None if there is none."""
    for path in sorted(_folder(home).glob(f"{pid}-*.json")) if home else ():
        try:
            if path.stat().st_uid != os.geteuid():
                continue
            mark = Mark(**json.loads(path.read_text()))
            if mark.pid == pid and since and mark.began - _SLACK <= since <= mark.began + _SOON:
                return mark
        except (OSError, ValueError, TypeError):
            continue
    return None


def _folder(home: Path) -> Path:
    return home / "swarm" / "engines"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _machine() -> str:
    return _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id") or os.uname().nodename


def _boot() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


def _space() -> str:
    """The pid namespace: a container has its own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _ticks(pid: int) -> int | None:
    """Start time of a process. None: it does not exist, or has ended and was not waited for."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in ("Z", "X") else None
