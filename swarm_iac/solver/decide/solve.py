"""Where does everything go? From a stack and the last placement to the next one, with its proof.

1  classify what runs and may stay
2  repair   decide only what has no place, greedily first; if everything finds one, no wider search can do better
   fill     where nothing runs columns decide on a large fleet, and are a second start on a small one
3  full     all workloads at once, where the model is small enough to be exact
   cleared  else, and where it proves too little: clear a few nodes for one unplaced workload after the other, by moving
            and evicting what is placed there
4  devices  replicas get indices, GPUs and CPUs; new ones that are split over NUMA nodes go where they are whole

Each step begins from an answer and keeps it where it finds no better one, so a search that fails or is ended costs a
proof and never a placement.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import MappingProxyType

from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver.backend.cpsat import SEED
from swarm_iac.solver.backend.linear import listening
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.balance.even import even
from swarm_iac.solver.bounds.gpu_bounds import Bounds, level_bounds
from swarm_iac.solver.bounds.other_bounds import beside_it, with_others
from swarm_iac.solver.decide import locality
from swarm_iac.solver.decide.clearing import cleared, exchanged, fewer, kept_first
from swarm_iac.solver.decide.evening import evened
from swarm_iac.solver.decide.filling_again import filled_again
from swarm_iac.solver.decide.guided import guided
from swarm_iac.solver.decide.large import fill
from swarm_iac.solver.decide.large import goals as goals_of_large
from swarm_iac.solver.decide.moves import moves_with_causes
from swarm_iac.solver.decide.proofs import (
    UNSIGNED,
    failed_after,
    preferences,
    proof_of,
    still_bounded,
    where_failed,
    with_failures,
    with_goals,
)
from swarm_iac.solver.decide.small import complete, decided
from swarm_iac.solver.exact.attempt import attempt
from swarm_iac.solver.exact.effort import (
    BOUNDS,
    EACH,
    EXCHANGED,
    FEWER,
    FREED,
    FROM_NOTHING,
    GUIDED,
    OTHERS,
    RUINED,
    columns,
    filling,
    in_all,
)
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.fewest_moves import moves_goal
from swarm_iac.solver.repair.greedy import ORDERS, greedy
from swarm_iac.solver.repair.kinds import simple
from swarm_iac.solver.repair.neighbourhood import short
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.ruin_recreate import improved, value
from swarm_iac.solver.repair.undo_moves import eased
from swarm_iac.solver.repair.unsplitting import split, unsplit
from swarm_iac.solver.shares.entitled import shared
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload, classify, fixed_by, full_task, repair_task
from swarm_iac.solver.snapshot.value import total
from swarm_iac.solver.solution import Solution
from swarm_iac.solver.unexplained import Unexplained

#: The goals of a placement with what bounds them, where that is not worked out yet; with so many times the usual effort.
Bounded = Callable[[int], tuple[Goal, ...]]


@dataclass(frozen=True)
class Scale:
    """From where on a fleet is large. `pairs`: up to so many (workload, node) all is decided at once; `nodes`: above so many
    columns fill an empty fleet first.
    """

    pairs: int = 60_000
    nodes: int = 100

    def large(self, snapshot: Snapshot) -> bool:
        """Has it too many pairs for one model?"""
        return len(snapshot.requests) * len(snapshot.nodes) > self.pairs


SCALE = Scale()


def solve(
    stack: Stack,
    last: Placement = Placement(),
    *,
    repair: bool = True,
    moves: int | None = None,
    today: datetime.date | None = None,
    watch: Watch | None = None,
    reasons: bool = True,
    scale: Scale = SCALE,
) -> Solution:
    """The next placement. `repair`: keep what may stay, within the move budget; else optimise all (`swarm rebalance`).

    `moves` bounds a rebalance; a repair has `stack.solve.moves`. `watch` sees each goal improve and may end the search:
    the answer is then the best so far, and the proof's parameters say so.
    Without `today` every limit exception holds. Without `reasons` nobody looks for those of what is pending.
    Pure: the same arguments give the same answer.
    """
    found = unexplained(stack, last, repair=repair, moves=moves, today=today, watch=watch, scale=scale)
    return found.explained() if reasons else found.bare()


def unexplained(
    stack: Stack,
    last: Placement = Placement(),
    *,
    repair: bool = True,
    moves: int | None = None,
    today: datetime.date | None = None,
    watch: Watch | None = None,
    scale: Scale = SCALE,
    trial: bool = False,
    times: int = 0,
) -> Unexplained:
    """The same before anybody looks for the reasons of what is pending: on a large fleet those are a third of the time.

    A `trial` is not followed where it stops something, so it is not searched again for what need not stop. On a large fleet
    on which nothing runs it is improved in the end with the effort of so many `times` EXCHANGED.
    """
    watch = watch or Watch()
    watch.phase("reading the fleet")
    whole = snapshot_of(stack, last, today)
    snapshot = without_slack(whole)
    classified = classify(snapshot)
    most = possible(snapshot, watch.ended)
    snapshot = shared(snapshot, most)
    whole = replace(whole, shares=snapshot.shares)
    large = scale.large(snapshot)

    def settled(found: Solution) -> Solution:
        if repair and not (large and watch.stopped):
            found = _whole(snapshot, classified, found, watch)
        return _on_one(snapshot, classified, most, found, watch)

    bounded: Bounded | None = None
    with listening() as failures:
        try:
            first, bounded = _best(snapshot, classified, most, moves, watch, scale, repair=repair, trial=trial, times=times)
            found = settled(first)
        except Exception as error:
            found = _on_one(snapshot, classified, most, rescued(snapshot, classified, most, error, watch), watch)
            bounded = None

    def proven(times: int) -> Solution:
        assert bounded is not None, "asked only where bounds are not known"
        with listening() as later:
            try:
                told = settled(with_goals(first, bounded(times), stopped=watch.stopped))
            except Exception as error:
                told = failed_after(found, error)
            if told.placement != found.placement:  # ended by hand meanwhile: what was decided stands
                told = found
        return with_failures(told, [*failures, *later])

    return Unexplained(with_failures(found, failures), whole, watch, large, proven if bounded else None)


def _whole(snapshot: Snapshot, classified: Classified, found: Solution, watch: Watch) -> Solution:
    """With what is new within one NUMA node, where that is possible at no cost to any goal but `nodes`."""
    ones = found.placement.allocations
    if not locality.needless(snapshot, classified, ones):
        return found
    counts: Pairs = Counter((a.workload, a.node) for a in ones)
    counts, ones = locality.whole(snapshot, classified, counts, ones)
    goals = {goal.name: goal for goal in found.proof.goals}
    counts, ones, goals = filled_again(snapshot, classified, counts, ones, goals, watch)
    placement = _placement_of(snapshot, ones)
    within = locality.goal(snapshot, classified, counts, ones, goals)
    nodes = goals.pop("nodes", None)
    watch.tell((within,))
    shown = [*goals.values(), within]
    if nodes is not None:
        shown.append(nodes.model_copy(update={"value": len({a.node for a in ones})}))
    optimal = found.proof.optimal and all(goal.value == goal.bound for goal in shown)
    proof = found.proof.model_copy(update={"goals": tuple(shown), "optimal": optimal})
    return found.model_copy(
        update={"placement": placement, "proof": proof, "moves": moves_with_causes(snapshot, classified, placement)}
    )


def _on_one(snapshot: Snapshot, classified: Classified, most: dict[str, int], found: Solution, watch: Watch) -> Solution:
    """With nobody split who has to be on one NUMA node, or on linked GPUs: who came out so is placed elsewhere, or waits.

    And evenly, if others count on those that went.
    """
    ones = found.placement.allocations
    apart = snapshot.local and bool(split(snapshot, classified, ones))
    if not apart and not snapshot.evened:
        return found
    before: Pairs = Counter((a.workload, a.node) for a in ones)
    if not apart and even(snapshot, before):
        return found
    counts = unsplit(snapshot, classified, before, watch.ended) if apart else before
    counts = evened(snapshot, classified, counts, watch.ended)
    placed = goals_of_large(snapshot, counts, most, Bounds())
    if all(by_workload(counts)[name] >= by_workload(before)[name] for name in snapshot.running):
        placed = still_bounded(placed, found.proof.goals)
    goals = (*placed, moves_goal(snapshot, classified, counts))
    how = f"some were placed again, each on one NUMA node{' or on linked GPUs' * snapshot.linked}"
    again = {"numa": how} if apart else {"balance": "some were placed again, evenly"}
    return _large_solution(snapshot, classified, counts, goals, 0, watch, again)


def rescued(snapshot: Snapshot, classified: Classified, most: dict[str, int], error: Exception, watch: Watch) -> Solution:
    """What stays and a greedy pass for the rest, bounded by counting; the proof says what failed."""
    task = repair_task(snapshot, classified)
    counts = fixed_by(task) + greedy(task, watch.ended)
    goals = (*goals_of_large(snapshot, counts, most, Bounds()), moves_goal(snapshot, classified, counts))
    return _large_solution(snapshot, classified, counts, goals, 0, watch, {"failed": where_failed(error)})


def _best(
    snapshot: Snapshot,
    classified: Classified,
    most: dict[str, int],
    moves: int | None,
    watch: Watch,
    scale: Scale,
    *,
    repair: bool,
    trial: bool,
    times: int,
) -> tuple[Solution, Bounded | None]:
    if not repair:
        task, haste = replace(full_task(snapshot, classified), budget=moves), scale.large(snapshot)
        left = in_all(snapshot, FROM_NOTHING)
        found, counts, cut = attempt(snapshot, task, most, None, False, watch, haste=haste, left=left)
    elif scale.large(snapshot):
        if snapshot.running:
            return _cleared(snapshot, classified, most, watch)
        return _filled(snapshot, classified, most, watch, times)
    else:
        found, counts, cut = decided(snapshot, classified, most, watch, wide=len(snapshot.nodes) > scale.nodes, trial=trial)
    placement = _placement(snapshot, classified, counts, watch)
    proof = proof_of(snapshot.stack, found, cut=cut, stopped=watch.stopped)
    return Solution(placement=placement, proof=proof, moves=moves_with_causes(snapshot, classified, placement)), None


def _filled(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch, times: int
) -> tuple[Solution, Bounded | None]:
    """A large fleet on which nothing runs yet."""
    effort = snapshot.stack.solve.effort
    task = repair_task(snapshot, classified)
    watch.phase("placing all by priority")
    counts = greedy(task, watch.ended)
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
            counts = exchanged(snapshot, classified, most, counts, watch, EXCHANGED[effort] * times)
    found = _large_solution(snapshot, classified, counts, goals_of_large(snapshot, counts, most, known), rounds, watch)

    def bounded(_: int) -> tuple[Goal, ...]:  # a quarter of all effort is enough
        watch.phase("bounding what any placement could hold")
        limit = columns(snapshot, watch, large=True)
        of_levels = limit.part(BOUNDS["from nothing"])
        bounds = known if known.together else level_bounds(snapshot, counts, most, effort, of_levels)
        bounds = with_others(snapshot, counts, most, classified, bounds, limit.part(OTHERS["from nothing"]))
        return goals_of_large(snapshot, counts, most, bounds)

    return found, bounded if partly else None


def _cleared(snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch) -> tuple[Solution, Bounded | None]:
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
        counts, rounds = cleared(snapshot, classified, most, counts, watch, FREED[effort], known, EACH)
        counts = eased(snapshot, classified, restored(snapshot, classified, counts, watch.ended))
        if not watch.stopped:
            counts = kept_first(snapshot, classified, counts, watch.ended)
    watch.phase("counting the fewest moves")
    moves = moves_goal(snapshot, classified, counts)
    watch.tell((*goals_of_large(snapshot, counts, most, known), moves))
    counts, moves = fewer(snapshot, classified, counts, moves, watch, columns(snapshot, watch, large=True).part(FEWER))
    found = _large_solution(
        snapshot, classified, counts, (*goals_of_large(snapshot, counts, most, Bounds()), moves), rounds, watch
    )

    def bounded(times: int) -> tuple[Goal, ...]:
        if snapshot.shares:
            bounds = of_levels(counts, times)
        else:
            bounds = beside_it(snapshot, counts, before, most, classified, known, watch.ended)
        limit = columns(snapshot, watch, large=True).part(OTHERS["change"] * times)
        deep = effort == "thorough" or times > 1  # a person waits for a change, and seldom for the proof on what has no GPUs
        others = with_others(snapshot, counts, most, classified, bounds, limit, replicas=deep)
        return goals_of_large(snapshot, counts, most, others)

    return found, bounded if partly else None


def _large_solution(
    snapshot: Snapshot,
    classified: Classified,
    counts: Pairs,
    goals: tuple[Goal, ...],
    rounds: int,
    watch: Watch,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Solution:
    goals = (*goals, *preferences(snapshot, counts, counted=not watch.stopped))
    watch.tell(goals)
    placement = _placement(snapshot, classified, counts, watch)
    how = {"workers": 1, "seed": SEED, "effort": snapshot.stack.solve.effort, "rounds": rounds, **more}
    proof = Proof(
        optimal=not more and all(goal.value == goal.bound for goal in goals),
        goals=goals,
        solver=f"OR-Tools CP-SAT and GLOP {version('ortools')}",
        parameters=how | ({"cut": "by hand"} if watch.stopped else {}),
        placement=UNSIGNED,
    )
    return Solution(placement=placement, proof=proof, moves=moves_with_causes(snapshot, classified, placement))


def _placement(snapshot: Snapshot, classified: Classified, counts: Pairs, watch: Watch) -> Placement:
    watch.phase("assigning devices")
    return _placement_of(snapshot, assemble(snapshot, classified, counts))


def _placement_of(snapshot: Snapshot, allocations: tuple[Allocation, ...]) -> Placement:
    indices: dict[str, set[int]] = {}
    for a in allocations:
        indices.setdefault(a.workload, set()).add(a.index)
    unplaced = []
    for name, request in snapshot.requests.items():
        if missing := missing_of(snapshot, request, indices.get(name, set())):
            unplaced.append(Unplaced(workload=name, missing=missing))
    return Placement(allocations=tuple(sorted(allocations, key=lambda a: a.name)), unplaced=tuple(unplaced))


def missing_of(snapshot: Snapshot, request: WorkloadRequest, placed: set[int]) -> tuple[int, ...]:
    """Replicas without a place: those that ran, then the lowest numbers that are free."""
    ran = [a.index for a in snapshot.running.get(request.name, ()) if a.index not in placed]
    fresh = [i for i in snapshot.numbers(request) if i not in placed and i not in ran]
    return tuple(sorted((ran + fresh)[: max(0, request.wanted - len(placed))]))
