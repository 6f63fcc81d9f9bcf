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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.backend.linear import listening
from swarm_iac.solver.bounds.gpu_bounds import Bounds
from swarm_iac.solver.decide import locality
from swarm_iac.solver.decide.by_columns import goals as goals_of_large
from swarm_iac.solver.decide.filling_again import filled_again
from swarm_iac.solver.decide.large import Unproven, bounded_anew, changed, filled, solution_of, with_devices
from swarm_iac.solver.decide.moves import moves_with_causes
from swarm_iac.solver.decide.proofs import (
    PLACED_AGAIN,
    failed_after,
    proof_of,
    still_bounded,
    where_failed,
    with_failures,
    with_goals,
)
from swarm_iac.solver.decide.small import decided
from swarm_iac.solver.exact.attempt import attempt
from swarm_iac.solver.exact.effort import (
    FROM_NOTHING,
    in_all,
)
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.assembly import placement_of
from swarm_iac.solver.repair.evening import evened, well
from swarm_iac.solver.repair.fewest_moves import moves_goal
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.unsplitting import split, unsplit
from swarm_iac.solver.shares.entitled import shared
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload, classify, fixed_by, full_task, repair_task
from swarm_iac.solver.solution import Solution
from swarm_iac.solver.unexplained import Unexplained


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
) -> Unexplained:
    """The same before anybody looks for the reasons of what is pending: on a large fleet those are a third of the time.

    A `trial` is not followed where it stops something, so it is not searched again for what need not stop.
    """
    watch = watch or Watch()
    watch.phase("reading the fleet")
    whole = snapshot_of(stack, last, today)
    snapshot = without_slack(whole)
    classified = classify(snapshot)
    most = possible(snapshot, watch.ended)
    with listening() as of_shares:
        snapshot = shared(snapshot, most)
    whole = replace(whole, shares=snapshot.shares)
    large = scale.large(snapshot)

    def settled(found: Solution) -> Solution:
        if repair and not (large and watch.stopped):
            found = _whole(snapshot, classified, found, watch)
        found = _on_one(snapshot, classified, most, found, watch)
        return _elsewhere(snapshot, classified, most, found, watch) if repair else found

    def greedily(error: Exception) -> Unexplained:
        found = rescued(snapshot, classified, most, error, watch)
        return Unexplained(_on_one(snapshot, classified, most, found, watch), whole, watch, large)

    def answered(
        decide: Callable[[], Unproven], otherwise: Callable[[Exception], Unexplained], before: Sequence[str] = ()
    ) -> Unexplained:
        with listening() as these:
            try:
                decided = decide()
                found = settled(decided.solution)
            except Exception as error:
                other = otherwise(error)
                return replace(other, solution=with_failures(other.solution, [*of_shares, *before, *these]))
        bounded, further, failures = decided.bounded, decided.further, [*of_shares, *before, *these]

        def proven(times: int) -> Solution:
            assert bounded is not None, "asked only where bounds are not known"
            with listening() as later:
                try:
                    if PLACED_AGAIN & found.proof.parameters.keys():
                        counts: Pairs = Counter((a.workload, a.node) for a in found.placement.allocations)
                        goals = bounded_anew(snapshot, classified, most, counts, watch, times)
                        told = with_goals(found, goals, stopped=watch.stopped)
                    else:
                        told = settled(with_goals(decided.solution, bounded(times), stopped=watch.stopped))
                except Exception as error:
                    told = failed_after(found, error)
                if told.placement != found.placement:  # ended by hand meanwhile: what was decided stands
                    told = found
            return with_failures(told, [*failures, *later])

        def improved(times: int) -> Unexplained:
            assert further is not None, "asked only of a large fleet on which nothing runs"

            def as_it_was(error: Exception) -> Unexplained:
                same = replace(decided, solution=failed_after(decided.solution, error), further=None)
                return answered(lambda: same, greedily, failures)

            return answered(lambda: further(times), as_it_was, failures)

        told = with_failures(found, failures)
        return Unexplained(told, whole, watch, large, proven if bounded else None, improved if further else None)

    def decide() -> Unproven:
        return _best(snapshot, classified, most, moves, watch, scale, repair=repair, trial=trial)

    return answered(decide, greedily)


