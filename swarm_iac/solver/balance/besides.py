"""How many workloads with `prefer_apart` share a node, rack or site with another one?"""

from __future__ import annotations

import numpy as np

from swarm_iac.model.place.groups import LEVELS, Level
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs


def shy(snapshot: Snapshot) -> dict[Level, frozenset[str]]:
    """By kind of group the workloads with `prefer_apart`, where there are several: one alone has nobody to be apart from."""
    found = {
        level: frozenset(name for name, request in snapshot.requests.items() if request.place.prefer_apart == level)
        for level in LEVELS
    }
    return {level: names for level, names in found.items() if len(names) > 1}


def beside_value(snapshot: Snapshot, counts: Pairs) -> int:
    """Σ over nodes, racks and sites g of max(0, |{w in g}| − 1), over all w with `prefer_apart` for this kind of group."""
    found = 0
    for level, names in shy(snapshot).items():
        inside = {
            (group_of(snapshot.nodes[node], level), one) for (one, node), count in counts.items() if one in names and count
        }
        found += len(inside) - len({group for group, _ in inside})
    return found


def least_beside(snapshot: Snapshot, counts: Pairs) -> int:
    """No placement of the same workloads has fewer: each is in one group at least, and so many groups there are."""
    found = 0
    for level, names in shy(snapshot).items():
        placed = {one for (one, _), count in counts.items() if one in names and count}
        groups = {group_of(host, level) for host in snapshot.nodes.values()}
        found += max(0, len(placed) - len(groups))
    return found


def crowded(slots: Slots, request: WorkloadRequest) -> Ints:
    """For every node 1 where another one with `prefer_apart` is in its group, and this workload is not; else 0."""
    level, capacity = request.place.prefer_apart, slots.capacity
    assert level is not None, "asked only of those with `prefer_apart`"
    groups = slots.groups(level)
    found = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    for name in shy(capacity.snapshot).get(level, frozenset()) - {request.name}:
        for node in capacity.counts[name]:
            found[groups[slots.index[node]]] = 1
    for node in capacity.counts[request.name]:
        found[groups[slots.index[node]]] = 0
    of_nodes: Ints = found[groups]
    return of_nodes
