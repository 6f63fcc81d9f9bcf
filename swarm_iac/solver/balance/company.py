"""How many replicas with `prefer_with` have nobody near them whom they prefer to be with?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swarm_iac.model.place.groups import Level
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload


def wishes(snapshot: Snapshot) -> tuple[tuple[str, Level, str], ...]:
    """Who would rather be in one node, rack or site with whom: each workload with `prefer_with`, and each that it names."""
    return tuple(
        (name, level, other)
        for name, request in snapshot.requests.items()
        for level, others in request.place.prefer_with.items()
        for other in others
        if other in snapshot.requests
    )


def alone_value(snapshot: Snapshot, counts: Pairs) -> int:
    """Σ over (w, kind, v) of `wishes` of the replicas of w in groups of this kind without a replica of v."""
    groups: dict[tuple[str, Level], set[str]] = {}
    asked = wishes(snapshot)
    named = {(other, level) for _, level, other in asked}
    for (name, node), count in counts.items():
        for level in {level for other, level in named if other == name} if count > 0 else ():
            groups.setdefault((name, level), set()).add(group_of(snapshot.nodes[node], level))
    of_name: dict[str, list[tuple[Level, set[str]]]] = {}
    for name, level, other in asked:
        of_name.setdefault(name, []).append((level, groups.get((other, level), set())))
    return sum(
        count
        for (name, node), count in counts.items()
        for level, there in of_name.get(name, ())
        if group_of(snapshot.nodes[node], level) not in there
    )


def least_alone(snapshot: Snapshot, counts: Pairs) -> int:
    """No placement of the same workloads has fewer: nobody is with one that has no place."""
    placed = by_workload(counts)
    return sum(placed[name] for name, _, other in wishes(snapshot) if not placed[other])


def stays_with(snapshot: Snapshot, name: str) -> frozenset[Level]:
    """The kinds of groups in which a replica has company that it prefers, or is company for one that prefers it."""
    known: dict[str, frozenset[Level]] = snapshot.known(stays_with)
    if not known:
        found: dict[str, set[Level]] = {one: set() for one in snapshot.requests}
        for one, level, other in wishes(snapshot):
            found[one].add(level)
            found[other].add(level)
        known.update({one: frozenset(levels) for one, levels in found.items()})
    return known[name]


def alone(slots: Slots, request: WorkloadRequest) -> Ints:
    """For every node how many have nobody whom they prefer if a replica comes there, beside how many have nobody now."""
    found: Ints = np.zeros(len(slots.nodes), dtype=np.int64)
    for name, level, other in _about(slots.capacity.snapshot, request.name):
        groups = slots.groups(level)
        stand = _standing(slots, other if name == request.name else name, groups)
        if name == request.name:
            found += stand[groups] == 0
        else:
            found -= np.where(_standing(slots, other, groups) == 0, stand, 0)[groups]
    return found


def _about(snapshot: Snapshot, name: str) -> Iterator[tuple[str, Level, str]]:
    return (one for one in wishes(snapshot) if name in (one[0], one[2]))


def _standing(slots: Slots, name: str, groups: Ints) -> Ints:
    """Replicas of a workload in each group."""
    found: Ints = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    for node, count in slots.capacity.counts[name].items():
        found[groups[slots.index[node]]] += count
    return found
