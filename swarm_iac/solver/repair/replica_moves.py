"""Which replica goes where, when only kinds of replicas are known for each node?

What stands on a node stays as far as the node is to carry its kind, and parts of GPUs stay on their card; what has to
leave and what is new takes the given places. Columns pack the parts on a node again, so here and there one that
comes finds no card: it takes any place that is free. The answer is taken only if all find one, by every rule that is
arithmetic on one node, and if only such workloads move whose replicas stand each for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.kinds import simple
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.suitability import suits
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, Task, by_workload


def rearranged(
    snapshot: Snapshot,
    classified: Classified,
    placed: Counter[str],
    number: Mapping[str, int],
    carried: Mapping[str, Counter[int]],
) -> Pairs | None:
    """The placement of so many replicas of each workload in which each node of `carried` carries so many of each kind."""
    stand = classified.stand
    if any(placed[name] < count for name, count in by_workload(stand).items()):
        return None  # who stops is not decided here
    gone, arrivals = _differences(stand, number, carried)
    stays = stand - gone
    pool: dict[int, list[str]] = {}
    held = by_workload(stays)
    for name in sorted(placed, key=lambda name: (-snapshot.requests[name].priority, name)):
        pool.setdefault(number[name], []).extend([name] * (placed[name] - held[name]))
    comes: Pairs = Counter()
    for node, kinds in sorted(arrivals.items()):
        for kind, count in sorted(kinds.items()):
            comes.update((name, node) for name in pool.get(kind, [])[:count])
            del pool.get(kind, [])[:count]
    changed = {name for name, _ in gone + comes}
    if any(pool.values()) or any(not simple(snapshot.requests[name]) for name in changed):
        return None
    return _classified(snapshot, classified, stays, comes)


def _differences(
    stand: Pairs, number: Mapping[str, int], carried: Mapping[str, Counter[int]]
) -> tuple[Pairs, dict[str, Counter[int]]]:
    """What leaves the nodes, and how many of each kind arrive there."""
    arrivals = {node: Counter(kinds) for node, kinds in carried.items()}
    gone: Pairs = Counter()
    for (name, node), count in sorted(stand.items()):
        if node in arrivals:
            stays = min(count, arrivals[node][number[name]])
            arrivals[node][number[name]] -= stays
            if stays < count:
                gone[name, node] = count - stays
    return gone, {node: +kinds for node, kinds in arrivals.items()}


def _classified(snapshot: Snapshot, classified: Classified, stays: Pairs, comes: Pairs) -> Pairs | None:
    """All that stays and all that comes, each on its node as far as it has capacity, else where there is some."""
    capacity = FreeCapacity(snapshot)
    for a in classified.stay.values():
        if capacity.counts[a.workload][a.node] < stays[a.workload, a.node]:
            capacity.take(snapshot.requests[a.workload], snapshot.nodes[a.node], 1, a.gpus)
    counts, rest = Counter(stays), Counter[str]()
    for (name, node), count in sorted(comes.items(), key=lambda one: (-snapshot.requests[one[0][0]].share, one)):
        request, host = snapshot.requests[name], snapshot.nodes[node]
        fits = min(count, capacity.most(request, host)) if suits(request, host) else 0
        capacity.take(request, host, fits)
        counts[name, node] += fits
        rest[name] += count - fits
    elsewhere = greedy(Task(snapshot, capacity, dict(+rest)))
    return counts + elsewhere if by_workload(elsewhere) == +rest else None
