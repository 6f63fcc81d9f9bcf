"""How many replicas with `prefer_with` or `only_with` have nobody near them whom they are to be with?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from swarm_iac.model.place.groups import LEVELS, Level
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload
from swarm_iac.solver.snapshot.value import near

#: Who would rather be in one node, rack or site with whom.
Wish = tuple[str, Level, str]


def wishes(snapshot: Snapshot) -> tuple[Wish, ...]:
    """Those of all workloads with `prefer_with` or `only_with`, each with each that it names."""
    known: dict[str, tuple[Wish, ...]] = snapshot.known(wishes)
    if not known:
        every = (
            (name, level, other)
            for name, request in snapshot.requests.items()
            for named in (request.place.prefer_with, request.place.only_with)
            for level, others in named.items()
            for other in others
            if other in snapshot.requests
        )
        known["all"] = tuple(dict.fromkeys(every))
    return known["all"]


def wishes_about(snapshot: Snapshot, name: str) -> tuple[Wish, ...]:
    """Those of a workload, and those that name it."""
    known: dict[str, list[Wish]] = snapshot.known(wishes_about)
    if not known:
        for one in wishes(snapshot):
            for about in (one[0], one[2]):
                known.setdefault(about, []).append(one)
    return tuple(known.get(name, ()))


def alone_value(snapshot: Snapshot, counts: Pairs) -> int:
    """Σ over (w, kind, v) of `wishes` of the replicas of w in groups of this kind without a replica of v."""
    where: dict[tuple[str, Level], set[str]] = {(other, level): set() for _, level, other in wishes(snapshot)}
    named = {name for name, _ in where}
    for (name, node), count in counts.items():
        for level in LEVELS if name in named and count > 0 else ():
            if (name, level) in where:
                where[name, level].add(group_of(snapshot.nodes[node], level))
    of_name: dict[str, list[tuple[Level, set[str]]]] = {}
    for name, level, other in wishes(snapshot):
        of_name.setdefault(name, []).append((level, where[other, level]))
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


def alone(slots: Slots, request: WorkloadRequest) -> Ints:
    """For every node how many have nobody whom they prefer if a replica comes there, beside how many have nobody now."""
    found: Ints = np.zeros(len(slots.nodes), dtype=np.int64)
    for name, level, other in wishes_about(slots.capacity.snapshot, request.name):
        groups = slots.groups(level)
        stand = _standing(slots, other if name == request.name else name, groups)
        if name == request.name:
            found += stand[groups] == 0
        else:
            found -= np.where(_standing(slots, other, groups) == 0, stand, 0)[groups]
    return found


def accompanied(capacity: FreeCapacity, request: WorkloadRequest) -> Callable[[NodeCapacity], bool]:
    """Of a node, as all stand now: is each that `only_with` names on it, in its rack or in its site?"""
    nodes = capacity.snapshot.nodes
    there = [
        (level, {group_of(nodes[node], level) for node in capacity.counts.get(other, ())})
        for level, others in request.place.only_with.items()
        for other in others
    ]
    return lambda host: all(group_of(host, level) in groups for level, groups in there)


def named_first(requests: Sequence[WorkloadRequest]) -> list[WorkloadRequest]:
    """The same, but before each of them those of its priority that `only_with` names; in a circle the first comes last."""
    known, found, reached = {request.name: request for request in requests}, list[WorkloadRequest](), set[str]()
    for request in requests:
        way = [request] if request.name not in reached else []
        reached.add(request.name)
        while way:
            named = (known.get(name) for names in way[-1].place.only_with.values() for name in names)
            one = next((one for one in named if one and one.priority == way[-1].priority and one.name not in reached), None)
            if one is None:
                found.append(way.pop())
            else:
                reached.add(one.name)
                way.append(one)
    return found


def beside(snapshot: Snapshot, counts: Pairs) -> Snapshot:
    """The snapshot that knows of each node who of those that `only_with` names is near it in `counts`."""
    there, named = near(snapshot, counts), [(level, name) for name, levels in snapshot.sought.items() for level in levels]
    nodes = {
        name: replace(host, company=frozenset(one for one in named if (*one, group_of(host, one[0])) in there))
        for name, host in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


def _standing(slots: Slots, name: str, groups: Ints) -> Ints:
    """Replicas of a workload in each group."""
    found: Ints = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    for node, count in slots.capacity.counts[name].items():
        found[groups[slots.index[node]]] += count
    return found
