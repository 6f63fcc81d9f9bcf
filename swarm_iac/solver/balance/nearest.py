"""Which racks, or sites, come first for a workload that is to be in few, in a pass over one workload after the other?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swarm_iac.solver.snapshot.capacity import group_of, held
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs


@dataclass(frozen=True)
class Nearest:
    """`alone`: nodes of each group that has capacity for all, in the order in which groups are tried; `rank`: of all nodes."""

    alone: list[Ints]
    rank: Ints


def by_nearness(slots: Slots, request: WorkloadRequest, rows: Ints, caps: Ints, count: int) -> Nearest:
    """Groups where replicas of it are already come first. Of those that hold all `count` the one with the least left over,
    else the largest.
    """
    level = request.gathers
    assert level is not None, "asked only of those that are to be in few"
    groups, there = slots.groups(level), held(slots.capacity, request, level)
    fits = np.bincount(groups[rows], weights=caps[rows].astype(np.float64), minlength=int(groups.max(initial=-1)) + 1)
    standing = np.zeros(len(fits), dtype=np.int64)
    for node in slots.capacity.counts[request.name] if there else ():
        standing[groups[slots.index[node]]] += slots.capacity.counts[request.name][node]

    def first(group: int) -> tuple[int, bool, float, int]:
        enough = bool(fits[group] >= count)
        return (-int(standing[group]), not enough, float(fits[group] if enough else -fits[group]), group)

    order = sorted(range(len(fits)), key=first)
    rank = np.empty(len(fits), dtype=np.int64)
    rank[order] = np.arange(len(fits))
    whole = [group for group in order if fits[group] >= count and (standing[group] or not standing.any())]
    return Nearest([rows[groups[rows] == group] for group in whole], rank[groups])


def nearby(snapshot: Snapshot) -> tuple[str, ...]:
    """The workloads with `near`."""
    return tuple(name for name, request in snapshot.requests.items() if request.near)


def near_value(snapshot: Snapshot, counts: Pairs) -> int:
    """Racks, or sites, beyond the first one that each workload with `near` uses."""
    found = 0
    for name in nearby(snapshot):
        level = snapshot.requests[name].near or "node"
        groups = {group_of(snapshot.nodes[node], level) for (one, node), count in counts.items() if one == name and count > 0}
        found += max(0, len(groups) - 1)
    return found
