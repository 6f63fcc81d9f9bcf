"""Who is changing this stack? The engine's lock of a run that died here is cleared; any other is told with its owner.

The engine's own locks in a file state: .state/.pulumi/locks/…/STACK/ID.json, with pid, user, host and time. A state
elsewhere (S3, Postgres, …) is locked and told by Pulumi itself.
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
    """A run that holds the lock. `since`: seconds since 1970, 0 where the lock does not say."""

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
        """Is it of this machine for sure, so that we can know whether it lives? A host's name alone says nothing."""
        return self._known is not None and self._known.here

    @property
    def lives(self) -> bool:
        """Does its process run? A number that was given to another process since is not it."""
        return self._known is not None and self._known.lives

    def __str__(self) -> str:
        when = f", since {datetime.datetime.fromtimestamp(self.since):%Y-%m-%d %H:%M:%S}" if self.since else ""
        return f"{self.user}@{self.host} (process {self.process}{when})"


def owners(state: Path, stack: str) -> Iterator[LockOwner]:
    """Every lock on the stack that can be read."""
    for path in sorted((state / ".pulumi" / "locks").glob(f"**/{stack}/*.json")):
        try:
            said = json.loads(path.read_text())
            process = int(said["pid"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # it was released in this moment, or is none of the engine's
        yield LockOwner(
            path, str(said.get("username", "")), str(said.get("hostname", "")), process, _seconds(said.get("timestamp"))
        )


def clear_dead(state: Path, stack: str, say: Say) -> None:
    """Remove the lock of each run that is known to be of this machine and to have ended."""
    for owner in owners(state, stack):
        if owner.here and not owner.lives:
            say(f"cleared the lock of a run that ended: {owner}")
            owner.lock.unlink(missing_ok=True)


def refuse_held(state: Path, stack: str) -> None:
    """Raises Retryable with the name of whoever is changing the stack."""
    for owner in owners(state, stack):
        if not owner.here:
            hint = f"wait for it; only when that run is known to be dead on {owner.host}: pulumi cancel --stack {stack}"
        elif owner.lives:
            hint = f"wait for it, or interrupt it: kill -INT {owner.process} lets it finish the step in hand"
        else:
            continue
        raise Retryable(f"stack {stack} is being changed by {owner}", hint=hint)


def _seconds(text: object) -> float:
    try:
        return datetime.datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
