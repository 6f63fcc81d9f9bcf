"""What could teams hold within what they are due, and how many replicas could a priority have beside its GPUs?

On a large fleet no search proves either. Both by the relaxation that bounds GPUs (`relaxation`), beside what all goals before
them reached:

due        max Σ_t min(due_t, Σ_{w of t, of p and above} weight_n · gpus_w · placed_w)
replicas   max Σ_{w of p} placed_w   with   Σ_{w of p} gpus_w · placed_w ≥ reached_p
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import Bounds, PriorityBounds, away, finer_bound
from swarm_iac.solver.bounds.team_sums import held_elsewhere
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload
from swarm_iac.solver.snapshot.value import size, within


def with_others(
    snapshot: Snapshot,
    counts: Pairs,
    possible: dict[str, int],
    classified: Classified,
    bounds: Bounds,
    stop: TimeLimit,
    *,
    replicas: bool = True,
) -> Bounds:
    """The same with those on shares and, if asked, on replicas of each priority, beside the placement `counts`."""
    placed, due = by_workload(counts), within(snapshot, counts)
    could = within(snapshot, Counter({(name, ""): most for name, most in possible.items()}))
    levels = sorted({request.priority for request in snapshot.requests.values()}, reverse=True)
    found = replace(bounds, replicas=dict(bounds.replicas), due=dict(bounds.due))
    for i, level in enumerate(levels):
        share = stop.part(1 / (len(levels) - i))
        before = share.left
        for depth, (now, most) in enumerate(zip(due.get(level, ()), could.get(level, ()), strict=True)):
            if now < most and not share():
                known = found.due.get((level, depth - 1)) if _inside(snapshot, level, depth) else None
                if known is None:
                    known = _due(snapshot, level, depth, counts, possible, classified, share)
                if known is not None:
                    found.due[level, depth] = max(now, known)
        mine = [request.name for request in snapshot.requests.values() if request.priority == level]
        if replicas and any(placed[name] < possible[name] for name in mine) and not share():
            known = _replicas(snapshot, level, counts, possible, classified, share)
            if known is not None:
                found.replicas[level] = max(sum(placed[name] for name in mine), known)
        stop.spend(before - share.left)
    return found


def beside_it(
    snapshot: Snapshot,
    counts: Pairs,
    before: Pairs,
    possible: dict[str, int],
    classified: Classified,
    bounds: Bounds,
    stop: Callable[[], bool],
) -> Bounds:
    """`bounds`, found beside `before`, for `counts`: by relaxation alone from the first priority on that lost replicas.

    A bound on what a priority could hold of its own is of all placements in which those above it, and those of it that run,
    have what they had: it holds as long as each has no less. Not for teams that share GPUs, who have what they are due as well.
    """
    assert snapshot.shares is None, "there bounds are worked out beside `counts`"
    known = PriorityBounds(snapshot, possible, TimeLimit(stop, 0.0), classified)
    placed, was = by_workload(counts), by_workload(before)
    found = replace(bounds, own=dict(bounds.own))
    less = False
    for level in sorted({request.priority for request in snapshot.requests.values()}, reverse=True):
        all_of_it = [request for request in snapshot.requests.values() if request.priority == level]
        less = less or any(placed[request.name] < was[request.name] for request in all_of_it)
        if not less:
            continue
        found.own.pop(level, None)
        mine = [request for request in all_of_it if request.gpus]
        if any(placed[request.name] < possible[request.name] for request in mine) and not stop():
            most = known.of(level, counts, deep=False)
            if most is not None:
                found.own[level] = max(most, sum(size(request) * placed[request.name] for request in mine))
    return found


def _replicas(
    snapshot: Snapshot, level: int, counts: Pairs, possible: dict[str, int], classified: Classified, stop: TimeLimit
) -> int | None:
    found = finer_bound(snapshot, level, counts, possible, classified, stop, lambda request: 1, held=True)
    elsewhere = away(snapshot)
    mine = [request.name for request in snapshot.requests.values() if request.priority == level]
    return None if found is None else found + sum(elsewhere[name] for name in mine)


def _inside(snapshot: Snapshot, level: int, depth: int) -> bool:
    """Do teams at that depth never hold more of what they are due than those around them?"""
    return depth > 0 and snapshot.shares is not None and snapshot.shares.divided(depth, level)


def _due(
    snapshot: Snapshot,
    level: int,
    depth: int,
    counts: Pairs,
    possible: dict[str, int],
    classified: Classified,
    stop: TimeLimit,
) -> int | None:
    found = finer_bound(snapshot, level, counts, possible, classified, stop, depth=depth)
    return None if found is None else found + held_elsewhere(snapshot, level, away(snapshot))
