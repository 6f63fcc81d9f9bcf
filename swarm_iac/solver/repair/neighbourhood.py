"""Which few nodes should be cleared for what found no place? For fleets too large to decide all at once.

One workload at a time, by priority: the nodes that suit it where the fewest and least important replicas stand in the
way. What is placed there may go to the freest nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

import numpy as np

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.repair.restoring import capacity_beside
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering, suits
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, Task, around, by_workload
from swarm_iac.solver.snapshot.value import held_by_teams

#: Nodes to clear.
CLEAR = 24
#: Weights of a replica in the way: it can move; it would be stopped; it can do neither yet.
MOVED, STOPPED, STUCK, NEVER = 1, 30, 100, 100_000
#: Gangs that may be stopped.
GANGS = 4
#: Nodes that may receive what is cleared.
RECEIVE = 80


def short(snapshot: Snapshot, counts: Pairs) -> list[WorkloadRequest]:
    """Workloads that are not placed whole, in the order in which they are looked at."""
    placed = by_workload(counts)
    found = [request for name, request in snapshot.requests.items() if placed[name] < request.members]
    return sorted(found, key=lambda request: (-request.priority, -request.gpus * request.share, request.name))


def neighbourhood(
    snapshot: Snapshot, classified: Classified, counts: Pairs, request: WorkloadRequest, attempt: int
) -> Task | None:
    """The task of freeing capacity for `request`; None if no suitable node is left. Each attempt takes the next nodes."""
    capacity = capacity_beside(snapshot, classified, counts)
    standing: dict[str, list[WorkloadRequest]] = {}
    for (name, node), count in sorted(counts.items()):
        standing.setdefault(node, []).extend([snapshot.requests[name]] * count)
    weights = _Weights(capacity, request, held_by_teams(snapshot, counts).get(request.priority, {}))
    missing = request.members - capacity.counts[request.name].total()
    width = max(CLEAR, min(2 * missing, 2 * CLEAR))
    costs: dict[str, tuple[tuple[int, int], list[str]]] = {}
    lightest: list[int] = []  # of those that are looked at this time, less than zero: the heaviest is the first of the heap
    for node in snapshot.nodes:
        if _may(snapshot, request, node):
            full = len(lightest) == (attempt + 1) * width
            cost = _cost(capacity, request, node, standing.get(node, []), weights, -lightest[0] if full else None)
            if cost is not None:
                costs[node] = cost
                (heapq.heappushpop if full else heapq.heappush)(lightest, -cost[0][0])
    ranked = sorted((cost, node) for node, (cost, _) in costs.items())
    clear = {node for _, node in ranked[attempt * width : (attempt + 1) * width]}
    if not clear:
        return None
    leaving = {other for node in clear for other in standing.get(node, []) if not other.gang} | {request}

    def takes(node: str) -> tuple[int, int, str]:
        host = snapshot.nodes[node]
        found = sum(1 for other in leaving if suits(other, host) and capacity.fits(other, host))
        return (-found, -sum(capacity.partial(node).values()) - WHOLE * capacity.free[node][GPUS], node)

    ready = sorted((node for node in snapshot.nodes if snapshot.nodes[node].state == "ready" and node not in clear), key=takes)
    gangs = dict.fromkeys(name for _, node in ranked if node in clear for name in costs[node][1])
    return around(snapshot, classified, counts, frozenset(clear), frozenset(ready[:RECEIVE]), frozenset(list(gangs)[:GANGS]))


def _may(snapshot: Snapshot, request: WorkloadRequest, node: str) -> bool:
    host = snapshot.nodes[node]
    return suits(request, host) and all(need <= whole for need, whole in zip(request.need, host.capacity, strict=True))


class _Weights:
    """What it weighs that one replica has to leave: MOVED where some other node has capacity for it now, else more."""

    def __init__(self, capacity: FreeCapacity, request: WorkloadRequest, held: Mapping[str, int]) -> None:
        self.capacity, self.request, self.held = capacity, request, held
        self.known: dict[str, int] = {}
        self.capacities: dict[tuple[object, ...], bool] = {}  # of those that are alike, does one fit any node?
        self.nodes = list(capacity.snapshot.nodes.values())
        self.free = np.array([capacity.free[host.name] for host in self.nodes], dtype=np.int64)

    def of(self, other: WorkloadRequest, node: NodeCapacity) -> int:
        """The weight of one replica of another workload, while some have left this node."""
        if other.gang:
            return STOPPED * other.members
        if other.name not in self.known:
            alike = (other.need, other.share, other.asked, other.single, other.linked)
            if alike not in self.capacities:
                fits = suits(other, node) and self.capacity.fits(other, node)
                self.capacities[alike] = fits or any(self.capacity.fits(other, host) for host in self._large(other))
            capacity = self.capacities[alike]
            stays = STOPPED if self.stops(other) else STUCK
            self.known[other.name] = MOVED if capacity and other.movable else stays
        return self.known[other.name]

    def _large(self, other: WorkloadRequest) -> Iterator[NodeCapacity]:
        """The nodes that suit it with as much free, what they hold apart: most have too little of something."""
        mask = hindering(self.capacity.snapshot, other).none
        for i, need in other.needs:
            mask = mask & (self.free[:, i] >= need)
        return (self.nodes[i] for i in np.flatnonzero(mask).tolist())

    def stops(self, other: WorkloadRequest) -> bool:
        """May it be stopped for the request: being of a lower priority, or lent to its team?"""
        if other.priority != self.request.priority:
            return other.priority < self.request.priority
        shares = self.capacity.snapshot.shares
        if shares is None or not shares.reclaim or not shares.shared(other):
            return False
        lost = shares.least(other, (a.node for a in self.capacity.snapshot.running.get(other.name, ())))
        lost *= other.members if other.gang else 1
        return shares.lends(self.held, other.priority, self.request.user, other.user, lost)


def _cost(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    node: str,
    standing: list[WorkloadRequest],
    weights: _Weights,
    most: int | None = None,
) -> tuple[tuple[int, int], list[str]] | None:
    """(Weight of the replicas that would have to go, how many) and the gangs among them: taken away until one fits.

    None where they weigh more than `most`.

    Of gangs only those that may be stopped, which stop whole. The next to go is the lightest; of these the one that holds
    most of what is short.
    """
    host = capacity.snapshot.nodes[node]
    gone: list[WorkloadRequest] = []
    weight = 0
    rest = [other for other in standing if other.name != request.name and (not other.gang or weights.stops(other))]
    while rest and (most is None or weight <= most) and capacity.most(request, host) <= 0:
        free = capacity.free[node]
        lacks = [i for i, need in enumerate(request.need) if need > free[i]]

        def helps(other: WorkloadRequest, lacks: list[int] = lacks, free: list[int] = free) -> tuple[int, float]:
            use = [other.gpus if i == GPUS else need for i, need in enumerate(other.need)]
            return (weights.of(other, host), -sum(min(1.0, use[i] / (request.need[i] - free[i])) for i in lacks))

        other = min(rest, key=helps)
        rest.remove(other)
        capacity.take(other, host, -1)
        gone.append(other)
        weight += weights.of(other, host)
    fits = capacity.most(request, host) > 0
    for other in gone:
        capacity.take(other, host, 1)
    weight += 0 if fits else NEVER
    if most is not None and weight > most:
        return None
    return (weight, len(gone)), [other.name for other in gone if other.gang] if fits else []
