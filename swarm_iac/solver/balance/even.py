"""Which racks (or sites) are compared for `balance`, and how many more replicas does each take?

    For every group g that is compared and gets a new replica:  count_g − min_h count_h ≤ skew,  h compared with g

A group is compared if a ready node of it suits the workload and could hold a replica if nothing else ran there; with
`within: site` only with those of its site. New on a node are replicas beyond those that ran there: what runs stays, also
where an edit or a lost node leaves more between two groups than the skew, and then nothing new comes to the fuller one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from swarm_iac.model.place.groups import LEVELS, Group
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of, groups_of, held
from swarm_iac.solver.snapshot.capacity import left as left_alone
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering
from swarm_iac.solver.snapshot.tasks import Pairs


def large_enough(request: WorkloadRequest, host: NodeCapacity) -> bool:
    """Could the empty machine hold a replica? Its files of finished jobs do not count."""
    if any(need > host.whole[i] for i, need in request.needs):
        return False
    if request.profile:
        return request.gpus <= host.whole[GPUS] * len(host.profiles[request.profile].starts)
    return not request.shared or host.whole[GPUS] >= request.gpus


class Compared(dict[str, str]):
    """Groups, each with what it has in common with those that it is compared with."""

    @cached_property
    def sizes(self) -> Counter[str]:
        """How many groups have it in common."""
        return Counter(self.values())

    def fewest(self, there: Mapping[str, int]) -> dict[str, int]:
        """The fewest in any of those that are compared with each other, of so many in each group; 0 where none is named."""
        found, seen = dict[str, int](), Counter[str]()
        for place, count in there.items():
            if place in self:
                near = self[place]
                found[near] = min(count, found.get(near, count))
                seen[near] += 1
        return {near: found[near] if seen[near] == size else 0 for near, size in self.sizes.items()}


def compared(snapshot: Snapshot, request: WorkloadRequest) -> Compared:
    """The groups that are compared."""
    group = request.even
    assert group is not None, "asked only of those with `balance`"
    around = request.together
    near = around if around is not None and LEVELS.index(around) > LEVELS.index(group.level) else None
    key = (request.asked, request.on_one, request.joined, request.need, request.share, request.gpus, group.level, near)
    known = snapshot.known(compared)
    if key not in known:
        open_, (sizes, firsts) = hindering(snapshot, request).none, _sizes(snapshot)
        large = [size for size in np.unique(sizes[open_]).tolist() if large_enough(request, firsts[size])]
        rows = np.flatnonzero(open_ & np.isin(sizes, large))
        (places, mine), nodes = groups_of(snapshot, group.level), list(snapshot.nodes.values())
        _, first = np.unique(mine[rows], return_index=True)
        found = known[key] = Compared()
        for row in rows[np.sort(first)].tolist():
            found[places[mine[row]]] = group_of(nodes[row], near) if near else ""
    return cast("Compared", known[key])


def _sizes(snapshot: Snapshot) -> tuple[npt.NDArray[np.int64], list[NodeCapacity]]:
    """A number for each node, the same for those that `large_enough` does not tell apart, and the first of each number."""
    known = snapshot.known(_sizes)
    if () not in known:
        firsts: dict[tuple[object, ...], tuple[int, NodeCapacity]] = {}
        hosts = snapshot.nodes.values()
        numbers = [firsts.setdefault((host.whole, host.cards, host.mig), (len(firsts), host))[0] for host in hosts]
        known[()] = np.array(numbers, dtype=np.int64), [host for _, host in firsts.values()]
    return cast("tuple[npt.NDArray[np.int64], list[NodeCapacity]]", known[()])


class Even:
    """How evenly the replicas of one workload stand, of which each node has so many."""

    def __init__(self, snapshot: Snapshot, request: WorkloadRequest, counts: Mapping[str, int]) -> None:
        group = request.even
        assert group is not None, "asked only of those with `balance`"
        self.group, self.counts, self.nodes = group, counts, snapshot.nodes
        self.compared = compared(snapshot, request)
        self.ran = snapshot.home(request.name)
        #: How many are in each group; which groups have a new one; how many may still return to where they ran.
        self.there, self.back = Counter[str](), Counter[str]()
        self.new: set[str] = set()
        for node in {*counts, *self.ran} & self.nodes.keys():
            place, count, ran = self.place(self.nodes[node]), counts.get(node, 0), self.ran[node]
            self.there[place] += count
            self.back[place] += max(0, ran - count)
            if count > ran:
                self.new.add(place)
        #: The fewest in any of the groups that are compared with each other.
        self.least = self.compared.fewest(self.there)

    def place(self, host: NodeCapacity) -> str:
        """The group of a node."""
        return group_of(host, self.group.level)

    def step(self, place: str) -> int | None:
        """How many more new replicas a group takes with all others as they are; None where it is not compared."""
        if place not in self.compared:
            return None
        return max(0, self.least[self.compared[place]] + self.group.skew - self.there[place])

    def over(self) -> dict[str, int]:
        """Groups with a new replica that have too many, and how many too many."""
        return {
            place: more
            for place in self.new & self.compared.keys()
            if (more := self.there[place] - self.least[self.compared[place]] - self.group.skew) > 0
        }


def left(capacity: FreeCapacity, request: WorkloadRequest, group: Group, host: NodeCapacity) -> int | None:
    """How many more replicas a rule on groups of nodes leaves on this node, with all others as they are; None: any number.

    Who lost its slot is new where it ran: the next decision begins from what stands.
    """
    if group.of.even:
        stands = Even(capacity.snapshot, request, capacity.counts[request.name])
        return stands.step(stands.place(host))
    return left_alone(capacity, request, group, host)


def left_on_each(capacity: FreeCapacity, request: WorkloadRequest, group: Group) -> npt.NDArray[np.int64]:
    """The same of each node, in their order; ENDLESS for any number."""
    snapshot = capacity.snapshot
    places, mine = groups_of(snapshot, "node" if group.of.joins else group.level)
    if group.of.joins:
        most = [left_alone(capacity, request, group, host) for host in snapshot.nodes.values()]
    elif group.of.even:
        most = list(map(Even(snapshot, request, capacity.counts[request.name]).step, places))
    else:
        there = held(capacity, request, group.level)
        most = [group.left(there, place) for place in places]
    found: npt.NDArray[np.int64] = np.array([ENDLESS if one is None else one for one in most], dtype=np.int64)[mine]
    for kind, near in capacity.groups_near(request, group).items() if group.of.others else ():
        names, theirs = groups_of(snapshot, kind)
        found[np.array([name in near for name in names], dtype=np.bool_)[theirs]] = 0
    return found


def even(snapshot: Snapshot, counts: Pairs) -> bool:
    """Has every workload with `balance` its replicas as it demands?"""
    here: dict[str, dict[str, int]] = {name: {} for name in snapshot.evened}
    for (name, node), count in counts.items() if here else ():
        if count > 0 and name in here:
            here[name][node] = count
    return not any(Even(snapshot, snapshot.requests[name], mine).over() for name, mine in here.items())


def uneven(snapshot: Snapshot, name: str, counts: Pairs) -> dict[str, int]:
    """The groups with a new replica of the workload that have too many, and how many too many."""
    mine = {node: count for (one, node), count in counts.items() if one == name and count > 0}
    return Even(snapshot, snapshot.requests[name], mine).over()