def _whole(snapshot: Snapshot, classified: Classified, found: Solution, watch: Watch) -> Solution:
    """With what is new within one NUMA node, where that is possible at no cost to any goal but `nodes`."""
    ones = found.placement.allocations
    if not locality.needless(snapshot, classified, ones):
        return found
    known = snapshot.known(_whole)  # asked again once the same placement is bounded
    if id(found.placement) not in known:
        counts: Pairs = Counter((a.workload, a.node) for a in ones)
        known[id(found.placement)] = found.placement, locality.whole(snapshot, classified, counts, ones)
    counts, ones = known[id(found.placement)][1]
    goals = {goal.name: goal for goal in found.proof.goals}
    counts, ones, goals = filled_again(snapshot, classified, counts, ones, goals, watch)
    placement = placement_of(snapshot, ones)
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

    And evenly, and with whom each names, if others count on those that went.
    """
    ones = found.placement.allocations
    apart = snapshot.local and bool(split(snapshot, classified, ones))
    if not (apart or snapshot.evened or snapshot.sought):
        return found
    before: Pairs = Counter((a.workload, a.node) for a in ones)
    if not apart and well(snapshot, before):
        return found
    counts = unsplit(snapshot, classified, before, watch.ended) if apart else before
    counts = evened(snapshot, classified, counts, watch.ended)
    how = f"some were placed again, each on one NUMA node{' or on linked GPUs' * snapshot.linked}"
    again = {"numa": how} if apart else {"others": "some were placed again, evenly or where those are whom they name"}
    return _placed_again(snapshot, classified, most, found, counts, again, watch)


def _elsewhere(snapshot: Snapshot, classified: Classified, most: dict[str, int], found: Solution, watch: Watch) -> Solution:
    """With those in other places, within the move budget, that lost theirs and are not moved since others run with them."""
    firm = {name for name in snapshot.immovable if snapshot.stack.workloads[name].movable}
    if not firm:
        return found
    before: Pairs = Counter((a.workload, a.node) for a in found.placement.allocations)
    lost, placed = by_workload(classified.stand - before), by_workload(before)
    if not any(placed[name] < snapshot.requests[name].members for name in firm & lost.keys()):
        return found
    requests = {name: replace(one, movable=True) if name in firm else one for name, one in snapshot.requests.items()}
    free = replace(snapshot, requests=requests)
    counts = restored(free, classified, before, watch.ended)
    if counts == before or not well(free, counts):
        return found
    again = {"elsewhere": "some that others run with were placed again, since they had lost their places"}
    other = _placed_again(free, classified, most, found, counts, again, watch)
    return found if free.local and split(free, classified, other.placement.allocations) else other


def _placed_again(
    snapshot: Snapshot,
    classified: Classified,
    most: dict[str, int],
    found: Solution,
    counts: Pairs,
    how: dict[str, str],
    watch: Watch,
) -> Solution:
    """`counts` in place of what was found, whose bounds hold where no more of what ran has stopped and nothing exceeds them."""
    before = Counter(a.workload for a in found.placement.allocations)
    placed, known = goals_of_large(snapshot, counts, most, Bounds()), {goal.name: goal.bound for goal in found.proof.goals}
    none_stops = all(by_workload(counts)[name] >= before[name] for name in snapshot.running)
    if none_stops and all(goal.value <= known.get(goal.name, goal.value) for goal in placed):
        placed = still_bounded(placed, found.proof.goals)
    goals = (*placed, moves_goal(snapshot, classified, counts))
    return solution_of(snapshot, classified, counts, goals, 0, watch, how)


def rescued(snapshot: Snapshot, classified: Classified, most: dict[str, int], error: Exception, watch: Watch) -> Solution:
    """What stays and a greedy pass for the rest, bounded by counting; the proof says what failed."""
    task = repair_task(snapshot, classified)
    counts = fixed_by(task) + greedy(task, watch.ended)
    goals = (*goals_of_large(snapshot, counts, most, Bounds()), moves_goal(snapshot, classified, counts))
    return solution_of(snapshot, classified, counts, goals, 0, watch, {"failed": where_failed(error)})


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
) -> Unproven:
    if not repair:
        task, haste = replace(full_task(snapshot, classified), budget=moves), scale.large(snapshot)
        left = in_all(snapshot, FROM_NOTHING)
        found, counts, cut = attempt(snapshot, task, most, None, False, watch, haste=haste, left=left)
    elif scale.large(snapshot):
        if snapshot.running:
            return changed(snapshot, classified, most, watch)
        return filled(snapshot, classified, most, watch)
    else:
        found, counts, cut = decided(snapshot, classified, most, watch, wide=len(snapshot.nodes) > scale.nodes, trial=trial)
    placement = with_devices(snapshot, classified, counts, watch)
    proof = proof_of(snapshot.stack, found, cut=cut, stopped=watch.stopped)
    return Unproven(Solution(placement=placement, proof=proof, moves=moves_with_causes(snapshot, classified, placement)))
