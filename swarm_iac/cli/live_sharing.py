"""How does a command know what is live where another clone decides, and how does an autopilot lead all clones?

The state has one live layer for all clones, with the leader of now: see swarm_iac/live/shared.py. Where the state is in the
clone itself, nobody else can have it: nothing is leased there, and the lock on a file is enough.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.cli import engine
from swarm_iac.cli.toolchain import pulumi_folder
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer, words
from swarm_iac.live.shared import Leader, Shared, superseded
from swarm_iac.live.sharing import KEEP, RELEASE
from swarm_iac.printable import printable, without_passwords
from swarm_iac.run_options import VARIABLES, RunOptions
from swarm_iac.stackfile.locks.companions import Files

Say = Callable[[str], None]
#: One command reads the state once in so long. [s]
_FRESH = 5.0
_read: dict[tuple[Path, str], float] = {}


def read(root: Path, name: str) -> Shared | None:
    """What the state has now, for all clones. Raises Retryable where it cannot be read."""
    return checkpoint.read(root, name, {**os.environ, **engine.environment(root, lambda text: None)})


def fetch(root: Path, name: str, say: Say, *, changing: bool = False) -> None:
    """Let this clone know what is live. A state that cannot be read is no error here: then it is what was known last.

    `changing`: for a command that asks the backend in any case. Others ask one that is not files only where that was done
    before: a command that only looks into a foreign checkout sends nothing to the address that it names.
    """
    before = _read.get((root, name))
    if RunOptions.of(os.environ).offline or (before is not None and time.monotonic() - before < _FRESH):
        return
    if not checkpoint.backend(root) or not checkpoint.concerns(root, name) or pulumi_folder() is None:
        return
    if not changing and checkpoint.state_folder(root) is None and not _asked_before(root, name):
        return
    _read[root, name] = time.monotonic()
    try:
        checkpoint.taken(root, name, read(root, name))
    except Refused:
        raise
    except SwarmError as error:  # not read, or not written: a clone of somebody else
        say(f"what is live is as last known here: {error.message}")


def _asked_before(root: Path, name: str) -> bool:
    path = Files.of(root, name).live
    return bool(os.environ.get("PULUMI_BACKEND_URL")) or (path is not None and live_file.has_identity(path.parent))


def of_up(root: Path, name: str) -> dict[str, str]:
    """Variables of an `up` that tells all clones what only this one knows: nodes that it has powered on, and grants of an
    autopilot that ended before it told. None where all know.

    Raises Retryable if a node that is on here is asleep for another clone, which was later: this `up` would leave it out.
    """
    path = Files.of(root, name).live
    if path is None or not checkpoint.shared_by_clones(root) or not checkpoint.concerns(root, name):
        return {}
    there, mine = read(root, name), live_file.at(path)
    if superseded(there, mine, live_file.identity(path.parent)):
        asleep = sorted(there.layer.asleep.keys() - mine.asleep.keys()) if there else []
        if asleep:
            hint = "nothing was applied; run it again: what is on by then is found so"
            raise Retryable(f"another clone replaced the live layer meanwhile, with {', '.join(asleep[:5])} asleep", hint=hint)
        return {}
    known = there.layer if there else Layer()
    return {} if (known.power, known.grants) == (mine.power, mine.grants) else {VARIABLES["share"]: KEEP}


def _steady() -> float:
    """A clock that is never set, and goes on while the machine is suspended. [s]"""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Leadership:
    """One autopilot among those of all clones. `lease`: for which it leads unless it renews that [s].

    `leads`: it takes the lease, and does not only respect that of others, as one does that ends after one decision.
    """

    root: Path
    name: str
    say: Say
    lease: float
    leads: bool = True
    #: When it asked for the lease that it has, and for that of the run that goes on. [s of the steady clock]
    _since: float | None = None
    _asked: float = 0.0
    _fetched: float | None = None
    #: Generation of the layer that the state has.
    _generation: int = 0
    #: The leader that it saw last, when it saw that first, and for how long it did not renew its lease. [s]
    _other: Leader | None = None
    _seen: float = 0.0
    _watched: float = 0.0
    _late: str = ""

    @property
    def _path(self) -> Path:
        path = Files.of(self.root, self.name).live
        assert path is not None, "a stack of a fleet repository has one"
        return path

    @property
    def shared(self) -> bool:
        """May there be others?"""
        return checkpoint.shared_by_clones(self.root) and checkpoint.concerns(self.root, self.name)

    @property
    def due(self) -> bool:
        """Is it time to renew the lease?"""
        return self.shared and self.leads and (self._since is None or _steady() - self._since >= self.lease / 2)

    def variables(self) -> dict[str, str]:
        """Of an `up` that puts this clone's layer into the state."""
        self._asked = _steady()
        if not self.shared or not self.leads:
            return {VARIABLES["share"]: KEEP}
        who = f"{os.uname().nodename} process {os.getpid()}"
        me = live_file.identity(self._path.parent)
        leader = Leader(id=me, who=words(who)[:160], at=time.time(), lease=self.lease, watched=self._watched)
        return {VARIABLES["share"]: leader.model_dump_json()}

    def begin(self) -> None:
        """May this autopilot decide now? It takes the lease, if it does not have it, or could not renew it well before its end.

        Raises Retryable where another one leads, and where the lease cannot be taken now.
        """
        if not self.shared:
            return
        if self._since is not None and _steady() - self._since >= 0.8 * self.lease:
            self._since = None
        if self._since is None or self._fetched is None or _steady() - self._fetched >= min(30.0, self.lease / 6):
            try:
                self._fetch()
            except Retryable as error:
                if self._since is None:
                    raise
                self._late = str(error)
        if self._since is None and self.leads:
            self.push()

    def confirm(self) -> None:
        """Before nodes are changed without an `up`: is the layer still that of all clones? Raises Retryable."""
        if self.shared:
            generation = live_file.at(self._path).generation
            self._fetch()
            if live_file.at(self._path).generation != generation:
                raise Retryable("another clone replaced the live layer meanwhile", after=5)

    def _fetch(self) -> None:
        there = read(self.root, self.name)
        self._fetched = _steady()
        checkpoint.taken(self.root, self.name, there)
        self._generation = there.layer.generation if there else 0
        leader = there.leader if there else None
        if leader is None or leader.id == live_file.identity(self._path.parent):
            self._other, self._watched = None, 0.0
            return
        self._since = None
        if self._other != leader:
            self._other, self._seen = leader, self._fetched
        self._watched = self._fetched - self._seen
        if leader.left(time.time()) > 0 and self._watched < leader.lease:
            raise Retryable(f"another autopilot leads: {leader}", after=min(30.0, leader.lease / 6))

    def push(self) -> None:
        """Put this clone's layer into the state, with the lease. No node is asked. Raises Retryable."""
        generation = live_file.at(self._path).generation
        self._up(self.variables())
        self.pushed(generation)

    def _up(self, more: Mapping[str, str]) -> None:
        arguments = ["up", "--yes", "--skip-preview", "--target", "**Live**"]
        done = engine.pulumi(self.root, self.name, arguments, self.say, capture=True, more={**_UNASKED, **more})
        if done.returncode:
            self._fetched = None
            raise Retryable(f"the live layer was not shared: {_first_error(done.stdout)}", after=5)

    def tell(self) -> None:
        """What was written in this clone is known to all from now on. Raises Retryable where that has to wait."""
        if self.shared and live_file.at(self._path).generation != self._generation:
            self.push()

    def pushed(self, generation: int) -> None:
        """An `up` has put that into the state, and renewed the lease."""
        self._since = self._asked if self.leads else None
        self._generation, self._late, self._watched = generation, "", 0.0

    def settle(self) -> None:
        """At the end of a tick: share what is not, and renew the lease if it is time. What is in the way is said once.

        Nothing is lost by a push that has to wait: the next tick tries again, until the lease is nearly over.
        """
        try:
            self.push() if self.due else self.tell()
        except Retryable as error:
            if str(error) != self._late:
                self.say(f"shared later: {error}")
            self._late = str(error)

    def end(self) -> None:
        """Release the lease."""
        if self._since is None or not self.shared:
            return
        self._since = None
        try:
            self._up({VARIABLES["share"]: RELEASE})
        except Retryable as error:
            self.say(f"the lease as the leader was not released, and ends by itself: {error}")


#: No node is asked by an `up` of the live layer alone, and one backup of the state is enough: the history has a copy as well.
_UNASKED: Mapping[str, str] = {
    VARIABLES["offline"]: "1",
    VARIABLES["frozen"]: "1",
    "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
}


def _first_error(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").splitlines()]
    found = [line for line in lines if "error: " in line] or [line for line in lines if "error" in line.lower()]
    return printable(without_passwords((found or ["no error was printed"])[0])[:300])
