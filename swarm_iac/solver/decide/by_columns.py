"""How is a fleet filled from nothing that is too large for one model? And what is proven about it?

1  greedy    everything, by priority; where that places all that is possible it stands
2  columns   what binds replicas to each other (gangs, racks) stays where greedy put it; all others at once, by kinds and
             shapes
3  the rest  what found no place is tried again beside everything

The bound on a level is by columns, too: what it and all levels above it could hold together, less what those above hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Goal
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import Bounds
from swarm_iac.solver.columns.whole_fleet import Nodes, fill_fleet
from swarm_iac.solver.exact.goals import LEVELS
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.kinds import View, named, simple, view
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import RACK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs, Task, by_workload
from swarm_iac.solver.snapshot.value import size, unit_of_due, within

#: Rounds of pricing.
ROUNDS = {"quick": 15, "normal": 120, "thorough": 400}
#: Where there is no time for so many of them, columns place hardly more than greedy did, and take far longer: on a drawn
#: fleet with time for four 27 s of CPU, and they left out 9 of the 533 GPUs of high priority that greedy had placed.
LEAST = 5
#: Filling has so much of it, unless a night is given: a trace where a third names GPU models ends in 40 s on a slow machine.
FILLING = 0.85


@dataclass(frozen=True)
class Answer:
    """Replicas on nodes, and what each priority could hold, where that is known from filling them."""

    counts: Pairs
    rounds: int
    bounds: Bounds = field(default_factory=Bounds)


def fill(
    task: Task,
    start: Pairs,
    effort: str,
    stop: TimeLimit,
    tell: Callable[[Pairs, Bounds], None] = lambda counts, bounds: None,
) -> Answer:
    """Place the free workloads of a task in which nothing stands yet that could move. `tell` hears how far it is.

    `start`: the greedy placement, whose gangs stay.
    """
    snapshot = task.snapshot
    last = late(snapshot, (snapshot.requests[name] for name in task.free))
    together = {name for name in task.free if not simple(snapshot.requests[name])}
    single = [name for name in task.free if name not in together and name not in last]
    first: Pairs = Counter({pair: count for pair, count in start.items() if pair[0] in together})
    capacity = task.base.copy()
    _take(capacity, first)
    seen = view(capacity, single)
    levels = {snapshot.requests[name].priority for name in single}
    # With one level and nothing that binds replicas to each other, what is filled is all that is bounded.
    alone = (
        levels
        if len(levels) == 1 and not together and len({request.priority for request in snapshot.requests.values()}) == 1
        else set()
    )

    def report(nodes: Nodes, bound: float) -> None:
        tell(first + _named(seen, capacity, nodes), Bounds(dict.fromkeys(alone, int(bound + 1e-6))))

    if stop.in_rounds(len(shape.fits) for shape in seen.problem.shapes) < LEAST:
        return Answer(start, 0)
    limit = stop if effort == "thorough" else stop.part(FILLING)
    filled = fill_fleet(seen.problem, rounds=ROUNDS[effort], stop=limit, tell=report)
    found = _admitted(capacity, _named(seen, capacity, filled.nodes))
    rest = {name: left for name in task.free if (left := task.free[name] - capacity.counts[name].total()) > 0}
    rest = {name: left for name, left in rest.items() if not snapshot.requests[name].shared}  # patterns pack cards again
    more = greedy(replace(task, base=capacity, free=rest), stop.stop)  # columns may have used up their time; this has none
    return Answer(first + found + more, filled.rounds, Bounds(dict.fromkeys(alone, int(filled.bound + 1e-6))))


def late(snapshot: Snapshot, requests: Iterable[WorkloadRequest]) -> frozenset[str]:
    """Workloads without GPUs of the lowest priority: they get what the others leave, and are bounded by counting."""
    found = list(requests)
    least = min((request.priority for request in found), default=0)
    return frozenset(request.name for request in found if not request.gpus and request.priority == least)


def _named(seen: View, capacity: FreeCapacity, patterns_on: Nodes) -> Pairs:
    """Patterns on nodes: those that take the most of a rack first, each to the rack with the most left."""
    counts: dict[str, Counter[int]] = {}
    left = {rack: list(values) for rack, values in capacity.racks.items() if any(value < ENDLESS // 2 for value in values)}
    whole = {rack: [max(1, value) for value in values] for rack, values in left.items()}
    nodes = capacity.snapshot.nodes

    def open_part(rack: str) -> float:
        return min(a / b for a, b in zip(left[rack], whole[rack], strict=True)) if rack in left else 1.0

    for names, patterns in zip(seen.nodes, patterns_on, strict=True):
        if not any(nodes[name].rack in left for name in names):
            counts.update((node, Counter(dict(pattern))) for node, pattern in zip(names, patterns, strict=True))
            continue
        by_rack: dict[str, list[str]] = {}
        for name in reversed(names):
            by_rack.setdefault(nodes[name].rack or "", []).append(name)
        firsts = [capacity.snapshot.requests[kind[0]] for kind in seen.requests]
        uses = {
            pattern: [sum(nodes[names[0]].of_rack(firsts[k])[i] * n for k, n in pattern) for i in range(len(RACK))]
            for pattern in set(patterns)
        }
        for pattern in sorted(patterns, key=lambda one: ([-use for use in uses[one]], one)):
            rack = max(by_rack, key=open_part)
            if rack in left:
                left[rack] = [value - use for value, use in zip(left[rack], uses[pattern], strict=True)]
            counts[by_rack[rack].pop()] = Counter(dict(pattern))
            if not by_rack[rack]:
                del by_rack[rack]
    return named(seen, capacity, counts)


def _take(capacity: FreeCapacity, counts: Pairs) -> None:
    for (name, node), count in counts.items():
        capacity.take(capacity.snapshot.requests[name], capacity.snapshot.nodes[node], count)


def _admitted(capacity: FreeCapacity, counts: Pairs) -> Pairs:
    """What racks and gangs leave of it, the highest priority first: columns see racks that are alike as one."""
    found: Pairs = Counter()
    for (name, node), count in sorted(
        counts.items(), key=lambda one: (-capacity.snapshot.requests[one[0][0]].priority, one[0])
    ):
        request, host = capacity.snapshot.requests[name], capacity.snapshot.nodes[node]
        fits = min(count, max(0, capacity.by_rack(request, host)))
        fits = min(fits, max(0, capacity.by_model(request, host.model))) if request.models else fits
        if fits:
            capacity.take(request, host, fits)
            found[name, node] = fits
    return found


def goals(snapshot: Snapshot, counts: Pairs, possible: dict[str, int], bounds: Bounds) -> tuple[Goal, ...]:
    """What was placed by level with its bound, given that the levels above are not worse."""
    placed = by_workload(counts)
    milli, of_teams = snapshot.milli, unit_of_due(snapshot)
    found: list[Goal] = []
    above, due = 0, within(snapshot, counts)
    best = within(snapshot, Counter({(name, ""): most for name, most in possible.items()}))
    for level in LEVELS:
        requests = [request for request in snapshot.requests.values() if request.priority == PRIORITIES[level]]
        if not requests:
            continue
        unit = 1 if milli else WHOLE
        for depth, (held, could) in enumerate(
            zip(due.get(PRIORITIES[level], ()), best.get(PRIORITIES[level], ()), strict=True)
        ):
            title = f"{level}_share_{depth + 1}" if depth else f"{level}_share"
            known = max(held, min(could, bounds.due.get((PRIORITIES[level], depth), could)))
            found.append(Goal(name=title, value=held // of_teams, bound=known // of_teams))
        reached = sum(size(request) * placed[request.name] for request in requests)
        counted = sum(size(request) * possible[request.name] for request in requests)
        most = max(reached, bounds.of(PRIORITIES[level], above, counted))
        above += reached
        name = f"{level}_placed_{'gpu_milli' if milli else 'gpus'}"
        found.append(Goal(name=name, value=reached // unit, bound=most // unit))
        count, top = sum(placed[request.name] for request in requests), sum(possible[request.name] for request in requests)
        top = max(count, min(top, bounds.replicas.get(PRIORITIES[level], top)))
        found.append(Goal(name=f"{level}_placed_replicas", value=count, bound=top))
    return tuple(found)
