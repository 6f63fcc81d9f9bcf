"""Which new replicas of a node can each have one NUMA node, as much of them as possible?

    max Σ_w (1 + gpus_w + cores_w) · [w is within one NUMA node]

where a replica that was there keeps as many of its GPUs as it asks for (`had`): it is within a NUMA node only if those are.
Who asks for fewer than it had keeps some of them, and which is searched for. What is within no NUMA node has what is left.
Depth first, exact up to STEPS; beyond, the best so far stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swarm_iac.solver.packing.numa_nodes import Memory

#: Most steps of the search on one node; beyond, the best so far stands.
STEPS = 4000
#: More new replicas than this on one node are not searched for: each goes where it fits, the largest first.
SEARCHED = 100

#: GPUs on each NUMA node.
Counts = tuple[int, ...]


@dataclass(frozen=True)
class NumaRequest:
    """One new replica. `had`: of its GPUs of before, how many are free on each NUMA node. `on`: where it has to be."""

    name: str
    gpus: int
    cores: int
    memory: int
    had: Counts
    on: tuple[int, ...] = ()
    bound: bool = True
    far: Counts = ()  # how far apart its GPUs would be on each NUMA node, by their links; empty where that is all the same

    @property
    def more(self) -> int:
        """GPUs that it gets beside all it had; below 0 where it keeps some of them only."""
        return self.gpus - sum(self.had)

    @property
    def weight(self) -> int:
        """What it counts where it is within one NUMA node."""
        return 1 + self.gpus + self.cores if self.bound else 0

    def within(self, j: int) -> bool:
        """Are the GPUs that it keeps on one NUMA node, or can be?"""
        kept = self.had[j] >= self.gpus if self.more < 0 else self.had[j] == sum(self.had)
        return kept and self.on in ((), (j,))

    def taken(self, j: int) -> int:
        """GPUs that it takes of what is free there, where it is within that NUMA node."""
        return self.gpus if self.more < 0 else self.more


@dataclass(frozen=True)
class Seat:
    """Where one is: within one NUMA node, or none. `kept`: of who asks for fewer GPUs, those that it keeps on each."""

    home: int | None = None
    kept: Counts = ()


class Search:
    """`gpus`: those free on each NUMA node, without what is kept whole; `fresh`: of these, those that nobody had before."""

    def __init__(self, items: list[NumaRequest], gpus: list[int], fresh: list[int], cpus: list[int], memory: Memory) -> None:
        # Who keeps some of its GPUs comes first: the others may have the rest of them.
        self.items = sorted(items, key=lambda one: (one.more >= 0, -one.gpus, -one.cores, -one.memory, one.name))
        self.gpus, self.fresh, self.cpus, self.memory = list(gpus), list(fresh), list(cpus), memory
        self.now: dict[str, Seat] = {}
        self.found: dict[str, Seat] = {}
        self.weight = -1
        self.steps = 0
        self.rest = [0] * (len(items) + 1)
        for i in reversed(range(len(items))):
            self.rest[i] = self.rest[i + 1] + self.items[i].weight

    def best(self) -> dict[str, Seat]:
        """By name; the memory is as before."""
        if len(self.items) > SEARCHED:
            self._greedy()
        else:
            self._visit(0, 0)
        return {one.name: self.found.get(one.name, Seat()) for one in self.items}

    def _homes(self, one: NumaRequest) -> list[int]:
        """The NUMA nodes that could hold all of it now: best links, then those that nobody has to leave, then the fullest."""
        fits = [
            j for j in range(len(self.gpus))
            if one.within(j) and self.gpus[j] >= one.taken(j) and self.cpus[j] >= one.cores
            if self.memory.fits((j,), one.memory)
        ]  # fmt: skip
        far = one.far or (0,) * len(self.gpus)
        return sorted(
            fits, key=lambda j: (-one.had[j], far[j], max(0, one.more - self.fresh[j]), self.gpus[j], self.cpus[j], j)
        )

    def _splits(self, one: NumaRequest) -> Iterator[Counts]:
        """How many of its GPUs it may keep on each NUMA node, where it is not within one: on few of them first."""
        if one.more >= 0:
            return iter([()])
        ways = _ways([min(had, left) for had, left in zip(one.had, self.gpus, strict=True)], one.gpus)
        return iter(sorted(ways, key=lambda way: (sum(map(bool, way)), [-count for count in way])))

    def _put(self, one: NumaRequest, j: int, count: int) -> None:
        """Lay it on one NUMA node; a negative count takes it back."""
        self.gpus[j] -= one.taken(j) * count
        self.fresh[j] -= max(0, one.more) * count
        self.cpus[j] -= one.cores * count
        self.memory.bind((j,), one.memory * count)

    def _keep(self, kept: Counts, count: int) -> None:
        for j, each in enumerate(kept):
            self.gpus[j] -= each * count

    def _greedy(self) -> None:
        """Each in turn where it fits."""
        for one in self.items:
            homes = self._homes(one) if one.bound else []
            self.found[one.name] = Seat(homes[0]) if homes else Seat(kept=next(self._splits(one)))
            self._laid(one, self.found[one.name], 1)
        for one in self.items:
            self._laid(one, self.found[one.name], -1)

    def _laid(self, one: NumaRequest, seat: Seat, count: int) -> None:
        if seat.home is not None:
            self._put(one, seat.home, count)
        else:
            self._keep(seat.kept, count)

    def _visit(self, i: int, weight: int) -> None:
        """All ways for the items from the i-th on."""
        self.steps += 1
        if i == len(self.items):
            if weight > self.weight:
                self.found, self.weight = dict(self.now), weight
            return
        if weight + self.rest[i] <= self.weight or self.steps > STEPS:
            return
        one = self.items[i]
        for j in self._homes(one) if one.bound else ():
            self._next(i, Seat(j), weight + one.weight)
        for kept in self._splits(one):
            self._next(i, Seat(kept=kept), weight)

    def _next(self, i: int, seat: Seat, weight: int) -> None:
        one = self.items[i]
        self._laid(one, seat, 1)
        self.now[one.name] = seat
        self._visit(i + 1, weight)
        del self.now[one.name]
        self._laid(one, seat, -1)


def _ways(free: list[int], count: int) -> Iterator[Counts]:
    """All ways to take so many, at most `free` of each."""
    if not free:
        if not count:
            yield ()
        return
    for own in range(min(free[0], count), -1, -1):
        for rest in _ways(free[1:], count - own):
            yield (own, *rest)
