"""Who moves so that the next finds a place, where one search over all does not tell?

Capacity is freed for one unplaced workload after the other, a few nodes at a time; what that moved without need goes home.
Where nothing runs yet the same improves a placement, each time by a workload that has hardly been tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from swarm_iac.model.placement import Goal
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import Bounds
from swarm_iac.solver.bounds.move_bound import fewest_by_columns
from swarm_iac.solver.exact.attempt import WIDEST, attempt
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.neighbourhood import neighbourhood, short
from swarm_iac.solver.repair.newcomers import made_way
from swarm_iac.solver.repair.ruin_recreate import value
from swarm_iac.solver.repair.undo_moves import net, undo_moves
from swarm_iac.solver.snapshot.capacity import capacity_with
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, repair_task
from swarm_iac.solver.snapshot.value import size, within

#: Neighbourhoods that are tried in all, and for one workload.
ROUNDS = {"quick": 4, "normal": 24, "thorough": 100}
ATTEMPTS = 3
#: Where nothing runs, for one workload; and the part of what is left that one search has.
AROUND, ONE = 6, 0.3
#: With more pairs of a workload and a node a priority is not decided at once: choosing among its places alone takes seconds.
AT_ONCE = 200_000
#: Of the effort of all searches together, what it counts to look at one node when a neighbourhood is chosen.
LOOKED = 4e-4


def cleared(
    snapshot: Snapshot,
    classified: Classified,
    most: dict[str, int],
    counts: Pairs,
    watch: Watch,
    left: float,
    gpus: Bounds = Bounds(),
    part: float = 1.0,
) -> tuple[Pairs, int]:
    """A placement that is worth at least as much as `counts`, and the rounds that it took.

    `left`: deterministic time. When it is used up no more rounds are begun; each has this `part` of what is left. `gpus`: no
    capacity is freed for a priority that holds already what it could.
    """
    rounds = 0
    tried: Counter[str] = Counter()
    solve = snapshot.stack.solve
    while rounds < ROUNDS[solve.effort] and left > 0 and not watch.stopped:
        full = set() if snapshot.shares else _full(snapshot, counts, gpus)  # a priority that holds all it could may owe some
        request = next(
            (request for request in short(snapshot, counts) if tried[request.name] < ATTEMPTS and not _takes(request, full)),
            None,
        )
        if request is None:
            break
        task = neighbourhood(snapshot, classified, counts, request, tried[request.name])
        tried[request.name] += 1
        left -= LOOKED * len(snapshot.nodes)
        if task is None:
            continue
        rounds += 1
        near, found, _ = attempt(snapshot, task, most, counts, True, watch, haste=True, left=left * part)
        left -= near.spent
        found = undo_moves(snapshot, classified, found)
        # Each neighbourhood keeps the budget by itself; what changed its card before is not known to it.
        kept = moves_of(snapshot, classified, found) <= max(solve.moves, moves_of(snapshot, classified, counts))
        if kept and net(snapshot, classified, found) > net(snapshot, classified, counts):
            counts = found
    return counts, rounds


def exchanged(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], counts: Pairs, watch: Watch, left: float
) -> Pairs:
    """A placement on a fleet on which nothing runs that is worth at least as much as `counts`.

    All on a few nodes is decided again, exactly, so that one that is pending may come in: gangs first, the largest first, of
    whatever priority, since what is wrong with a placement is seldom wrong with the highest. `left`: deterministic time.
    """
    tried: Counter[str] = Counter()

    def turn(request: WorkloadRequest) -> tuple[object, ...]:
        gang = request.members if request.gang else 0
        return tried[request.name], not gang, -size(request) * max(1, gang), -request.priority, request.name

    while left > 0 and not watch.stopped:
        request = min((one for one in short(snapshot, counts) if tried[one.name] < AROUND), key=turn, default=None)
        if request is None:
            break
        task = neighbourhood(snapshot, classified, counts, request, tried[request.name])
        tried[request.name] += 1
        left -= LOOKED * len(snapshot.nodes)
        if task is not None:
            near, found, _ = attempt(snapshot, task, most, counts, True, watch, haste=True, left=left * ONE, gaining=True)
            left -= near.spent
            counts = max(counts, found, key=lambda one: value(snapshot, one))
    return counts


def decided_beside(
    snapshot: Snapshot, classified: Classified, most: dict[str, int], counts: Pairs, watch: Watch, left: float
) -> Pairs:
    """Likewise: each priority of which something is pending is decided at once beside what all others hold, the highest first.

    One model of everything is too large on a large fleet. Beside the others a workload has few places, and the best of them do.
    """
    task = repair_task(snapshot, classified)
    for level in sorted({one.priority for one in short(snapshot, counts)}, reverse=True):
        names = {name for name in task.free if snapshot.requests[name].priority == level}
        if watch.stopped or left <= 0 or len(names) * len(snapshot.nodes) > AT_ONCE:
            continue
        fixed: Pairs = Counter({pair: count for pair, count in counts.items() if pair[0] not in names})
        free = {name: count for name, count in task.free.items() if name in names}
        one = replace(task, base=capacity_with(snapshot, fixed), free=free, widest=WIDEST)
        near, found, _ = attempt(snapshot, one, most, counts, True, watch, left=left, gaining=True)
        left -= near.spent
        counts = max(counts, found, key=lambda one: value(snapshot, one))
    return counts


def kept_first(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """The same, with more of what ran in place of what is new, unless a team held less of what it is due for that."""
    for other in made_way(snapshot, classified, counts, stop):
        if _no_less_due(within(snapshot, other), within(snapshot, counts)):
            return other
    return counts


def _full(snapshot: Snapshot, counts: Pairs, gpus: Bounds) -> set[int]:
    """Priorities whose workloads hold all the GPUs that they could."""
    held: Counter[int] = Counter()
    for (name, _), count in counts.items():
        held[snapshot.requests[name].priority] += size(snapshot.requests[name]) * count
    levels = {request.priority for request in snapshot.requests.values()}
    above = {level: sum(held[other] for other in levels if other > level) for level in levels}
    return {level for level in levels if gpus.of(level, above[level], held[level] + 1) <= held[level]}


def _takes(request: WorkloadRequest, full: set[int]) -> bool:
    """Would it take its GPUs from its equals?"""
    return bool(request.gpus) and request.priority in full


def fewer(
    snapshot: Snapshot, classified: Classified, counts: Pairs, counted: Goal, watch: Watch, limit: TimeLimit
) -> tuple[Pairs, Goal]:
    """The least that any placement of the same replicas moves, by columns or as `counted`, and the placement that they give.

    What teams hold of what they are due comes before moves, and columns do not know which nodes count more.
    """
    if counted.bound == counted.value or watch.stopped:
        return counts, counted
    least = fewest_by_columns(snapshot, classified, counts, snapshot.stack.solve.effort, limit)
    if least.found is not None and moves_of(snapshot, classified, least.found) < counted.value:
        found = undo_moves(snapshot, classified, least.found)
        counts = found if _no_less_due(within(snapshot, found), within(snapshot, counts)) else counts
    moves = moves_of(snapshot, classified, counts)
    return counts, Goal(name="moves", value=moves, bound=min(moves, max(counted.bound, least.moves)))


def _no_less_due(now: Mapping[int, tuple[int, ...]], before: Mapping[int, tuple[int, ...]]) -> bool:
    return all(one >= other for level, values in before.items() for one, other in zip(now[level], values, strict=True))
