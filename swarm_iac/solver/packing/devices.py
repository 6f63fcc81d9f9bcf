"""Which GPUs, CPUs and memory of its node does each replica get?

What stays keeps its devices. New replicas, the largest first, go to one NUMA node where one can hold them: the one
that is left with the fewest free GPUs, then cores. A short exact search mends the order where that misses some;
what fits no single NUMA node takes from as few as possible: cores from the homes of its GPUs, in proportion, and memory
from those and from as few more as it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE, Device, cards, whole_gpus
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing.numa_nodes import Memory, homes, parts
from swarm_iac.solver.packing.shared_gpus import pack

#: Most steps of the search on one node; beyond, the best so far stands.
STEPS = 4000
#: More new replicas than this on one node are not searched for: each goes where it fits, the largest first.
SEARCHED = 100


@dataclass(frozen=True)
class Want:
    """One new replica on a node: numbers of GPUs and pinned cores, bytes of memory, and the GPUs it would like to keep.

    `own`: GPUs that it has already, and that are not free: one that it holds a part of, or its own of before. `pins`: its
    cores of before.
    """

    name: str
    gpus: int
    cores: int
    memory: int = 0
    liked: tuple[int, ...] = ()
    own: tuple[Device, ...] = ()
    pins: tuple[int, ...] = ()

    @property
    def bound(self) -> bool:
        """Has it devices that lie on NUMA nodes?"""
        return bool(self.gpus or self.cores or self.own)


@dataclass(frozen=True)
class Devices:
    """What one replica gets. `numa`: the NUMA nodes it is bound to; empty when it is not."""

    gpus: tuple[Device, ...]
    cpus: tuple[int, ...]
    numa: tuple[int, ...]


def assign(
    hardware: Hardware, gpus_taken: set[int], cpus_taken: set[int], wants: tuple[Want, ...], held: Iterable[Allocation] = ()
) -> dict[str, Devices]:
    """Devices for every want beside what is `held`; the caller has counted that they suffice.

    Raises ValueError when they do not.
    """
    cores, count = int(hardware.vcpus) // 1000, hardware.gpus.count
    gpus = [[i for i in part if i not in gpus_taken] for part in parts(count, hardware.numa)]
    cpus = [[i for i in part if i not in cpus_taken] for part in parts(cores, hardware.numa)]
    memory = Memory(hardware)
    for allocation in held:
        memory.bind(allocation.numa, int(allocation.memory))
    order = sorted(wants, key=lambda w: (-w.gpus, -w.cores, -w.memory, w.name))
    if sum(w.gpus for w in order) > sum(map(len, gpus)) or sum(w.cores for w in order) > sum(map(len, cpus)):
        raise ValueError("more devices are wanted than the node has free")
    chosen = _Search(order, gpus, cpus, memory, {w.name: homes(cards(w.own), count, hardware.numa) for w in order}).best()
    result = {}
    for want in sorted(order, key=lambda w: (chosen[w.name] is None, not w.pins)):
        home = chosen[want.name]
        if home is not None:
            picked, pinned = _take(gpus, want.gpus, (home,), want.liked), _take(cpus, want.cores, (home,), want.pins)
            numa: tuple[int, ...] = (home,)
        else:
            picked = _take(gpus, want.gpus, _nearest(want, gpus), want.liked)
            pinned = _cores(cpus, want.cores, _spread(picked or cards(want.own), count, hardware.numa))
            near = {*homes((*picked, *cards(want.own)), count, hardware.numa), *homes(pinned, cores, hardware.numa)}
            numa = memory.widened(near, want.memory) if want.bound else ()
        memory.bind(numa, want.memory)
        result[want.name] = Devices(whole_gpus(picked) or want.own, pinned, numa)
    return result


def mended(hardware: Hardware, held: Iterable[Allocation]) -> dict[str, tuple[int, ...]]:
    """By name, the NUMA nodes that replicas have to be bound to instead, so that the memory of all finds room.

    Nobody where it does already; else the smallest keep theirs, and the others get as few more as they need.
    """
    memory = Memory(hardware)
    found = {}
    for allocation in sorted(held, key=lambda a: (int(a.memory), a.name)):
        numa, size = allocation.numa, int(allocation.memory)
        if numa and not memory.fits(numa, size):
            numa = found[allocation.name] = memory.widened(numa, size)
        memory.bind(numa, size)
    return found


def share_cards(shares: dict[str, int], parts: dict[int, int], empty: list[int]) -> dict[str, int]:
    """The card of each part of a GPU: on cards held in part (thousandths left) or empty ones, as few of these as do.

    Raises ValueError when they do not fit.
    """
    labels = list(shares)
    for count in range(len(empty) + 1):
        numbers = [*parts, *empty[:count]]
        free = [*parts.values(), *([WHOLE] * count)]
        if sum(shares.values()) <= sum(free) and (chosen := pack([shares[label] for label in labels], free)) is not None:
            return {label: numbers[card] for label, card in zip(labels, chosen, strict=True)}
    raise ValueError("more of a GPU is wanted than the node has free")


def _nearest(want: Want, gpus: list[list[int]]) -> tuple[int, ...]:
    return tuple(sorted(range(len(gpus)), key=lambda j: (-len(set(gpus[j]) & set(want.liked)), -len(gpus[j]), j)))


def _take(free: list[list[int]], count: int, first: tuple[int, ...], liked: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Remove and return `count` indices: from the parts named first, liked ones before the lowest."""
    rest = sorted((j for j in range(len(free)) if j not in first), key=lambda j: (-len(free[j]), j))
    picked: list[int] = []
    for j in (*first, *rest):
        part = sorted(free[j], key=lambda i: (i not in liked, i))[: count - len(picked)]
        picked += part
        free[j] = [i for i in free[j] if i not in part]
    return tuple(sorted(picked))


