"""How many preferred labels do the nodes of replicas lack?"""

from __future__ import annotations

import numpy as np

from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import labelled
from swarm_iac.solver.snapshot.tasks import Pairs


def lacks(slots: Slots, request: WorkloadRequest) -> Ints:
    """For every node how many of the labels that the workload prefers it has not."""
    found: Ints = np.zeros(len(slots.nodes), dtype=np.int64)
    for label, value in request.place.prefer.items():
        found += ~labelled(slots.snapshot, label, value)
    return found


def choosy(snapshot: Snapshot) -> frozenset[str]:
    """The workloads with `prefer`."""
    return frozenset(name for name, request in snapshot.requests.items() if request.place.prefer)


def lacks_value(snapshot: Snapshot, counts: Pairs) -> int:
    """Σ over replicas of the preferred labels that their node has not."""
    names = choosy(snapshot)
    return sum(
        count * snapshot.requests[name].place.lacks(snapshot.nodes[node].labels)
        for (name, node), count in counts.items()
        if name in names
    )


def least_lacks(snapshot: Snapshot, counts: Pairs) -> int:
    """The same if each replica were on the node that has the most of them, whatever else it has."""
    names, best = choosy(snapshot), dict[frozenset[tuple[str, str]], int]()
    labels = {tuple(host.labels.items()): host.labels for host in snapshot.nodes.values()}.values()
    wished = {name: snapshot.requests[name].place for name in names}
    asked = {name: frozenset(place.prefer.items()) for name, place in wished.items()}
    for name, place in wished.items():
        if asked[name] not in best:
            best[asked[name]] = min(map(place.lacks, labels), default=0)
    return sum(count * best[asked[name]] for (name, _), count in counts.items() if name in names)
