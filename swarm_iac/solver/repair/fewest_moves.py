"""How few moves could a change need at least? Counted, in milliseconds.

Take the number of whole GPUs that some new replica wants, two or more, and all that is placed and holds at least as
many: the large ones. Each needs at least their smallest request, resource by resource. What else stands on a node and may
stay is in the way: for c large ones there at least `leave(c)` of it has to go, by the cards and by each other resource.
The cheapest way to spread the large ones over all nodes, which is a small dynamic program, bounds the moves of every
placement that places as much and stops nobody. The best of these bounds counts. Source: the relaxation of bin packing
to one size of item, as in counting bounds for whole-node jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from swarm_iac.model.placement import Allocation, Goal
from swarm_iac.solver.repair.gpu_reassignment import gpu_reassignments
from swarm_iac.solver.snapshot.layout import GPUS, NODE
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import may_stay, suits
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload

#: More than any number of moves.
NEVER = 1 << 30


def moves_goal(snapshot: Snapshot, classified: Classified, counts: Pairs) -> Goal:
    """Replicas that could stay and stand elsewhere, and the least that any placement of the same replicas could have."""
    placed, stood = by_workload(counts), by_workload(classified.stand)
    moves = moves_of(snapshot, classified, counts)
    stopped = sum(max(0, count - placed[name]) for name, count in stood.items())
    bound = fewest(snapshot, classified, placed, stood) - stopped
    return Goal(name="moves", value=moves, bound=min(moves, max(0, bound)))


def moves_of(snapshot: Snapshot, classified: Classified, counts: Pairs) -> int:
    """Replicas that could stay and are elsewhere: on another node, or with a part of another GPU.

    One that is not movable counts as more than any budget.
    """
    forbidden = moved(classified, counts, snapshot.immovable) if snapshot.immovable else 0
    return moved(classified, counts) + gpu_reassignments(snapshot, classified, counts) + NEVER * forbidden


def moved(classified: Classified, counts: Pairs, among: frozenset[str] | None = None) -> int:
    """Replicas, of some workloads or of all, that could stay and are on another node."""
    stay = classified.stand
    if among is not None:
        stay = Counter({pair: count for pair, count in stay.items() if pair[0] in among})
    placed = by_workload(counts)
    kept = sum(min(count, counts[pair]) for pair, count in stay.items())
    return sum(min(count, placed[name]) for name, count in by_workload(stay).items()) - kept


def fewest(snapshot: Snapshot, classified: Classified, placed: Counter[str], stood: Counter[str]) -> int:
    """The bound, for a change after which so many replicas of each workload are placed; so many could have stayed."""
    standing: dict[str, list[Allocation]] = {}
    for a in classified.stay.values():
        standing.setdefault(a.node, []).append(a)
    sizes = {
        request.need[GPUS]
        for name, request in snapshot.requests.items()
        if placed[name] > stood[name] and request.need[GPUS] > 1
    }
    return max((_of_size(snapshot, size, standing, placed) for size in sorted(sizes)), default=0)


def _of_size(snapshot: Snapshot, size: int, standing: dict[str, list[Allocation]], placed: Counter[str]) -> int:
    large = {name: request for name, request in snapshot.requests.items() if placed[name] and request.need[GPUS] >= size}
    least = tuple(min(request.need[i] for request in large.values()) for i in range(len(NODE)))
    cost = np.full(1 + sum(placed[name] for name in large), NEVER, dtype=np.int64)
    cost[0] = 0
    for name, host in snapshot.nodes.items():
        found = standing.get(name, ())
        if any(suits(request, host) or may_stay(request, host) for request in large.values()):
            small = [(snapshot.requests[a.workload], a.cards) for a in found if a.workload not in large]
            cost = _spread(cost, _Node(host, small), least)
    return int(cost[-1]) if cost[-1] < NEVER else 0


@dataclass(frozen=True)
class _Node:
    """A node and the small ones that may stay there."""

    node: NodeCapacity
    small: list[tuple[WorkloadRequest, tuple[int, ...]]]

    def leave(self, need: tuple[int, ...], most: int) -> list[int]:
        """How many small ones have to go at least for 0, 1, … `most` large ones.

        By cards: each small one weighs 1 in all, spread over its cards, and the lightest cards go first. By each other
        resource: the largest go first.
        """
        weights = [0.0] * self.node.capacity[GPUS]
        for _, gpus in self.small:
            for card in gpus:
                weights[card] += 1 / len(gpus)
        weights.sort()
        found = [0]
        for count in range(1, most + 1):
            worst = math.ceil(sum(weights[: need[GPUS] * count]) - 1e-6)
            for i, each in enumerate(need):
                if each and i != GPUS:
                    worst = max(worst, self._by(i, each * count))
            found.append(worst)
        return found

    def _by(self, i: int, wanted: int) -> int:
        held = sorted((request.need[i] for request, _ in self.small), reverse=True)
        lacking = wanted - (self.node.capacity[i] - sum(held))
        gone = 0
        while lacking > 0 and gone < len(held):
            lacking -= held[gone]
            gone += 1
        return gone


def _spread(cost: npt.NDArray[np.int64], node: _Node, need: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """`cost[j]`: the fewest moves to fit j large ones on the nodes so far; now with one node more."""
    most = min(capacity // each for capacity, each in zip(node.node.capacity, need, strict=True) if each)
    own = node.leave(need, min(most, len(cost) - 1))
    best = cost.copy()
    for count, leave in enumerate(own[1:], start=1):
        best[count:] = np.minimum(best[count:], cost[:-count] + leave)
    return best
