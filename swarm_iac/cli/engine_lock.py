"""Who is changing this stack? The engine's lock of a run that died here is cleared; any other is reported with its owner.

Covers the engine's locks of a state in files: .state/.pulumi/locks/…/STACK/ID.json, with pid, user, host and time. Of a
state elsewhere (S3, Postgres, …) the engine alone reads the locks, and says in its error who holds one.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swarm_iac.errors import Retryable
from swarm_iac.printable import printable
from swarm_iac.provider.plugin import process_identity
from swarm_iac.run_options import RunOptions

Say = Callable[[str], None]
#: How the engine says that another run has a lock, and whose each is: ADDRESS: created by USER@HOST (pid 7) at TIME.
_HELD = re.compile(r"^error: the stack is currently locked by [0-9]+ lock\(s\)", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HOLDER = re.compile(r": created by (\S{0,80})@(\S{0,255}) \(pid ([0-9]{1,9})\) at (\S{1,40})$", re.MULTILINE)


@dataclass(frozen=True)
class LockOwner:
    """A run that holds the lock. `since`: seconds since 1970, 0 if the lock does not say; `lock`: its file, if it is one."""

    user: str
    host: str
    process: int
    since: float
    lock: Path = Path(os.devnull)

    @cached_property
    def _known(self) -> process_identity.Mark | None:
        if self.host != socket.gethostname():
            return None
        return process_identity.known(self.process, self.since, RunOptions.of(os.environ).state_home)

    @property
    def here(self) -> bool:
        """Is it certainly on this machine, so that we can tell whether it is alive? A host name alone proves nothing."""
        return self._known is not None and self._known.here

    @property
    def lives(self) -> bool:
        """Is its process running? A pid that was reused since does not count."""
        return self._known is not None and self._known.lives

    def __str__(self) -> str:
        when = f", since {datetime.datetime.fromtimestamp(self.since):%Y-%m-%d %H:%M:%S}" if self.since else ""
        return f"{self.user}@{self.host} (process {self.process}{when})"


def owners(state: Path, stack: str) -> Iterator[LockOwner]:
    """Every readable lock on the stack."""
    for path in sorted((state / ".pulumi" / "locks").glob(f"**/{stack}/*.json")):
        try:
            lock = json.loads(path.read_text())
            process = int(lock["pid"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # just released, or not one of the engine's
        yield LockOwner(
            str(lock.get("username", "")),
            str(lock.get("hostname", "")),
            process,
            _seconds(lock.get("timestamp")),
            path,
        )


def clear_dead(state: Path, stack: str, say: Say) -> None:
    """Remove the locks of runs that were certainly on this machine and have ended."""
    for owner in owners(state, stack):
        if owner.here and not owner.lives:
            say(f"cleared the lock of a run that ended: {owner}")
            owner.lock.unlink(missing_ok=True)


def refuse_held(state: Path, stack: str) -> None:
    """Raises Retryable naming the run that is changing the stack."""
    for owner in owners(state, stack):
        if not owner.here or owner.lives:
            raise _held(stack, owner)


def refuse_said(text: str, stack: str) -> None:
    """Raises Retryable if the engine wrote that another run has the lock, naming that run as far as it says."""
    text = _COLOURS.sub("", text)
    said = _HELD.search(text)
    found = _HOLDER.search(text, said.end()) if said else None
    if found:
        user, host = (printable(found[part], 80) for part in (1, 2))
        raise _held(stack, LockOwner(user, host, int(found[3]), _seconds(found[4])))
    if said:
        raise _held(stack, None)


def _held(stack: str, owner: LockOwner | None) -> Retryable:
    if owner and owner.here and owner.lives:
        hint = f"wait for it, or interrupt it: kill -INT {owner.process} lets it finish its current step"
    else:
        where = f"on {owner.host}" if owner else "elsewhere"
        hint = f"wait for it; only if that run is certainly dead {where}: pulumi cancel --stack {stack}"
    return Retryable(f"stack {stack} is being changed by {owner or 'another run'}", hint=hint)


def _seconds(text: object) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
