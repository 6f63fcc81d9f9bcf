"""Which nodes are one to those who ask? Pools of nodes that suit the same requests, with GPUs that count the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from swarm_iac.model.gpus.worth import Weights
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering, may_stay, suits


@dataclass(frozen=True)
class Pools:
    """The nodes of each pool, and the pools that suit each workload."""

    nodes: Mapping[str, tuple[NodeCapacity, ...]]
    suit: Mapping[str, frozenset[str]]


def pools_of(snapshot: Snapshot, weights: Weights, *, gpus: bool) -> Pools:
    """`gpus`: of the workloads and nodes that have any alone; else the nodes of a pool are of one size, too."""
    kinds: dict[tuple[object, ...], list[WorkloadRequest]] = defaultdict(list)
    for request in snapshot.requests.values():
        if request.gpus or not gpus:
            kinds[request.asked, request.on_one, request.linked, request.need, request.gpus].append(request)
    firsts = [ones[0] for ones in kinds.values()]
    suited = np.array([hindering(snapshot, one).none for one in firsts], np.bool_).reshape(len(firsts), len(snapshot.nodes))
    known: dict[int, frozenset[int]] = {}
    nodes: dict[tuple[frozenset[int], int, int], list[NodeCapacity]] = defaultdict(list)
    for name, host in snapshot.nodes.items():
        if host.capacity[GPUS] or not gpus:
            alike = snapshot.alike[name]
            if alike not in known:
                suit = suited[:, snapshot.rows[name]]
                known[alike] = frozenset(i for i in np.flatnonzero(suit).tolist() if _fits(firsts[i], host))
            nodes[known[alike], weights.of(host.name), 0 if gpus else alike].append(host)
    pools = {f"{number}": (suit, tuple(hosts)) for number, ((suit, *_), hosts) in enumerate(nodes.items()) if suit}
    found = {
        one.name: frozenset(pool for pool, (suit, _) in pools.items() if i in suit)
        for i, ones in enumerate(kinds.values())
        for one in ones
    }
    return Pools({pool: hosts for pool, (_, hosts) in pools.items()}, found)


def only_stays(snapshot: Snapshot) -> Iterator[tuple[WorkloadRequest, NodeCapacity]]:
    """What runs on a node where nothing new of it may come."""
    for name, ones in snapshot.running.items():
        request = snapshot.requests[name]
        for one in ones:
            host = snapshot.nodes.get(one.node)
            if host and not suits(request, host) and may_stay(request, host):
                yield request, host


def model_of(host: NodeCapacity) -> str:
    """The model of its GPUs, or `GPU`."""
    return host.model or "GPU"


def _fits(request: WorkloadRequest, host: NodeCapacity) -> bool:
    return all(need <= has for need, has in zip(request.need, host.capacity, strict=True))
