"""How is a fleet decided that no model holds? From nothing by columns, a change by freeing a few nodes at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import MappingProxyType

from swarm_iac.model.placement import Goal, Placement, Proof
from swarm_iac.solver.backend.cpsat import SEED
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import Bounds, level_bounds
from swarm_iac.solver.bounds.other_bounds import beside_it, with_others
from swarm_iac.solver.decide.by_columns import fill
from swarm_iac.solver.decide.by_columns import goals as goals_of_large
from swarm_iac.solver.decide.clearing import cleared, decided_beside, exchanged, fewer, kept_first
from swarm_iac.solver.decide.guided import guided
from swarm_iac.solver.decide.moves import moves_with_causes
from swarm_iac.solver.decide.proofs import UNSIGNED, preferences
from swarm_iac.solver.decide.small import AGAIN, complete
from swarm_iac.solver.exact.effort import (
    BESIDE,
    BOUNDS,
    EACH,
    EXCHANGED,
    FEWER,
    FREED,
    GUIDED,
    OTHERS,
    RUINED,
    columns,
    filling,
)
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.assembly import assemble, placement_of
from swarm_iac.solver.repair.fewest_moves import moves_goal
from swarm_iac.solver.repair.greedy import ORDERS, greedy
from swarm_iac.solver.repair.kinds import simple
from swarm_iac.solver.repair.neighbourhood import short
from swarm_iac.solver.repair.preempting import preempted, preempting
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.ruin_recreate import improved, value
from swarm_iac.solver.repair.undo_moves import eased, net
from swarm_iac.solver.repair.unsplitting import split_pairs, unsplit
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload, fixed_by, repair_task
from swarm_iac.solver.snapshot.value import total
from swarm_iac.solver.solution import Solution

#: The part of the effort of freeing capacity that freeing it again has.
AFRESH = 0.5
#: Where more workloads than this could take the place of lower ones, they do so before searches.
SEARCHED = 3
#: The goals of a placement with what bounds them; with so many times the usual effort.
Bounded = Callable[[int], tuple[Goal, ...]]


@dataclass(frozen=True)
class Unproven:
    """A solution. `bounded`: its goals, where bounds are not worked out yet. `further`: the next one after so many times
    EXCHANGED of effort, on a large fleet on which nothing runs.
    """

    solution: Solution
    bounded: Bounded | None = None
    further: Callable[[int], Unproven] | None = None


def filled(snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch) -> Unproven:
    """A large fleet on which nothing runs yet."""
    effort = snapshot.stack.solve.effort
    task = repair_task(snapshot, classified)
    watch.phase("placing all by priority")

    def late(counts: Pairs) -> Pairs:
        """With those whom others are near, and which these were placed before, being of a higher priority."""
        if not snapshot.sought:
            return counts
        return restored(snapshot, classified, preempted(snapshot, classified, counts, watch.ended), watch.ended)

    counts = late(greedy(task, watch.ended))
    rounds, known = 0, Bounds()
    watch.tell(goals_of_large(snapshot, counts, most, known))
    if any(request.gang for request in short(snapshot, counts)) and not watch.stopped:  # columns leave gangs where they are
        counts = max(
            (counts, *(greedy(task, watch.ended, order) for order in ORDERS[1:])), key=lambda one: total(snapshot, one)
        )
    partly = not complete(counts, most) and not watch.stopped
    if partly:
        watch.phase("filling nodes by columns")

        def better(found: Pairs) -> Pairs:
            return max(counts, found, key=lambda one: total(snapshot, one))

        def tell(found: Pairs, bounds: Bounds) -> None:
            watch.tell(goals_of_large(snapshot, better(found), most, bounds))

        answer = fill(task, counts, effort, filling(snapshot, watch), tell)
        counts, known, rounds = better(answer.counts), answer.bounds, answer.rounds
        # Columns leave these where greedy put them.
        if any(not simple(one) for one in short(snapshot, counts)) and not watch.stopped:
            watch.phase("improving the placement")
            led = guided(task, most, TimeLimit(watch.ended, GUIDED[effort]))
            counts = counts if led is None else max(counts, led, key=lambda one: value(snapshot, one))
            counts = better(improved(snapshot, counts, RUINED[effort], watch.ended))
    counts = late(counts)

    def with_bounds(counts: Pairs) -> Unproven:
        found = solution_of(snapshot, classified, counts, goals_of_large(snapshot, counts, most, known), rounds, watch)

        def bounded(_: int) -> tuple[Goal, ...]:  # a quarter of all effort is enough
            watch.phase("bounding what any placement could hold")
            limit = columns(snapshot, watch, large=True)
            of_levels = limit.part(BOUNDS["from nothing"])
            bounds = known if known.together else level_bounds(snapshot, counts, most, effort, of_levels)
            bounds = with_others(snapshot, counts, most, classified, bounds, limit.part(OTHERS["from nothing"]))
            return goals_of_large(snapshot, counts, most, bounds)

        def further(times: int) -> Unproven:
            watch.phase("improving the placement")
            found = exchanged(snapshot, classified, most, counts, watch, EXCHANGED[effort] * times)
            return with_bounds(decided_beside(snapshot, classified, most, found, watch, BESIDE[effort] * times))

        # Who stands for itself is placed as well by columns.
        together = partly and any(not simple(one) for one in short(snapshot, counts))
        return Unproven(found, bounded if partly else None, further if together else None)

    return with_bounds(counts)


def changed(snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch) -> Unproven:
    """A large fleet with a change."""
    effort = snapshot.stack.solve.effort
    watch.phase("placing what is new")
    task = repair_task(snapshot, classified)
    counts = fixed_by(task) + greedy(task, watch.ended)
    rounds, known = 0, Bounds()
    watch.tell(goals_of_large(snapshot, counts, most, known))
    before, partly = counts, not complete(counts, most) and not watch.stopped

    def of_levels(counts: Pairs, times: int = 1) -> Bounds:
        watch.phase("bounding what any placement could hold")
        limit = columns(snapshot, watch, large=True).part(BOUNDS["change"] * times)
        return level_bounds(snapshot, counts, most, effort, limit, classified=classified)

    if partly:
        if not snapshot.shares:  # where teams share GPUs, no bound says that nothing more is to be had
            known = of_levels(counts)
        watch.phase("freeing capacity for pending work")

        def pushed(snapshot: Snapshot, counts: Pairs) -> Pairs:
            found = restored(snapshot, classified, preempted(snapshot, classified, counts, watch.ended), watch.ended)
            return max(counts, found, key=lambda one: net(snapshot, classified, one))

        def freed(snapshot: Snapshot, part: float = 1.0) -> tuple[Pairs, int]:
            # Searches know who can move instead of stopping, and come to a few alone.
            start = pushed(snapshot, before) if len(preempting(snapshot, before)) > SEARCHED else before
            found, rounds = cleared(snapshot, classified, most, start, watch, FREED[effort] * part, known, EACH)
            found = pushed(snapshot, found)
            return eased(snapshot, classified, restored(snapshot, classified, found, watch.ended)), rounds

        counts, rounds = freed(snapshot)
        counts = _on_one(snapshot, classified, counts, lambda barred: freed(barred, AFRESH)[0], watch)
        if not watch.stopped:
            counts = kept_first(snapshot, classified, counts, watch.ended)
    watch.phase("counting the fewest moves")
    moves = moves_goal(snapshot, classified, counts)
    watch.tell((*goals_of_large(snapshot, counts, most, known), moves))
    counts, moves = fewer(snapshot, classified, counts, moves, watch, columns(snapshot, watch, large=True).part(FEWER))
    found = solution_of(snapshot, classified, counts, (*goals_of_large(snapshot, counts, most, Bounds()), moves), rounds, watch)

    def bounded(times: int) -> tuple[Goal, ...]:
        if snapshot.shares:
            bounds = of_levels(counts, times)
        else:
            bounds = beside_it(snapshot, counts, before, most, classified, known, watch.ended)
        limit = columns(snapshot, watch, large=True).part(OTHERS["change"] * times)
        deep = effort == "thorough" or times > 1  # a person waits for a change, and seldom for the proof on what has no GPUs
        others = with_others(snapshot, counts, most, classified, bounds, limit, replicas=deep)
        return goals_of_large(snapshot, counts, most, others)

    return Unproven(found, bounded if partly else None)


def _on_one(
    snapshot: Snapshot, classified: Classified, counts: Pairs, freed: Callable[[Snapshot], Pairs], watch: Watch
) -> Pairs:
    """The placement with nobody split who has to be on one NUMA node, or on linked GPUs.

    Where they find no place elsewhere for it, capacity is freed again, with no place for them where they were split: of what
    was freed nothing would be left else.
    """
    found: list[Pairs] = []
    barred = frozenset[tuple[str, str]]()
    while not watch.stopped and (pairs := split_pairs(snapshot, classified, counts)):
        found.append(unsplit(snapshot, classified, counts, watch.ended))
        whole = by_workload(found[-1]) == by_workload(counts)
        if whole or len(found) > AGAIN or watch.stopped or pairs <= barred:
            break
        barred |= pairs
        counts = freed(replace(snapshot, barred=barred))
    else:
        found.append(counts)
    return max(found, key=lambda one: net(snapshot, classified, one))


def bounded_anew(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], counts: Pairs, watch: Watch, times: int
) -> tuple[Goal, ...]:
    """What is placed with its bounds, some of it placed again: bounds beside what was there before say too little."""
    watch.phase("bounding what any placement could hold")
    what, effort = "change" if snapshot.running else "from nothing", snapshot.stack.solve.effort
    deep = not snapshot.running or effort == "thorough" or times > 1
    limit = columns(snapshot, watch, large=True)
    bounds = level_bounds(snapshot, counts, most, effort, limit.part(BOUNDS[what] * times), classified=classified)
    bounds = with_others(snapshot, counts, most, classified, bounds, limit.part(OTHERS[what] * times), replicas=deep)
    return goals_of_large(snapshot, counts, most, bounds)


def solution_of(
    snapshot: Snapshot,
    classified: Classified,
    counts: Pairs,
    goals: tuple[Goal, ...],
    rounds: int,
    watch: Watch,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Solution:
    """These replicas with their devices. `more`: what else the parameters of the proof say, which shows no optimum then."""
    goals = (*goals, *preferences(snapshot, counts, counted=not watch.stopped))
    watch.tell(goals)
    placement = with_devices(snapshot, classified, counts, watch)
    how = {"workers": 1, "seed": SEED, "effort": snapshot.stack.solve.effort, "rounds": rounds, **more}
    proof = Proof(
        optimal=not more and all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT and GLOP {version('ortools')}",
        parameters=how | ({"cut": "by hand"} if watch.stopped else {}),
        placement=UNSIGNED,
    )
    return Solution(placement=placement, proof=proof, moves=moves_with_causes(snapshot, classified, placement))


def with_devices(snapshot: Snapshot, classified: Classified, counts: Pairs, watch: Watch) -> Placement:
    """These replicas, each with its devices."""
    watch.phase("assigning devices")
    return placement_of(snapshot, assemble(snapshot, classified, counts))
