"""Who is changing this stack? The engine's lock of a run that died here is cleared; any other is reported with its owner.

Covers the engine's locks of a state in files: .state/.pulumi/locks/…/STACK/ID.json, with pid, user, host and time. For a
state elsewhere (S3, Postgres, …) Pulumi handles locks itself.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swarm_iac.errors import Retryable
from swarm_iac.provider.plugin import process_identity
from swarm_iac.run_options import RunOptions

Say = Callable[[str], None]


@dataclass(frozen=True)
class LockOwner:
    """A run that holds the lock. `since`: seconds since 1970, 0 if the lock does not say."""

    lock: Path
    user: str
    host: str
    process: int
    since: float

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
            path,
            str(lock.get("username", "")),
            str(lock.get("hostname", "")),
            process,
            _seconds(lock.get("timestamp")),
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
        if not owner.here:
            hint = f"wait for it; only if that run is certainly dead on {owner.host}: pulumi cancel --stack {stack}"
        elif owner.lives:
            hint = f"wait for it, or interrupt it: kill -INT {owner.process} lets it finish its current step"
        else:
            continue
        raise Retryable(f"stack {stack} is being changed by {owner}", hint=hint)


def _seconds(text: object) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
