"""Which nodes could take one more replica now? `Room` for all nodes at once, in numpy.

Rows are nodes in the order of their names. `caps` bounds what `Room.most` says of each node; whoever takes asks `most`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.snapshot.capacity import Room, group_of
from swarm_iac.solver.snapshot.layout import GPUS, POWER, RACK, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin
from swarm_iac.solver.snapshot.suitability import suits_but_state

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Slots:
    """What is free in `room`, which changes through `take` and `put_back` only."""

    def __init__(self, room: Room) -> None:
        scene = room.scene
        self.room, self.scene = room, scene
        self.bins: list[Bin] = list(scene.bins.values())
        self.index = {bin_.name: i for i, bin_ in enumerate(self.bins)}
        dims = len(self.bins[0].room) if self.bins else 0
        self.free: Ints = np.array([room.free[bin_.name] for bin_ in self.bins], dtype=np.int64).reshape(len(self.bins), dims)
        self.used: Mask = np.array([room.load[bin_.name] > 0 for bin_ in self.bins], dtype=np.bool_)
        self.ready: Mask = np.array([bin_.state == "ready" for bin_ in self.bins], dtype=np.bool_)
        self.kind: Ints = np.array([scene.alike[bin_.name] for bin_ in self.bins], dtype=np.int64)
        self._first = {scene.alike[bin_.name]: bin_ for bin_ in self.bins}
        self.power: Ints = np.array([bin_.power for bin_ in self.bins], dtype=np.int64)
        racks = list(room.racks)
        number = {name: i for i, name in enumerate(racks)}
        self.rack: Ints = np.array([number.get(bin_.rack or "", len(racks)) for bin_ in self.bins], dtype=np.int64)
        self._racks = racks
        self._suits: dict[tuple[object, ...], Mask] = {}
        self._groups: dict[str, Ints] = {}

    def suits(self, ask: Ask) -> Mask:
        """Whom the node suits, its state aside. Worked out once for nodes and for workloads that are alike."""
        key = (ask.model, ask.gpu_memory, ask.select, ask.on_one)
        if key not in self._suits:
            known = np.zeros(max(self._first, default=-1) + 1, dtype=np.bool_)
            for kind, bin_ in self._first.items():
                known[kind] = suits_but_state(ask, bin_)
            self._suits[key] = known[self.kind]
        return self._suits[key]

    def caps(self, ask: Ask) -> Ints:
        """How many more replicas of `ask` each node could take; 0 where it is not ready or does not suit."""
        room = self.room
        left = min(ask.members - room.counts[ask.name].total(), room.by_ceiling(ask))
        caps: Ints = np.where(self.ready & self.suits(ask), max(0, left), 0)
        for i, need in ask.needs:
            caps = np.minimum(caps, self.free[:, i] // need)
        if ask.shared:
            caps = np.minimum(caps, self._shares(ask))
        if self._racks:
            caps = np.minimum(caps, self._by_rack(ask))
        if ask.spread == "node":
            caps = np.minimum(caps, 1)
        for node, count in room.counts[ask.name].items() if ask.spread else ():
            if count:
                caps[self.groups(ask.spread or "") == self.groups(ask.spread or "")[self.index[node]]] = 0
        return np.maximum(caps, 0)

    def groups(self, level: str) -> Ints:
        """A number for each node: the same for nodes of one `node` or `rack`, in the order of first names."""
        if level not in self._groups:
            known: dict[str, int] = {}
            found = [known.setdefault(group_of(bin_, level), len(known)) for bin_ in self.bins]
            self._groups[level] = np.array(found, dtype=np.int64)
        return self._groups[level]

    def take(self, ask: Ask, bin_: Bin, count: int) -> None:
        """As `Room.take`."""
        self.room.take(ask, bin_, count)
        self._fresh(bin_)

    def put_back(self, ask: Ask, bin_: Bin, count: int, own: list[int]) -> int:
        """As `Room.put_back`."""
        done = self.room.put_back(ask, bin_, count, own)
        self._fresh(bin_)
        return done

    def _fresh(self, bin_: Bin) -> None:
        i = self.index[bin_.name]
        self.free[i] = self.room.free[bin_.name]
        self.used[i] = self.room.load[bin_.name] > 0

    def _shares(self, ask: Ask) -> Ints:
        found: Ints = np.maximum(self.free[:, GPUS], 0) * (WHOLE // ask.share)
        for node, cards in self.room.parts.items():
            if cards:
                found[self.index[node]] = self.room.shares(ask, node)
        return found

    def _by_rack(self, ask: Ask) -> Any:
        budgets = np.array([*self.room.racks.values(), (ENDLESS,) * len(RACK)], dtype=np.int64)[self.rack]
        caps = np.full(len(self.bins), ENDLESS, dtype=np.int64)
        for i, place in enumerate(UPLINK):
            if need := ask.need[place]:
                caps = np.minimum(caps, budgets[:, i] // need)
        if ask.power is not None and ask.gpus:
            watts = ask.gpus * np.maximum(0, ask.power - self.power)
            caps = np.where(watts > 0, np.minimum(caps, budgets[:, POWER] // np.maximum(watts, 1)), caps)
        return caps
