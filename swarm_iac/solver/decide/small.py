"""How is a fleet decided that one model holds? Greedily first, then by columns or a few nodes at a time, then all at once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from swarm_iac.model.placement import Goal
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import NOBODY, PriorityBounds
from swarm_iac.solver.decide.by_columns import fill
from swarm_iac.solver.decide.clearing import cleared, exchanged, fewer
from swarm_iac.solver.exact.attempt import attempt
from swarm_iac.solver.exact.effort import CHANGE, FROM_NOTHING, columns, in_all
from swarm_iac.solver.exact.search import Found, Score, bounded, capped, stricter
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.fewest_moves import moves_goal
from swarm_iac.solver.repair.greedy import ORDERS, greedy
from swarm_iac.solver.repair.neighbourhood import short
from swarm_iac.solver.repair.newcomers import made_way
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.ruin_recreate import improved
from swarm_iac.solver.repair.undo_moves import eased, undo_moves
from swarm_iac.solver.repair.unsplitting import split_pairs, unsplit
from swarm_iac.solver.snapshot.capacity import capacity_with
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, Task, by_workload, fixed_by, full_task, repair_task
from swarm_iac.solver.snapshot.value import total, unaccompanied

#: Part of it that narrow searches have where a wide one follows.
NARROW = 0.3
#: And of the rest the wide one.
WIDE = 0.9
#: And counting moves by columns has so much of all.
FEWER = 0.2
#: From nothing: a search over all has so much of it, and a few nodes at a time have so much before it and after it; and once
#: more, each time exactly.
OVER_ALL, BEFORE, AFTER, EXCHANGED = 0.85, 0.1, 0.15, 0.15
#: Where something that runs would stop, and nothing shows that it has to, it is searched for with so much more. Of 75 hard
#: changes of drawn fleets six stop something more without it; twice as much spares one GPU in one of them.
STOPPING = 2.0
#: On a wide fleet a search over all has no more deterministic time than this.
WIDEST = 5.0
#: With fewer pairs of a workload and a node a search over all proves what it finds: less comes before it. Nor ever more than so
#: much deterministic time.
PROVEN, MOST_BEFORE = 1000, 2.0
#: So often all is searched again where somebody came out split that must not be.
AGAIN = 2
#: What a search found, the replicas of all workloads, and whether candidates were left out.
Answer = tuple[Found, Pairs, bool]


def complete(counts: Pairs, most: dict[str, int]) -> bool:
    """Is all placed that any placement could place?"""
    placed = by_workload(counts)
    return all(placed[name] >= count for name, count in most.items())


def decided(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch, *, wide: bool = False, trial: bool = False
) -> Answer:
    """The whole of a small fleet, with nobody split who has to be on one NUMA node, or on linked GPUs.

    A search counts their devices, and not quite exactly (`unsplitting.py`). Who came out split goes elsewhere beside all
    others, or waits. From there all is searched again, with no place for it where it was split. The best of these is the
    answer, and what the first search proved bounds it, since that had no place barred.
    """
    if snapshot.running:
        found = changed(snapshot, classified, most, watch, trial=trial)
    else:
        found = from_nothing(snapshot, repair_task(snapshot, classified), most, watch, wide=wide)
    first = found = _bounded(snapshot, classified, most, found, watch)
    whole: list[Answer] = []
    barred = frozenset[tuple[str, str]]()
    while pairs := split_pairs(snapshot, classified, found[1]):
        start = unsplit(snapshot, classified, found[1], watch.ended)
        whole.append(_beside(snapshot, classified, most, start, first, watch))
        if len(whole) > AGAIN or watch.stopped or pairs <= barred:
            return max(whole, key=_values)
        watch.phase("searching again, since replicas came out split over NUMA nodes or links")
        barred |= pairs
        found = _all_at_once(replace(snapshot, barred=barred), classified, most, start, watch, in_all(snapshot, CHANGE))
    return max((*whole, _beside(snapshot, classified, most, found[1], first, watch)), key=_values) if whole else first


def _bounded(snapshot: Snapshot, classified: Classified, most: dict[str, int], answer: Answer, watch: Watch) -> Answer:
    """The same with bounds on GPUs beside this very placement, to which another way than a search may have led."""
    found, counts, cut = answer
    gpus = PriorityBounds(snapshot, most, columns(snapshot, watch), classified)

    def one(score: Score) -> Score:
        aim, value, bound = score
        if aim.places is None or value // aim.base >= bound // aim.base:
            return score
        return aim, value, capped(aim, value, bound, gpus.of(aim.places, counts, deep=False))

    return replace(found, scores=[one(score) for score in found.scores]), counts, cut


def _beside(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], counts: Pairs, first: Answer, watch: Watch
) -> Answer:
    """Another placement as an answer, with the bounds of the first search where they hold for it.

    That may have had less to decide, and counts who stops among those alone: its bounds up to there are of the same sums.
    """
    gpus = PriorityBounds(snapshot, most, columns(snapshot, watch), classified)
    found, _, _ = attempt(snapshot, full_task(snapshot, classified), most, counts, True, Watch(), left=0, gpus=gpus)
    upto = next(i for i, (aim, _, _) in enumerate(found.scores) if aim.settles)
    proven = {score[0].name: score for score in first[0].scores}
    known = [proven.get(score[0].name, score) for score in found.scores[:upto]]
    return replace(found, scores=stricter(found.scores[:upto], known) + found.scores[upto:]), counts, first[2]


def from_nothing(snapshot: Snapshot, task: Task, most: dict[str, int], watch: Watch, *, wide: bool = False) -> Answer:
    """A small fleet on which nothing runs: from a greedy placement, and where a search is not proven by columns as well.

    `wide`: it has many nodes, of which columns fill most alike before the search.
    """
    watch.phase("placing all by priority")
    counts = greedy(task, watch.ended)
    left = min(in_all(snapshot, FROM_NOTHING), WIDEST if wide and snapshot.stack.solve.effort != "thorough" else math.inf)
    if watch.stopped or complete(counts, most):
        return attempt(snapshot, task, most, counts, True, watch, left=left)
    effort = snapshot.stack.solve.effort
    counts = max((counts, *(greedy(task, watch.ended, order) for order in ORDERS[1:])), key=lambda one: total(snapshot, one))
    if wide:
        watch.phase("filling nodes by columns")
        filled = fill(task, counts, effort, columns(snapshot, watch)).counts
        counts = max(counts, filled, key=lambda one: total(snapshot, one))
    watch.phase("improving the placement")
    before = min(MOST_BEFORE, left * BEFORE) * min(1.0, len(task.free) * len(snapshot.nodes) / PROVEN)
    counts = improved(snapshot, counts, before, watch.ended)

    def by_columns(counts: Pairs, priority: int) -> Pairs:
        """That priority and those below it, beside what those above it hold."""
        fixed = Counter({pair: n for pair, n in counts.items() if snapshot.requests[pair[0]].priority > priority})
        free = {name: n for name, n in task.free.items() if snapshot.requests[name].priority <= priority}
        rest = replace(task, base=capacity_with(snapshot, fixed), free=free)
        return fixed + fill(rest, greedy(rest, watch.ended), effort, columns(snapshot, watch).part(0.5)).counts

    gpus = PriorityBounds(snapshot, most, columns(snapshot, watch))
    best = attempt(snapshot, task, most, counts, True, watch, left=left * OVER_ALL, gpus=gpus, again=by_columns)
    if _lacking(best[0].scores):
        best = _better(snapshot, task, most, best, improved(snapshot, best[1], left * AFTER, watch.ended), best[0].scores)
    if _lacking(best[0].scores):
        found = exchanged(snapshot, NOBODY, most, best[1], watch, left * EXCHANGED)
        best = _better(snapshot, task, most, best, found, best[0].scores)
    return _better(snapshot, task, most, best, restored(snapshot, NOBODY, best[1], watch.ended), best[0].scores)


def changed(snapshot: Snapshot, classified: Classified, most: dict[str, int], watch: Watch, *, trial: bool = False) -> Answer:
    """A small fleet with a change: what has no place takes what is free; where that is not enough, all at once."""
    watch.phase("placing what is new")
    task = repair_task(snapshot, classified)
    counts = fixed_by(task) + greedy(task, watch.ended)
    left = in_all(snapshot, CHANGE)
    if watch.stopped or complete(counts, most) or not classified.stay:
        return _eased(snapshot, classified, task, most, attempt(snapshot, task, most, counts, True, watch, left=left))
    first = _eased(snapshot, classified, task, most, attempt(snapshot, task, most, counts, True, watch, left=left * NARROW))
    if not _lacking(first[0].scores) or watch.stopped:
        return first
    watch.phase("freeing capacity for pending work")
    keeping = 0.0 if trial else in_all(snapshot, CHANGE) * STOPPING
    return _all_at_once(snapshot, classified, most, first[1], watch, left - first[0].spent, keeping)


def _eased(snapshot: Snapshot, classified: Classified, task: Task, most: dict[str, int], answer: Answer) -> Answer:
    """The same, with those at home that a search which ended has shifted."""
    other = eased(snapshot, classified, answer[1])
    return answer if other == answer[1] else _better(snapshot, task, most, answer, other, answer[0].scores)


def _better(snapshot: Snapshot, task: Task, most: dict[str, int], best: Answer, other: Pairs, proven: list[Score]) -> Answer:
    """The better of an answer and another placement, which is measured only; `proven` are bounds that hold for both."""
    if other == best[1] or unaccompanied(snapshot, other):
        return best
    found, _, cut = _measured(snapshot, task, most, other)
    return max(best, (replace(found, scores=stricter(found.scores, proven)), other, cut), key=_values)


def _measured(snapshot: Snapshot, task: Task, most: dict[str, int], counts: Pairs) -> Answer:
    """A placement as an answer, bounded by counting."""
    return attempt(snapshot, task, most, counts, True, Watch(), measured=True)


def _all_at_once(
    snapshot: Snapshot,
    classified: Classified,
    most: dict[str, int],
    counts: Pairs,
    watch: Watch,
    left: float,
    keeping: float = 0.0,
) -> Answer:
    """Everything in one model. Where that proves too little, what a few nodes at a time give if it is better.

    `counts`: a placement to begin with. `keeping`: of `search`.
    """
    gpus = PriorityBounds(snapshot, most, columns(snapshot, watch), classified)
    task = full_task(snapshot, classified)
    first = best = attempt(snapshot, task, most, counts, True, watch, gpus=gpus, left=left * WIDE, keeping=keeping)
    left -= first[0].spent

    def better(best: Answer, other: Pairs) -> Answer:
        return _better(snapshot, full_task(snapshot, classified), most, best, other, first[0].scores)

    best = better(best, counts)  # a search that ended early may have lost what it began with

    if _open(best[0].scores) and not watch.stopped and left > 0:
        found, _ = cleared(snapshot, classified, most, best[1], watch, left, bounded(best[0].scores))
        best = better(best, found)
    best = better(best, restored(snapshot, classified, undo_moves(snapshot, classified, best[1]), watch.ended))
    if _open(best[0].scores) and not watch.stopped:
        limit = TimeLimit(watch.ended, in_all(snapshot, CHANGE) * FEWER)
        moved, goal = fewer(snapshot, classified, best[1], moves_goal(snapshot, classified, best[1]), watch, limit)
        best = better(best, moved)
        if not short(snapshot, best[1]):  # then the least that these replicas move is the least of all
            best = replace(best[0], scores=[_at_least(score, goal) for score in best[0].scores]), *best[1:]
    best = better(best, eased(snapshot, classified, best[1]))
    best = better(best, restored(snapshot, classified, undo_moves(snapshot, classified, best[1]), watch.ended))
    for other in made_way(snapshot, classified, best[1], watch.ended):
        best = better(best, other)
    for aim, value, bound in best[0].scores:
        watch.reached(aim, value, bound)
    return best


def _at_least(score: Score, proven: Goal) -> Score:
    aim, value, bound = score
    return (aim, value, max(bound, min(value, proven.bound))) if aim.name == proven.name else score


def _values(answer: Answer) -> list[int]:
    return [aim.sense * value for aim, value, _ in answer[0].scores]


def _open(scores: list[Score]) -> bool:
    """Could a wider search place or keep more, or move fewer?"""
    return _lacking(scores) or any(aim.name == "moves" and value > bound for aim, value, bound in scores)


def _lacking(scores: list[Score]) -> bool:
    """Could a wider search place or keep more, or stop something smaller?"""
    return any((aim.base or aim.due or aim.name == "kept") and value < bound for aim, value, bound in scores)
