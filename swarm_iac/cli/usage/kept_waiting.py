"""What waited while a reservation did nothing? Each state of the repository that was in force is solved again without it.

A state is a stack file with its lock, as a commit has them. Of each state in which something was pending:

    kept(R) = placed(solve(without R)) - placed(solve(as it was))      R: one idle allocation, or all of them together

Only what a new solve of that state could not place in any case counts, and only where nobody else has less for it. Where all of
them together place nothing, none does alone, and none is tried.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_iac import git
from swarm_iac.accounting.in_force import InForce, Spans, common, seconds
from swarm_iac.decision import Decision, Progress, again, suppose
from swarm_iac.errors import StackFileError, SwarmError
from swarm_iac.model import deadline
from swarm_iac.model.edit import Edit
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from swarm_iac.stackfile import Loaded, load
from swarm_iac.stackfile.editing.overrides import edited
from swarm_iac.stackfile.locks import finished, lock
from swarm_iac.stackfile.locks.companions import Files, read_lock

if TYPE_CHECKING:
    from swarm_iac.solver import Watch

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Why a state or an allocation was not tried.
CUT = "time was up (--seconds)"
GONE = "its commit is not in this clone"
LATER = "it is not in the lock: live, or of another stack file"
ENDS = "it ends in that state by itself"
_PART = "it is a part of a gang, or of what `needs` asks for, and the rest worked"
_OTHERS = "others would have had less"
#: Placed in one solve: replicas and thousandths of GPUs of each workload.
_Placed = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Waited:
    """A workload that would have been placed. `replicas`, `gpu_milli`: the most at a time; `gpu_ms`: over all of it."""

    workload: str
    replicas: int
    gpu_milli: int
    seconds: int
    gpu_ms: int


@dataclass
class KeptWaiting:
    """By allocation, and by all together. `missing`: why nothing is said of an allocation in some state, and for how long [s].

    `states`: how many had something pending, and how many of them were tried.
    """

    alone: dict[str, list[Waited]] = field(default_factory=dict)
    together: list[Waited] = field(default_factory=list)
    missing: dict[tuple[str, str], int] = field(default_factory=dict)
    states: int = 0
    tried: int = 0

    def add(self, to: list[Waited], gains: _Placed, spans: Spans) -> None:
        """Count what would have been placed during these spans."""
        long = seconds(spans)
        if not long:  # they were never idle at the same time
            return
        for name, (replicas, milli) in sorted(gains.items()):
            old = next((one for one in to if one.workload == name), Waited(name, 0, 0, 0, 0))
            new = Waited(
                name, max(old.replicas, replicas), max(old.gpu_milli, milli), old.seconds + long, old.gpu_ms + milli * long
            )
            to[:] = [*(one for one in to if one.workload != name), new]

    def miss(self, names: Iterable[str], why: str, spans: Mapping[str, Spans]) -> None:
        """Say why nothing is known of them during these spans."""
        for name in names:
            self.missing[name, why] = self.missing.get((name, why), 0) + seconds(spans[name])


@dataclass
class _State:
    """What was in force, whenever it was. `held`: when each idle allocation held GPUs meanwhile."""

    commit: str
    since: int
    held: dict[str, Spans]


def kept_waiting(
    path: Path, periods: Sequence[InForce], held: Mapping[str, Spans], progress: Progress, budget: float
) -> KeptWaiting:
    """Of the stack file at `path`, in a clone of its repository. `held`: when each idle allocation held GPUs; `budget` [s].

    The newest state comes first. What was not tried when the time was up is in `missing`. Nothing is written.
    """
    found, until = KeptWaiting(), time.monotonic() + budget
    for state in _states(path, periods, held, found):
        if time.monotonic() >= until:
            found.miss(state.held, CUT, state.held)
            continue
        with _there(path, state) as (tree, files):
            try:
                _tried(files, state, found, _Limited(progress, until))
            except SwarmError as error:
                reason = str(error).splitlines()[0].replace(f"{tree}/", "")
                found.miss(state.held, f"that state cannot be solved: {reason}", state.held)
    return found


def _states(path: Path, periods: Sequence[InForce], held: Mapping[str, Spans], found: KeptWaiting) -> list[_State]:
    """Each content of stack file, lock and policies, the newest first."""
    folder, by_content = path.absolute().parent, dict[bytes, _State]()
    with git.borrowed(folder) as objects:
        inside = git.text(folder, "rev-parse", "--show-prefix")
        names = [os.path.normpath(f"{inside}{one}") for one in (path.name, f"{path.stem}.lock.yaml", "../policies")]
        for one in reversed(periods):
            mine = {name: both for name, spans in held.items() if (both := common(spans, ((one.since, one.until),)))}
            if not mine:
                continue
            # A name out of the store: only that of a commit is asked for.
            known = _COMMIT.fullmatch(one.commit)
            listed = objects.ask("ls-tree", "-z", one.commit, "--", *names, codes=range(256)) if known else None
            if listed is None or listed.returncode:
                found.miss(mine, GONE, mine)
                continue
            state = by_content.setdefault(listed.stdout, _State(one.commit, one.since, {}))
            for name, spans in mine.items():
                state.held[name] = tuple(sorted((*state.held.get(name, ()), *spans)))
    return list(by_content.values())


@contextlib.contextmanager
def _there(path: Path, state: _State) -> Iterator[tuple[Path, Files]]:
    """The files of a state, while they are needed."""
    folder = path.absolute().parent
    with git.work_tree(folder, state.commit) as tree:
        yield tree, Files(tree / git.text(folder, "rev-parse", "--show-prefix") / path.name)


def _tried(files: Files, state: _State, found: KeptWaiting, progress: _Limited) -> None:
    """Solve a state with all that it has, without all that was idle, and without each of them. Raises SwarmError."""
    moment = datetime.datetime.fromtimestamp(state.since, datetime.UTC)
    now = _at(files, moment)
    if not now.last.waiting():
        return
    found.states += 1
    there = now.last.by_name()
    absent = [name for name in state.held if name not in there]
    found.miss(absent, LATER, state.held)
    idle = {name: spans for name, spans in state.held.items() if name in there}
    try:
        _compared(now, idle, found, progress, moment.date())
    except TimeoutError:
        return
    found.tried += 1


def _compared(now: Decision, idle: Mapping[str, Spans], found: KeptWaiting, progress: _Limited, today: datetime.date) -> None:
    """Raises TimeoutError when time is up, with what was not tried counted as missing."""
    rest = set(idle)
    try:
        progress.phase("what-if: as it was")
        base = progress.whole(again(now, today=today, progress=progress))
        ends = rest - base.placement.by_name().keys()
        found.miss(ends, ENDS, idle)
        rest -= ends
        units, parts = _units(now, rest)
        found.miss(parts, _PART, idle)
        rest -= set(parts)
        every = [name for unit in units for name in unit]
        if not every:
            return
        gained = _gained(now, base, every, found, progress, today, idle)
        if gained is None:
            return
        found.add(found.together, *gained)
        if not gained[0]:
            return
        for number, unit in enumerate(units, 1):
            progress.phase(f"what-if {number} of {len(units)}: without {', '.join(unit[:3])}")
            alone = gained if len(units) == 1 else _gained(now, base, unit, found, progress, today, idle)
            if alone is not None:
                for name in unit:
                    found.add(found.alone.setdefault(name, []), *alone)
            rest -= set(unit)
    except TimeoutError:
        found.miss(rest, CUT, idle)
        raise


def _gained(
    now: Decision, base: Decision, names: list[str], found: KeptWaiting, progress: _Limited, today: datetime.date,
    idle: Mapping[str, Spans],
) -> tuple[_Placed, Spans] | None:  # fmt: skip
    """What is placed without these, and when all of them were idle. None where that cannot be said."""
    try:
        then = progress.whole(_without(now, names, today, progress))
    except StackFileError as error:
        found.miss(names, f"the stack file needs it: {error.problems[0].message}", idle)
        return None
    gains, less = _difference(base, then, names)
    if less:
        found.miss(names, _OTHERS, idle)
        return None
    spans = idle[names[0]]
    for name in names[1:]:
        spans = common(spans, idle[name])
    return gains, spans


def _at(files: Files, moment: datetime.datetime) -> Decision:
    """What ran by the lock at that moment, with what was to be drained by then drained. Raises StackFileError."""
    loaded = load(files.stack, today=moment.date())
    stack = deadline.at(loaded.stack, moment)
    nodes = {name: one.model_copy(update={"drain_by": None}) for name, one in stack.nodes.items()}
    loaded = replace(loaded, stack=stack.model_copy(update={"nodes": nodes}))
    last = finished.of_now(lock.renamed(read_lock(files.lock), loaded.stack), loaded.stack)
    root = files.stack.parent
    return Decision(files.stack.stem, root, files, loaded.stack, loaded.source, last, last, ("supposed",))


def _units(now: Decision, names: Iterable[str]) -> tuple[list[list[str]], list[str]]:
    """What can be taken away, each alone; and which of these are a part of what works as a whole."""
    there, by_workload = now.last.by_name(), defaultdict[str, list[str]](list)
    for name in sorted(names):
        by_workload[there[name].workload].append(name)
    units: list[list[str]] = []
    parts: list[str] = []
    for workload, ones in sorted(by_workload.items()):
        if _divides(now.written.workloads[workload]):
            units += [[one] for one in ones]
        elif len(ones) == sum(one.workload == workload for one in now.last.going()):
            units.append(ones)
        else:
            parts += ones
    return units, parts


def _divides(workload: Workload) -> bool:
    """Do its replicas work each for itself, in a number that no variant changes?"""
    varied = any(one.gang is not None or one.replicas is not None for one in workload.variants.values())
    return workload.gang is None and workload.needs is None and not varied


def _without(now: Decision, names: Iterable[str], today: datetime.date, progress: Progress) -> Decision:
    """The decision if these were neither there nor asked for; others take their numbers. Raises StackFileError."""
    away = frozenset(names)
    edits, ones = [], [one for one in now.last.allocations if one.name not in away]
    for name in sorted({one.workload for one in now.last.allocations if one.name in away}):
        workload = now.written.workloads[name]
        if not _divides(workload):
            edits.append(Edit(path=f"workloads.{name}", value=None))
            continue
        # Pending replicas of its own, which would do as little, do not take its place.
        left = sum(one.workload == name for one in ones)
        most = workload.replicas.most
        edits.append(Edit(path=f"workloads.{name}.replicas", value=f"{left}..{most}" if most > workload.members else left))
        ones = _numbered(ones, name)
    what = edited(Loaded(now.written, now.source), edits)
    last = now.last.model_copy(update={"allocations": tuple(sorted(ones, key=lambda one: one.name))})
    return suppose(replace(now, last=last), what, today=today, progress=progress)


def _numbered(ones: list[Allocation], workload: str) -> list[Allocation]:
    """The replicas of a workload, numbered from 0 in their order."""
    mine = sorted((one for one in ones if one.workload == workload), key=lambda one: one.index)
    numbered = [one.model_copy(update={"name": f"{workload}-{at}", "index": at}) for at, one in enumerate(mine)]
    return [one for one in ones if one.workload != workload] + numbered


def _difference(base: Decision, then: Decision, names: Iterable[str]) -> tuple[_Placed, bool]:
    """What `then` places more of each workload, and whether it has less of another one."""
    away = frozenset(names)
    before = _placed(one for one in base.placement.going() if one.name not in away)
    after = _placed(then.placement.going())
    gains: dict[str, tuple[int, int]] = {}
    for name in before.keys() | after.keys():
        (had, milli), (has, more) = before.get(name, (0, 0)), after.get(name, (0, 0))
        if has < had:
            return {}, True
        if has > had or more > milli:
            gains[name] = (has - had, max(0, more - milli))
    return gains, False


def _placed(ones: Iterable[Allocation]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for one in ones:
        replicas, milli = found.get(one.workload, (0, 0))
        found[one.workload] = (replicas + 1, milli + one.gpu_milli)
    return found


class _Limited:
    """Progress of solves that all end by one moment; what one of them has found by then is no answer."""

    def __init__(self, progress: Progress, until: float) -> None:
        self.progress, self.until = progress, until
        self.watches: list[Watch] = []

    def phase(self, text: str) -> None:
        """The current phase."""
        self.progress.phase(text)

    def watch(self, stack: Stack) -> Watch:
        """The watch of one solve, which is stopped when time is up."""
        made = self.progress.watch(stack)
        self.watches.append(made)
        timer = threading.Timer(max(0.0, self.until - time.monotonic()), made.stop)
        timer.daemon = True
        timer.start()
        return made

    def whole(self, decision: Decision) -> Decision:
        """The decision, if it was made in time. Raises TimeoutError."""
        if any(one.stopped for one in self.watches):
            raise TimeoutError
        return decision
