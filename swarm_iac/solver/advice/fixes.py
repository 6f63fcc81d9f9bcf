"""Which small changes would place a workload, and what would each cost the others? Every answer was solved.

Relaxations lift the rules of the conflict one at a time, cheapest first. Where no single one is enough, the conflict that is
left after it is lifted as well, and so on to DEPTH edits: a hitting set of the conflicts, grown breadth first.

On a fleet of more than TINY pairs (workload, node) a whole solve takes a second, most of it in search of capacity for what else
is pending. There, what finds a place at once is looked for first: all that runs stays, and what is new takes what is free,
by priority. Only so many solves as SEARCHES search. On a LARGE fleet an answer at once is one.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from swarm_iac.model.edit import Edit, changed, current
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.advice.offer import Kind, Relaxation
from swarm_iac.solver.advice.relaxations import Relaxations
from swarm_iac.solver.advice.runner_up import placed_only
from swarm_iac.solver.decide.solve import unexplained
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import GANG, Causes, capacity_of
from swarm_iac.solver.explain.counting import CEILING_RULES, EVERY
from swarm_iac.solver.explain.facts import Conflict, conflict_of
from swarm_iac.solver.explain.model_limits import MODEL_RULES
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT
from swarm_iac.solver.solution import Fix, Solution

KINDS: tuple[Kind, ...] = ("limit", "node", "move", "request")
#: So many fixes of each kind are shown.
MOST = 3
#: So many offers of each kind are solved.
TRIES = 6
#: At most so many edits together, and so many solves to find them.
DEPTH, TOGETHER = 3, 24
#: Above so many pairs (workload, node) few solves search; the others end with what is placed at once.
TINY, SEARCHES, TOGETHER_AT_ONCE = 300, 2, 6
#: Above so many a solve takes a second before it searches: less is tried, and searches have less effort.
LARGE, TRIES_LARGE, SEARCHES_LARGE, TOGETHER_LARGE = 60_000, 2, 1, 2
#: More moves than any fleet has allocations.
ENDLESS_MOVES = 1_000_000
#: What no move of others changes: ceilings on what a user, a team or the cluster holds, what a node is, and a gang's size.
UNMOVED = frozenset((*CEILING_RULES, GANG, *(one.name for one in FIT)))
assert EVERY | {GANG} >= UNMOVED
#: Those that are limits.
CEILINGS = frozenset((*CEILING_RULES, *MODEL_RULES))


@dataclass
class Bench:
    """One workload without a place, and what is needed to try a change. `last` is what a solve starts from.

    `tell` hears what is tried. `tiny`: up to so many pairs (workload, node) every offer is searched. `most`: so many of each
    kind are an answer. Once the watch is stopped nothing more is found.
    """

    stack: Stack
    placement: Placement
    workload: str
    last: Placement
    today: datetime.date | None
    tell: Callable[[str], None] = lambda text: None
    watch: Watch = field(default_factory=Watch)
    tiny: int = TINY
    most: int = MOST

    def __post_init__(self) -> None:
        self.pairs = len(self.stack.nodes) * len(self.stack.workloads)
        self.searches = 0

    def fix(self, kind: Kind | Literal["together"], edits: tuple[Edit, ...], *, at_once: bool = False) -> Fix | None:
        """The edits as a fix, if solving with them places the workload whole; `at_once`: without a search."""
        if self.watch.stopped:
            return None
        stack = self.stack
        for edit in edits:
            stack = changed(stack, edit)
        self.tell(" ".join(map(str, edits)))
        self.searches += not at_once
        found = self._solved(stack, self._ended() if at_once else self.watch)
        if self.watch.stopped or self._missing(found):
            return None
        was = tuple(current(self.stack, edit.path) for edit in edits)
        return Fix(kind=kind, edits=edits, was=was, **price(stack, found, self.placement, self.last, self.workload))

    def needed_moves(self, conflict: Conflict) -> int | None:
        """How many moves would free enough capacity, if there were no budget; None where moving does not help.

        What else is pending is left out: capacity is freed for this workload alone.
        """
        if self.watch.stopped or (conflict.rules and UNMOVED.issuperset(conflict.rules)):
            return None
        self.tell("moving what runs")
        alone = changed(placed_only(self.stack, self.placement, besides=self.workload), _MOVING)
        self.searches += 1
        found = self._solved(alone, self.watch)
        if self.watch.stopped or self._missing(found):
            return None
        return sum(1 for move in found.moves if move.target and not move.forced)

    def _solved(self, stack: Stack, watch: Watch) -> Solution:
        if self.pairs > LARGE and stack.solve.effort != "quick":
            stack = changed(stack, Edit(path="solve.effort", value="quick"))
        return unexplained(stack, self.last, today=self.today, watch=watch).placed()

    def _missing(self, found: Solution) -> bool:
        return any(gone.workload == self.workload for gone in found.placement.unplaced)

    def _ended(self) -> Watch:
        """Of a search that ends before it begins: all that runs stays, and what is new takes what is free."""
        watch = Watch()
        watch.stop()
        return watch


_MOVING = Edit(path="solve.moves", value=ENDLESS_MOVES)


def price(
    stack: Stack, found: Solution, placement: Placement, last: Placement, workload: str, others: Set[str] = frozenset()
) -> dict[str, Any]:
    """What becomes of what runs, as `swarm up` would do it with the edits: what is decided may not be applied yet.

    What stood on a machine that is given up is not stopped by anyone. `others`: who is in another variant than in `placement`,
    and may have other replicas; which of them are pending is said by `found` alone.
    """
    now = found.placement.by_name()
    ran = {a.name: a for a in last.going() if a.node in stack.nodes and stack.nodes[a.node].state != "lost"}
    moves = tuple(one for one in found.moves if one.target)
    moved = {one.name for one in moves}
    both = [(a, now[name]) for name, a in ran.items() if name in now and name not in moved]
    gone = [a.name for a in placement.going() if a.name not in now and a.workload not in {workload, *others}]
    waited = {*_pending(placement)}
    gone += [name for name in _pending(found.placement, others - {workload}) if name not in waited]
    new, waits = [name for name in gone if name not in ran], {*_pending(found.placement)}
    return {
        "moves": moves,
        "restarts": tuple(was.name for was, to in both if was.gpus != to.gpus or not set(was.numa) <= set(to.numa)),
        "stops": tuple(name for name in ran if name not in now),
        "displaced": tuple(name for name in new if name in waits),
        "dropped": tuple(name for name in new if name not in waits),
    }


def _pending(placement: Placement, of: Set[str] | None = None) -> list[str]:
    """The replicas without a place, of all workloads or of these."""
    return [f"{one.workload}-{i}" for one in placement.unplaced if of is None or one.workload in of for i in one.missing]


def fixes(
    bench: Bench, capacity: FreeCapacity, conflict: Conflict, moves: int | None, so_far: Callable[[tuple[Fix, ...]], None]
) -> tuple[Fix, ...]:
    """The cheapest fixes of each kind, for the conflict at this capacity. `so_far` receives them whenever there is one more.

    `moves`: what `needed_moves` found.
    """
    relaxations = _relaxations(bench, capacity, capacity.snapshot.requests[bench.workload], conflict)
    if moves is not None and moves > bench.stack.solve.moves:
        relaxations.append(Relaxation("move", Edit(path="solve.moves", value=moves), 100 * moves, True))
    found = _Found(relaxations, so_far, bench.most)
    if bench.pairs <= bench.tiny:
        for kind in KINDS:
            for relaxation in found.of(kind)[:TRIES]:
                found.add(relaxation, bench.fix(kind, (relaxation.edit,)))
    else:
        _tried(bench, found)
    _all_limits(
        bench, found, Relaxations(bench.stack, capacity, capacity.snapshot.requests[bench.workload], bench.today), conflict
    )
    return found.shown() or _together(bench, relaxations)


def first_of_each_kind(found: Iterable[Fix]) -> Iterator[Fix]:
    """Those that are shown: so many of each kind."""
    counts = Counter[str]()
    for fix in found:
        counts[fix.kind] += 1
        if counts[fix.kind] <= MOST:
            yield fix


def _all_limits(bench: Bench, found: _Found, offers: Relaxations, conflict: Conflict) -> None:
    """Where limits of several levels are in the way (of a team, and of one around it), raising only one helps nobody."""
    if found.fixes["limit"] or CEILINGS.isdisjoint(conflict.rules):
        return
    edits = offers.ceilings()
    fix = bench.fix("limit", edits, at_once=bench.pairs > LARGE) if len(edits) > 1 else None
    if fix is not None:
        found.put("limit", 0, fix)


class _Found:
    """The fixes so far, from relaxations in the order in which they are best tried."""

    def __init__(self, relaxations: Sequence[Relaxation], so_far: Callable[[tuple[Fix, ...]], None], most: int) -> None:
        self.relaxations, self.so_far, self.most = relaxations, so_far, most
        self.fixes: dict[Kind, list[tuple[int, Fix]]] = {kind: [] for kind in KINDS}

    def of(self, kind: Kind) -> list[Relaxation]:
        """The offers of one kind."""
        return [relaxation for relaxation in self.relaxations if relaxation.kind == kind]

    def add(self, relaxation: Relaxation, fix: Fix | None) -> None:
        """What came of an offer; None: it does not place the workload."""
        if fix is not None:
            self.put(relaxation.kind, relaxation.change, fix)

    def put(self, kind: Kind, change: int, fix: Fix) -> None:
        """One more, with the size of its change."""
        self.fixes[kind].append((change, fix))
        self.so_far(self.shown())

    def shown(self) -> tuple[Fix, ...]:
        """The cheapest of each kind."""
        found: list[Fix] = []
        for made in self.fixes.values():
            made.sort(key=lambda one: (_lost(one[1]), len(one[1].moves), one[0]))
            found += [fix for _, fix in made[: self.most]]
        return tuple(found)


def _lost(fix: Fix) -> int:
    return len(fix.stops) + len(fix.displaced) + len(fix.dropped)


def _tried(bench: Bench, found: _Found) -> None:
    """What finds a place at once, and then, as far as SEARCHES reach, the same with a search: only that is reported.

    On a LARGE fleet the first is reported, and searches are for where that gives nothing.
    """
    large = bench.pairs > LARGE
    sure: list[tuple[bool, int, Relaxation]] = []
    unsure: list[Relaxation] = []
    for kind in KINDS:
        placed: list[Relaxation] = []
        rest: list[Relaxation] = []
        for relaxation in found.of(kind)[: TRIES_LARGE if large else TRIES]:
            at_once = kind != "move" and (relaxation.whole or not large)
            fix = bench.fix(kind, (relaxation.edit,), at_once=True) if at_once else None
            if large:
                found.add(relaxation, fix)
            (placed if fix else rest).append(relaxation)
        ordered = [*placed, *(relaxation for relaxation in rest if relaxation.whole)]
        sure += [(kind != "move", turn, relaxation) for turn, relaxation in enumerate(ordered)]
        unsure += [relaxation for relaxation in rest if not relaxation.whole]
    # Moves first, then the first of each kind, then the second of each: the sort keeps the order of kinds.
    sure.sort(key=lambda one: one[:2])
    for later, _, relaxation in sure:
        if not later or (bench.searches < SEARCHES and not large) or (bench.searches < SEARCHES_LARGE and not found.shown()):
            found.add(relaxation, bench.fix(relaxation.kind, (relaxation.edit,)))
    for relaxation in unsure:
        if bench.searches < SEARCHES_LARGE and not found.shown():
            found.add(relaxation, bench.fix(relaxation.kind, (relaxation.edit,)))


def _relaxations(bench: Bench, capacity: FreeCapacity, request: WorkloadRequest, conflict: Conflict) -> list[Relaxation]:
    """What could lift the conflict."""
    return Relaxations(capacity.snapshot.stack, capacity, request, bench.today).of(conflict)


def _more(bench: Bench, edits: tuple[Edit, ...]) -> list[Relaxation]:
    """What could lift the conflict that is left after the edits."""
    stack = bench.stack
    for edit in edits:
        stack = changed(stack, edit)
    snapshot = snapshot_of(stack, bench.placement, bench.today)
    request = snapshot.requests[bench.workload]
    capacity = Causes(capacity_of(snapshot, bench.placement)).seen(request)
    taken = {edit.path for edit in edits}
    return [
        relaxation
        for relaxation in _relaxations(bench, capacity, request, conflict_of(capacity, request))
        if relaxation.edit.path not in taken
    ]


def _together(bench: Bench, relaxations: list[Relaxation]) -> tuple[Fix, ...]:
    """Two edits at once, or three; the fewest that were found."""
    at_once, large = bench.pairs > bench.tiny, bench.pairs > LARGE
    left = TOGETHER_LARGE if large else TOGETHER_AT_ONCE if at_once else TOGETHER
    width = TRIES_LARGE if large else TRIES
    front: list[tuple[tuple[Edit, ...], int]] = [((relaxation.edit,), relaxation.change) for relaxation in relaxations]
    found: list[Fix] = []
    seen: set[frozenset[str]] = set()  # the same edits in another order are no other fix
    for _ in range(DEPTH - 1):
        wider: list[tuple[tuple[Edit, ...], bool, int]] = []
        for edits, change in front[:width]:
            if bench.watch.stopped:
                break
            for relaxation in _more(bench, edits)[:width]:
                both = (*edits, relaxation.edit)
                if frozenset(map(str, both)) not in seen:
                    wider.append((both, relaxation.whole, change + relaxation.change))
                seen.add(frozenset(map(str, both)))
        wider.sort(key=lambda one: (not one[1], one[2], str(one[0])))
        for edits, whole, _ in wider[:left]:
            paths = {edit.path for edit in edits}
            if (at_once and not whole) or any(paths == {edit.path for edit in fix.edits} for fix in found):
                continue  # of the same keys the smaller change was tried first
            left -= 1
            fix = bench.fix("together", edits, at_once=at_once)
            if fix and at_once and not large:
                fix = bench.fix("together", edits)
            if fix:
                found.append(fix)
            if len(found) == (1 if at_once else MOST):
                break
        if found or left <= 0:
            break
        front = [(edits, change) for edits, _, change in wider]
    return tuple(found)
