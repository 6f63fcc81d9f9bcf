"""Who of a lower priority makes way for pending work, where the least is lost? Greedily, one replica after the other.

Searches that free capacity (`decide/clearing.py`) look at one workload and a few nodes at a time, and end by effort: what they
do not come to would be pending beside work of a lower priority.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.balance.company import accompanied
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.neighbourhood import short
from swarm_iac.solver.repair.restoring import capacity_beside
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload
from swarm_iac.solver.snapshot.value import size

#: Nodes that are looked at for one replica: those where by their sums the least has to go.
LOOKED_AT = 12
#: Replicas that come in at most: each takes some milliseconds on a fleet of 2,000 nodes.
REPLICAS = 500


def preempting(snapshot: Snapshot, counts: Pairs) -> list[WorkloadRequest]:
    """Who is pending beside work of a lower priority, and stands for itself."""
    least = min((snapshot.requests[name].priority for name, _ in counts), default=0)
    return [one for one in short(snapshot, counts) if one.priority > least and not (one.in_pieces or one.local or one.even)]


def preempted(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """The placement with pending work in place of some of a lower priority: of gangs all members, or none.

    Left to searches: who is bound within a node, or to groups that are compared, pieces of GPUs, and guarantees of teams.
    """
    waiting = preempting(snapshot, counts)
    if not waiting or (snapshot.shares and snapshot.shares.guarantees):
        return counts
    fleet = _Fleet(snapshot, capacity_beside(snapshot, classified, counts), Counter(counts), classified.stand)
    placed = by_workload(counts)
    for request in waiting:
        if request.name not in fleet.stopped:
            fleet.enter(request, request.members - placed[request.name], stop)
    found, most = +fleet.counts, max(int(snapshot.stack.solve.moves), moves_of(snapshot, classified, counts))
    return found if moves_of(snapshot, classified, found) <= most else counts


@dataclass
class _Fleet:
    """A placement, and what is free beside it."""

    snapshot: Snapshot
    capacity: FreeCapacity
    counts: Pairs
    stand: Pairs
    #: By node the workloads that may make way, and by priority what all below it hold there that may.
    on: dict[str, Counter[str]] = field(init=False)
    below: dict[int, np.ndarray[tuple[int, int], np.dtype[np.int64]]] = field(init=False)
    #: Who could stay and does not: on another node it would have moved.
    stopped: set[str] = field(init=False)
    left: int = REPLICAS

    def __post_init__(self) -> None:
        requests, rows = self.snapshot.requests, self.snapshot.rows
        self.stopped = {name for name, _ in self.stand - self.counts}
        self.on = {node: Counter() for node in self.snapshot.nodes}
        width = len(next(iter(requests.values())).need)
        levels = sorted({one.priority for one in requests.values()})
        self.below = {level: np.zeros((len(self.on), width), dtype=np.int64) for level in levels}
        new = {name for name, _ in self.counts - self.stand}  # with those alone it makes way: they would have moved else
        for (name, node), count in self.counts.items():
            one, may = requests[name], count - self.stand[name, node] if name in new else count
            if may > 0 and not (one.gang or one.in_pieces or one.sought) and one.movable:
                self.on[node][name] += may
                self._held(one, rows[node], may)
        self.hosts = list(self.snapshot.nodes.values())
        self.free = np.array([self.capacity.free[host.name][:width] for host in self.hosts], dtype=np.int64)

    def enter(self, request: WorkloadRequest, count: int, stop: Callable[[], bool]) -> None:
        """So many replicas, as far as they find a place; of a gang all or none."""
        done: list[tuple[WorkloadRequest, NodeCapacity, int]] = []
        if request.gang and count > self.left:
            return
        for _ in range(min(count, self.left)):
            found = None if stop() or self.capacity.by_ceiling(request) <= 0 else self._cheapest(request)
            if found is None:
                if request.gang:
                    for one, host, sign in reversed(done):
                        self._put(one, host, -sign)
                    return
                break
            host, gone = found
            for one, sign in (*((one, -1) for one in gone), (request, 1)):
                self._put(one, host, sign)
                done.append((one, host, sign))
        self.left -= sum(sign > 0 for _, _, sign in done)
        self.stopped |= {one.name for one, _, sign in done if sign < 0}

    def _cheapest(self, request: WorkloadRequest) -> tuple[NodeCapacity, list[WorkloadRequest]] | None:
        """A node, and who stops there for one more replica."""
        need = np.array(request.need, dtype=np.int64)
        lacks = np.maximum(0, need - self.free)
        able = hindering(self.snapshot, request).none & (lacks <= self.below[request.priority]).all(axis=1)
        if request.place.only_with:
            near = accompanied(self.capacity, request)
            able = able & np.array([near(host) for host in self.hosts], dtype=np.bool_)
        rows = np.flatnonzero(able)
        part = (lacks[rows] / np.maximum(1, need)).sum(axis=1)
        best: tuple[list[int], NodeCapacity, list[WorkloadRequest]] | None = None
        for row in rows[np.lexsort((rows, part, lacks[rows, GPUS]))][:LOOKED_AT].tolist():
            host = self.hosts[row]
            if (request.name, host.name) in self.snapshot.barred:
                continue
            gone = self._gone(request, host)
            if gone is not None and (best is None or _lost(gone) < best[0]):
                best = _lost(gone), host, gone
        return best and best[1:]

    def _gone(self, request: WorkloadRequest, host: NodeCapacity) -> list[WorkloadRequest] | None:
        """Who would have to go from this node, the lowest priority first; None where that is not enough."""
        capacity, free = self.capacity, self.capacity.free[host.name]
        requests = self.snapshot.requests
        rest = Counter({name: n for name, n in self.on[host.name].items() if requests[name].priority < request.priority})
        gone: list[WorkloadRequest] = []
        while capacity.most(request, host) <= 0 and rest.total():
            lacks = [(i, need - free[i]) for i, need in request.needs if need > free[i]]

            def order(name: str, lacks: list[tuple[int, int]] = lacks) -> tuple[int, float, int, str]:
                one = requests[name]
                helps = sum(min(1.0, one.need[i] / lack) for i, lack in lacks)
                return one.priority, -helps, size(one), name

            one = requests[min((name for name, n in rest.items() if n), key=order)]
            rest[one.name] -= 1
            capacity.take(one, host, -1)
            gone.append(one)
        fits = capacity.most(request, host) > 0
        for one in sorted(gone, key=lambda one: (-one.priority, -size(one), one.name)) if fits else ():
            capacity.take(one, host, 1)  # it need not go, where the others are enough
            if capacity.most(request, host) > 0:
                gone.remove(one)
            else:
                capacity.take(one, host, -1)
        for one in gone:
            capacity.take(one, host, 1)
        return gone if fits else None

    def _put(self, request: WorkloadRequest, host: NodeCapacity, sign: int) -> None:
        row = self.snapshot.rows[host.name]
        self.capacity.take(request, host, sign)
        self.counts[request.name, host.name] += sign
        self.free[row] = self.capacity.free[host.name][: self.free.shape[1]]
        if not request.gang and request.movable:
            self.on[host.name][request.name] += sign
            self._held(request, row, sign)

    def _held(self, request: WorkloadRequest, row: int, count: int) -> None:
        for level, held in self.below.items():
            if request.priority < level:
                held[row] += np.array(request.need, dtype=np.int64) * count


def _lost(gone: list[WorkloadRequest]) -> list[int]:
    """By priority, the highest first, GPUs and replicas."""
    found: list[int] = []
    for level in sorted(PRIORITIES.values(), reverse=True):
        mine = [one for one in gone if one.priority == level]
        found += [sum(map(size, mine)), len(mine)]
    return found
