"""Which nodes could take one more replica now? `FreeCapacity` for all nodes at once, in numpy.

Rows are nodes in the order of their names. `caps` bounds what `FreeCapacity.most` says of each node, and
`most` has the last word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE
from swarm_iac.model.place.groups import Level
from swarm_iac.solver.packing.mig_instances import Held
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of, groups_of, held
from swarm_iac.solver.snapshot.layout import GPUS, POWER, RACK, SUPPLY, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import Mask, hindering

Ints = npt.NDArray[np.int64]


class Slots:
    """What is free in `capacity`, which changes through `take` and `put_back` only."""

    def __init__(self, capacity: FreeCapacity) -> None:
        snapshot = capacity.snapshot
        self.capacity, self.snapshot = capacity, snapshot
        self.nodes: list[NodeCapacity] = list(snapshot.nodes.values())
        self.index = {host.name: i for i, host in enumerate(self.nodes)}
        dims = len(self.nodes[0].capacity) if self.nodes else 0
        self.free: Ints = np.array([capacity.free[host.name] for host in self.nodes], dtype=np.int64).reshape(
            len(self.nodes), dims
        )
        self.used: Mask = np.array([capacity.load[host.name] > 0 for host in self.nodes], dtype=np.bool_)
        self.ready: Mask = np.array([host.state == "ready" for host in self.nodes], dtype=np.bool_)
        self.kind: Ints = np.array([snapshot.alike[host.name] for host in self.nodes], dtype=np.int64)
        self.model = np.array([host.model or "" for host in self.nodes]) if snapshot.models else np.array([])
        self.power: Ints = np.array([host.power for host in self.nodes], dtype=np.int64)
        racks = list(capacity.racks)
        number = {name: i for i, name in enumerate(racks)}
        self.rack: Ints = np.array([number.get(host.rack or "", len(racks)) for host in self.nodes], dtype=np.int64)
        self._budgets: Ints = np.array([*capacity.racks.values(), (ENDLESS,) * len(RACK)], dtype=np.int64)

    def suits(self, request: WorkloadRequest) -> Mask:
        """Which nodes suit it, their state aside?"""
        return hindering(self.snapshot, request).none_but_state

    def caps(self, request: WorkloadRequest) -> Ints:
        """How many more replicas of `ask` each node could take; 0 where it is not ready or does not suit."""
        capacity = self.capacity
        left = min(request.members - capacity.counts[request.name].total(), capacity.by_ceiling(request))
        caps: Ints = np.where(self.ready & self.suits(request), max(0, left), 0)
        for i, need in request.needs:
            caps = np.minimum(caps, self.free[:, i] // need)
        if request.power is not None and request.gpus:
            caps = np.minimum(caps, self._by_power(request, self.free[:, SUPPLY]))
        if request.in_pieces:
            caps = np.minimum(caps, self._shares(request))
        if len(self._budgets) > 1:
            caps = np.minimum(caps, self._by_rack(request))
        for model, _ in request.models:
            caps = np.where(self.model == model, np.minimum(caps, max(0, capacity.by_model(request, model))), caps)
        for group in request.groups:
            if group.of.together:
                caps = self._beside(request, group.level, caps)
            if group.each is not None:
                caps = np.minimum(caps, group.each)
                there, numbers = held(capacity, request, group.level), self.groups(group.level)
                for node in capacity.counts[request.name]:
                    left = group.left(there, group_of(self.snapshot.nodes[node], group.level)) or 0
                    same = numbers == numbers[self.index[node]]
                    caps[same] = np.minimum(caps[same], left)
        return np.maximum(caps, 0)

    def _beside(self, request: WorkloadRequest, level: Level, caps: Ints) -> Ints:
        """Nothing outside the group where its replicas stand already, and nothing at all where they stand in several."""
        numbers = self.groups(level)
        for group in {int(numbers[self.index[node]]) for node in self.capacity.counts[request.name]}:
            caps = np.where(numbers == group, caps, 0)
        return caps

    def able(self, request: WorkloadRequest) -> list[str]:
        """The nodes that may have capacity for one more, and suit it."""
        return [self.nodes[i].name for i in np.flatnonzero(self.caps(request)).tolist()]

    def groups(self, level: Level) -> Ints:
        """A number for each node: the same for nodes of one `node`, `rack` or `site`, in the order of first names."""
        return groups_of(self.snapshot, level)[1]

    def take(self, request: WorkloadRequest, host: NodeCapacity, count: int) -> None:
        """As `FreeCapacity.take`."""
        self.capacity.take(request, host, count)
        self._fresh(host)

    def put_back(self, request: WorkloadRequest, host: NodeCapacity, count: int, own: list[Held]) -> int:
        """As `FreeCapacity.put_back`."""
        done = self.capacity.put_back(request, host, count, own)
        self._fresh(host)
        return done

    def _fresh(self, host: NodeCapacity) -> None:
        i = self.index[host.name]
        self.free[i] = self.capacity.free[host.name]
        self.used[i] = self.capacity.load[host.name] > 0
        if host.rack in self.capacity.racks:
            self._budgets[self.rack[i]] = self.capacity.racks[host.rack]

    def _shares(self, request: WorkloadRequest) -> Ints:
        found: Ints = np.maximum(self.free[:, GPUS], 0) * (WHOLE // request.share)
        if request.profile:  # `suits` leaves nodes with cards that have it; what a card holds is what its slices hold, or less
            found //= request.gpus
        for node, cards in (self.capacity.cuts if request.profile else self.capacity.parts).items():
            if cards:
                found[self.index[node]] = self.capacity.shares(request, node)
        return found

    def _by_rack(self, request: WorkloadRequest) -> Any:
        budgets = self._budgets[self.rack]
        caps = np.full(len(self.nodes), ENDLESS, dtype=np.int64)
        for i, place in enumerate(UPLINK):
            if need := request.need[place]:
                caps = np.minimum(caps, budgets[:, i] // need)
        if request.power is not None and request.gpus:
            caps = np.minimum(caps, self._by_power(request, budgets[:, POWER]))
        return caps

    def _by_power(self, request: WorkloadRequest, left: Ints) -> Any:
        """How many more so many watts leave on each node."""
        watts = request.gpus * np.maximum(0, (request.power or 0) - self.power)
        return np.where(watts > 0, left // np.maximum(watts, 1), ENDLESS)