def _spread(gpus: tuple[int, ...], count: int, numa: int) -> dict[int, int]:
    """How many of some GPUs lie on each NUMA node that has any of them."""
    return {j: len({*gpus} & {*part}) for j, part in enumerate(parts(count, numa)) if {*gpus} & {*part}}


def _cores(free: list[list[int]], count: int, of: dict[int, int]) -> tuple[int, ...]:
    """Remove and return `count` cores, shared out over the NUMA nodes `of` by how many GPUs lie on each."""
    gpus = sum(of.values())
    picked: list[int] = []
    for j in sorted(of, key=lambda j: (len(free[j]) * gpus - count * of[j], j)):  # who has too few comes first
        part = free[j][: -(-(count - len(picked)) * of[j] // gpus)]
        picked += part
        free[j] = [i for i in free[j] if i not in part]
        gpus -= of[j]
    near = tuple(sorted(of, key=lambda j: (-of[j], j)))
    return tuple(sorted((*picked, *_take(free, count - len(picked), near))))


class _Search:
    """A NUMA node for as many wants as can have one, each weighing 1 + gpus + cores; None for the others."""

    def __init__(
        self, order: list[Want], gpus: list[list[int]], cpus: list[list[int]], memory: Memory, on: dict[str, tuple[int, ...]]
    ) -> None:
        self.order, self.free, self.memory, self.on = order, gpus, memory, on
        self.gpus, self.cpus = [len(free) for free in gpus], [len(free) for free in cpus]
        self.now: dict[str, int] = {}
        self.found: dict[str, int] = {}
        self.weight = -1
        self.steps = 0
        self.rest = [0] * (len(order) + 1)
        for i in reversed(range(len(order))):
            self.rest[i] = self.rest[i + 1] + _weight(order[i])

    def best(self) -> dict[str, int | None]:
        """By name; the memory is as before."""
        self.greedy() if len(self.order) > SEARCHED else self.visit(0, 0)
        return {want.name: self.found.get(want.name) if want.bound else None for want in self.order}

    def fits(self, want: Want) -> list[int]:
        """The NUMA nodes that could hold all of it now."""
        return [
            j
            for j in range(len(self.gpus))
            if self.gpus[j] >= want.gpus and self.cpus[j] >= want.cores and self.on[want.name] in ((), (j,))
            if self.memory.fits((j,), want.memory)
        ]  # fmt: skip

    def put(self, want: Want, j: int, count: int) -> None:
        """Lay it on one NUMA node; a negative count takes it back."""
        self.gpus[j] -= want.gpus * count
        self.cpus[j] -= want.cores * count
        self.memory.bind((j,), want.memory * count)

    def greedy(self) -> None:
        """Each in turn on the fullest NUMA node that has room for it."""
        for want in self.order:
            if want.bound and (fits := self.fits(want)):
                home = min(fits, key=lambda j: (self.gpus[j], self.cpus[j], j))
                self.found[want.name] = home
                self.put(want, home, 1)
        for want in self.order:
            if want.name in self.found:
                self.put(want, self.found[want.name], -1)

    def visit(self, i: int, weight: int) -> None:
        """All ways for the wants from the i-th on, the fullest NUMA node first."""
        self.steps += 1
        if i == len(self.order):
            if weight > self.weight:
                self.found, self.weight = dict(self.now), weight
            return
        if weight + self.rest[i] <= self.weight or self.steps > STEPS:
            return
        want = self.order[i]
        liked = set(want.liked)
        fits = self.fits(want) if want.bound else []
        for j in sorted(fits, key=lambda j: (-len(liked.intersection(self.free[j])), self.gpus[j], self.cpus[j], j)):
            self.put(want, j, 1)
            self.now[want.name] = j
            self.visit(i + 1, weight + _weight(want))
            del self.now[want.name]
            self.put(want, j, -1)
        self.visit(i + 1, weight)


def _weight(want: Want) -> int:
    return 1 + want.gpus + want.cores if want.bound else 0
