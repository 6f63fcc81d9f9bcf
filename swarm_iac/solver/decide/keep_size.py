"""Does what runs keep running while it cannot grow?

A replica whose workload asks for another size may find no place with it. Then the workload keeps the size that it has, all
its replicas together, and the rest is decided beside that. So a job ends for its own growth only where it says so
(`on_grow: stop`), and otherwise only for a higher priority, as any other.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, replace
from functools import partial

from swarm_iac.model import growth
from swarm_iac.model.placement import Allocation, Growing, Placement, Reason, Unplaced, Waiting
from swarm_iac.model.resources.table import held_of
from swarm_iac.model.stack import Stack
from swarm_iac.solver.decide.solve import unexplained
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import GANG, Causes, capacity_of, conflict
from swarm_iac.solver.explain.lacking import code, lacking
from swarm_iac.solver.repair.assembly import missing_of
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.solution import Solution
from swarm_iac.solver.unexplained import Unexplained

Sizes = dict[str, tuple[Allocation, int]]
#: So often those that found no place with their new size keep the old one, before all do.
TRIES = 4
#: Of so many that wait to grow the reasons are looked for beside what stands then.
SEEN = 20


@dataclass(frozen=True)
class Kept:
    """A stack in which nothing grows that cannot, and its solution, to be compared with others: without bounds and reasons.

    `told`: the same with them, and what is said of those that wait to grow; bounded with so many times the usual effort.
    `barred`: has somebody that ran capacity, and only its devices are taken? `improved`: of `Unexplained`.
    """

    stack: Stack
    solution: Solution
    told: Callable[[int], Solution]
    barred: Callable[[], bool]
    improved: Callable[[int], Kept] | None = None


def solve_keeping(
    stack: Stack, last: Placement, *, today: datetime.date | None = None, watch: Watch | None = None
) -> tuple[Stack, Solution]:
    """The stack in which nothing grows that cannot, and its solution, whose placement names what waits to grow."""
    found = keeping(stack, last, today=today, watch=watch)
    return found.stack, found.told(1)


def keeping(stack: Stack, last: Placement, *, today: datetime.date | None = None, watch: Watch | None = None) -> Kept:
    """The same before anybody asks how good it is, and why something is pending.

    Where something that ran loses its place, it is solved with nothing growing, too: more than is lost there of a priority
    is never lost. Then those that found no place keep their size, and this is repeated a few times; where that is not
    enough, all do. A replica that lost its slot since others take its devices restarts with different ones, beside all that
    was decided; what waits to grow does so where others that lost their slots left it capacity; and who held more than a
    limit allows gets what the limit admits beside those that stay. For all of that nobody moves.
    """
    found = _growing(stack, last, today, watch)
    placement = found.solution.placement
    grows = any(_fits(stack, found.stack, placement, one.workload, today) for one in placement.growing)
    if not grows and not found.barred() and not (placement.unplaced and _back_under(stack, last, placement, today)):
        return found
    bare = placement.model_copy(update={"unplaced": (), "growing": ()})
    still = stack.model_copy(update={"solve": stack.solve.model_copy(update={"moves": 0})})
    more = _growing(still, bare, today, watch)
    if not _only_more(last, placement, more.solution.placement):
        return found

    def told(times: int) -> Solution:
        return more.told(times).model_copy(update={"moves": found.solution.moves})

    then = stack if more.stack is still else more.stack.model_copy(update={"solve": stack.solve})
    return replace(more, stack=then, solution=more.solution.model_copy(update={"moves": found.solution.moves}), told=told)


def _back_under(stack: Stack, last: Placement, placement: Placement, today: datetime.date | None) -> bool:
    """Is a limit kept again that was exceeded? Until then it admitted nobody."""
    before = {(one.scope, one.resource, one.model) for one in snapshot_of(stack, last, today).over}
    if not before:
        return False
    return not before <= {(one.scope, one.resource, one.model) for one in snapshot_of(stack, placement, today).over}


def _only_more(last: Placement, before: Placement, after: Placement) -> bool:
    """Does everybody keep place and devices, and somebody start or get a larger size?

    Who ran, and lost its place in the same change, does not come up on another node: that would be a move that no budget
    counts.
    """
    now, ran, stands = after.by_name(), last.by_name(), before.by_name()
    if any(name in ran and ran[name].node != one.node for name, one in now.items() if name not in stands):
        return False
    pairs = [(one, now.get(one.name)) for one in before.allocations]
    for was, one in pairs:
        if one is None or one.node != was.node or not {*was.cards} <= {*one.cards} or not {*was.cpus} <= {*one.cpus}:
            return False
        if any(small > large for small, large in zip(held_of(was), held_of(one), strict=True)):
            return False
    return len(now) > len(pairs) or before.allocations != after.allocations


def _growing(stack: Stack, last: Placement, today: datetime.date | None, watch: Watch | None) -> Kept:
    sizes = _sizes(stack, last)

    def tried(names: Collection[str], *, trial: bool) -> Unexplained:
        now = _at_sizes(stack, {name: sizes[name] for name in names})
        return unexplained(now, last, today=today, watch=watch, trial=trial)

    found = tried((), trial=bool(sizes))
    ran = {one.workload for one in last.allocations}
    if not sizes or not _lost(found, last):
        return _as_decided(stack, found, ran)
    base = tried(sizes, trial=False)
    floor = _by_priority(stack, _lost(base, last))

    def loses_more(other: Unexplained) -> bool:
        return any(count > floor[priority] for priority, count in _by_priority(stack, _lost(other, last)).items())

    waits: dict[str, Callable[[], Waiting]] = {}
    tries = 0
    while loses_more(found):
        losing = (one for one, _ in _lost(found, last) if one.workload in sizes.keys() - waits.keys())
        fresh = {one.workload: partial(found.why, one) for one in losing}
        if not fresh or tries == TRIES:
            break
        waits |= fresh
        tries += 1
        found = tried(waits, trial=True) if waits.keys() != sizes.keys() else base
    if _lost(found, last) and not loses_more(found) and found is not base:
        found = tried(waits, trial=False)  # what it stops is followed
    if loses_more(found):
        waits, found = {name: waits.get(name) or partial(_pushing, name) for name in sizes}, base
    bare = found.placed()
    stand = {one.workload for one in bare.placement.going()}
    # What has no place at its old size either asks for what is written.
    gone, waits = waits.keys() - stand, {name: why for name, why in waits.items() if name in stand}
    now = _at_sizes(stack, {name: sizes[name] for name in waits}) if waits else stack

    def told(times: int) -> Solution:
        answer = found.explained(times)
        if gone:
            answer = _asking(now, last, answer, gone, today)
        if not waits:
            return answer
        growing = tuple(
            (beside(stack, now, answer.placement, name, today) if turn < SEEN else None) or _as_named(name, waits[name]())
            for turn, name in enumerate(sorted(waits))
        )
        placement = growth.with_sizes(stack, answer.placement.model_copy(update={"growing": growing}))
        return answer.model_copy(update={"placement": placement})

    if gone:
        bare = _asking(now, last, bare, gone, today, reasons=False)
    placement = bare.placement.model_copy(update={"growing": tuple(Growing(workload=name) for name in sorted(waits))})
    return Kept(now, bare.model_copy(update={"placement": placement}), told, partial(found.lacks_devices, ran - gone))


def _as_decided(stack: Stack, found: Unexplained, ran: Set[str]) -> Kept:
    further = found.improved
    improved = (lambda times: _as_decided(stack, further(times), ran)) if further else None
    return Kept(stack, found.placed(), found.explained, partial(found.lacks_devices, ran), improved)


def _asking(
    now: Stack, last: Placement, told: Solution, gone: Set[str], today: datetime.date | None, *, reasons: bool = True
) -> Solution:
    """With all that these lack of what is written, of which nothing stands, in place of what they lack of their old size."""
    before, beside_it = (snapshot_of(now, one, today) for one in (last, told.placement))
    causes = Causes(capacity_of(beside_it, told.placement))

    def as_written(one: Unplaced) -> Unplaced:
        request = beside_it.requests[one.workload]
        more: dict[str, object] = {"missing": missing_of(before, before.requests[one.workload], set())}
        if reasons and (found := causes.of(request)):
            more |= {"reasons": found, "code": code(found), "nodes": lacking(causes.seen(request), request)}
        return one.model_copy(update=more)

    unplaced = tuple(as_written(one) if one.workload in gone else one for one in told.placement.unplaced)
    return told.model_copy(update={"placement": told.placement.model_copy(update={"unplaced": unplaced})})


def _as_named(name: str, why: Waiting) -> Growing:
    return Growing(workload=name, code=why.code, nodes=why.nodes, reasons=why.reasons)


def _grown(
    stack: Stack, now: Stack, placement: Placement, name: str, today: datetime.date | None, *, whole: bool = False
) -> tuple[Causes, WorkloadRequest]:
    """All of a workload in its new size, asked for beside what else stands."""
    requested = now.model_copy(update={"workloads": {**now.workloads, name: stack.workloads[name]}})
    snapshot = snapshot_of(requested, placement, today)
    rest = tuple(one for one in placement.allocations if one.workload != name or one.ended)
    request, count = snapshot.requests[name], len(placement.allocations) - len(rest)
    if not request.gang:  # all of it grows, or nothing does
        count = request.members if whole else count
        request = replace(request, gang=count > 1, members=count, wanted=count)
    return Causes(capacity_of(snapshot, placement.model_copy(update={"allocations": rest}))), request


def _fits(stack: Stack, now: Stack, placement: Placement, name: str, today: datetime.date | None) -> bool:
    """Has all of it a place in its new size beside what stands? Others that lost theirs may have left it."""
    causes, request = _grown(stack, now, placement, name, today)
    return not conflict(causes.capacity, request)


def beside(
    stack: Stack, now: Stack, placement: Placement, name: str, today: datetime.date | None, *, whole: bool = False
) -> Growing | None:
    """Why all of a workload has no place as `stack` asks for it, beside what else stands; None where it has one.

    `now`: the stack of what stands, in which it asks for what it has. `whole`: with all its replicas, also those that do not
    run.
    """
    causes, request = _grown(stack, now, placement, name, today, whole=whole)
    capacity = causes.seen(request)
    if not conflict(capacity, request):
        return None
    reasons = causes.of(request)
    if stack.workloads[name].gang is None:
        reasons = tuple(of_replicas(one, name) for one in reasons)
    return Growing(workload=name, code=code(reasons), nodes=lacking(capacity, request), reasons=reasons)


def of_replicas(reason: Reason, name: str) -> Reason:
    """The reason of a gang, of replicas that grow together."""
    text = reason.text.replace("members run or none", "members grow or none").replace(" members", " replicas")
    path = f"workloads.{name}.replicas" if reason.rule == GANG else reason.path
    return reason.model_copy(update={"text": text, "path": path})


def _at_sizes(stack: Stack, sizes: Sizes) -> Stack:
    smaller = {name: growth.at_size(stack.workloads[name], one, count) for name, (one, count) in sizes.items()}
    return stack.model_copy(update={"workloads": {**stack.workloads, **smaller}})


def _sizes(stack: Stack, last: Placement) -> Sizes:
    """One replica, and how many there are, of each workload that runs in one size and asks for another.

    Who has to leave a node keeps its size, too.
    """
    running: dict[str, list[Allocation]] = {}
    done = Counter(one.workload for one in last.allocations if one.ended)
    for one in last.going():
        workload = stack.workloads.get(one.workload)
        if workload is not None and (workload.gang is None or one.index < workload.members):
            running.setdefault(one.workload, []).append(one)
    found = {}
    for name, ones in running.items():
        request, count = stack.workloads[name], len(ones) + done[name]
        alike = len({held_of(one) for one in ones}) == 1
        if request.on_grow == "keep" and alike and growth.at_size(request, ones[0], count) != request:
            found[name] = ones[0], count
    return found


def _lost(found: Unexplained, last: Placement) -> list[tuple[Unplaced, int]]:
    """Workloads of which something that ran has no place, and how many replicas of each."""
    ran = {one.name for one in last.allocations}
    counts = [(gone, sum(f"{gone.workload}-{i}" in ran for i in gone.missing)) for gone in found.solution.placement.unplaced]
    return [(gone, count) for gone, count in counts if count]


def _by_priority(stack: Stack, lost: list[tuple[Unplaced, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one, count in lost:
        found[stack.workloads[one.workload].priority] += count
    return found


def _pushing(name: str) -> Unplaced:
    """A gang that wants more members weighs as much as what runs of it, and could take the place of others."""
    text = "to grow it would take the place of what runs, of the same priority"
    reason = Reason(rule="equals_are_not_stopped", text=text, path=f"workloads.{name}")
    return Unplaced(workload=name, missing=(), code="Resources", reasons=(reason,))
