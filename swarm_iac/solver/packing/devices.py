"""Which GPUs, CPUs and memory of its node does each replica get?

What stays keeps its devices, and a replica restarted where it ran keeps as many of its GPUs as it asks for: no other change
is worth a GPU of running work. Then as much as possible is within one NUMA node (`numa_search`): the one that is left with
the fewest free GPUs, then cores, and where nobody has to leave first. What fits no single NUMA node takes from as few as
possible: cores from the homes of its GPUs, in proportion, and memory from those and from as few more as it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE, Device, cards, whole_gpus
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing.gpu_domains import apart, closest
from swarm_iac.solver.packing.numa_nodes import Memory, homes, parts
from swarm_iac.solver.packing.numa_search import NumaRequest, Search, Seat
from swarm_iac.solver.packing.shared_gpus import pack

#: So many ways to leave out some who would keep the card of their part are tried.
WAYS = 200


@dataclass(frozen=True)
class Want:
    """One new replica on a node: numbers of GPUs and pinned cores, and bytes of memory.

    `had`: its GPUs of before, of which it keeps as many as it asks for; `pins`: its cores of before. `own`: the part of a
    GPU that it has already.
    """

    name: str
    gpus: int
    cores: int
    memory: int = 0
    had: tuple[int, ...] = ()
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


@dataclass(frozen=True)
class Used:
    """GPUs and cores of one node."""

    gpus: frozenset[int] = frozenset()
    cpus: frozenset[int] = frozenset()


def assign(
    hardware: Hardware, taken: Used, wants: tuple[Want, ...], held: Iterable[Allocation] = (), before: Used = Used()
) -> dict[str, Devices]:
    """Devices for every want beside what is `held`; the caller has counted that they suffice.

    `before`: devices that anybody had: who is new gets others where there are, and need not wait for them. Raises ValueError
    when they do not suffice.
    """
    cores, count = int(hardware.vcpus) // 1000, hardware.gpus.count
    gpus = [[i for i in part if i not in taken.gpus] for part in parts(count, hardware.numa)]
    cpus = [[i for i in part if i not in taken.cpus] for part in parts(cores, hardware.numa)]
    memory = Memory(hardware)
    for allocation in held:
        memory.bind(allocation.numa, int(allocation.memory))
    if sum(w.gpus for w in wants) > sum(map(len, gpus)) or sum(w.cores for w in wants) > sum(map(len, cpus)):
        raise ValueError("more devices are wanted than the node has free")
    had = _had(wants, gpus)
    for want in wants:  # who gets as many as it had, or more, has those already
        if len(had[want.name]) <= want.gpus:
            gpus = [[i for i in part if i not in had[want.name]] for part in gpus]
    seats = _seats(hardware, wants, had, gpus, cpus, memory, before)
    found = {w.name: _kept(w, had[w.name], seats[w.name], gpus, hardware) for w in wants}
    result = {}
    for want in sorted(wants, key=lambda w: (seats[w.name].home is None, not w.pins, *_largest(w))):
        home, kept = seats[want.name].home, found[want.name]
        more = want.gpus - len(kept)
        if home is not None:
            picked = (*kept, *_take_gpus(hardware, gpus, more, (home,), kept, before.gpus))
            pinned = _take_cores(cpus, want.cores, (home,), want.pins, before.cpus)
            numa: tuple[int, ...] = (home,)
        else:
            picked = (*kept, *_take_gpus(hardware, gpus, more, _nearest(kept, gpus, hardware), kept, before.gpus))
            near = (*picked, *cards(want.own))
            pinned = _cores(cpus, want.cores, _spread(near, count, hardware.numa), want.pins, before.cpus)
            numa = memory.widened({*homes(near, count, hardware.numa), *homes(pinned, cores, hardware.numa)}, want.memory)
            numa = numa if want.bound else ()
        memory.bind(numa, want.memory)
        result[want.name] = Devices(whole_gpus(sorted(picked)) or want.own, pinned, numa)
    return result


def _largest(want: Want) -> tuple[int, int, int, str]:
    return (-want.gpus, -want.cores, -want.memory, want.name)


def _had(wants: Iterable[Want], gpus: list[list[int]]) -> dict[str, tuple[int, ...]]:
    """Of each one's GPUs of before, those that are free now. Where two name the same, the first has it."""
    free = {i for part in gpus for i in part}
    found = {}
    for want in wants:
        found[want.name] = tuple(sorted(free.intersection(want.had))) if want.gpus else ()
        free.difference_update(found[want.name])
    return found


def _seats(
    hardware: Hardware,
    wants: Iterable[Want],
    had: Mapping[str, tuple[int, ...]],
    gpus: list[list[int]],
    cpus: list[list[int]],
    memory: Memory,
    before: Used,
) -> dict[str, Seat]:
    count = hardware.gpus.count
    on = {w.name: homes(cards(w.own), count, hardware.numa) for w in wants}
    mine = {name: tuple(len({*own} & {*part}) for part in parts(count, hardware.numa)) for name, own in had.items()}
    far = {w.name: tuple(apart(hardware, part, w.gpus) for part in gpus) if w.gpus > 1 and not w.had else () for w in wants}
    items = [NumaRequest(w.name, w.gpus, w.cores, w.memory, mine[w.name], on[w.name], w.bound, far[w.name]) for w in wants]
    fresh = [sum(i not in before.gpus for i in part) for part in gpus]
    return Search(items, list(map(len, gpus)), fresh, list(map(len, cpus)), memory).best()


def _kept(want: Want, had: tuple[int, ...], seat: Seat, gpus: list[list[int]], hardware: Hardware) -> tuple[int, ...]:
    """The GPUs that one keeps; of who has some of them only, these are taken from what is free."""
    if len(had) <= want.gpus:
        return had
    each = seat.kept if seat.home is None else tuple(want.gpus * (j == seat.home) for j in range(hardware.numa))
    kept: list[int] = []
    for j, count in enumerate(each):
        own = [i for i in gpus[j] if i in had][:count]
        kept += own
        gpus[j] = [i for i in gpus[j] if i not in own]
    return tuple(kept)


def fixed(hardware: Hardware, held: Iterable[Allocation]) -> dict[str, tuple[int, ...]]:
    """By name, the NUMA nodes that replicas have to be bound to instead, so that the memory of all fits.

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


def share_cards(
    shares: dict[str, int], parts: dict[int, int], empty: list[int], most: int, had: Mapping[str, tuple[int, ...]] = {}
) -> dict[str, int]:
    """The card of each part of a GPU: on cards held in part (thousandths left), or on at most so many of the empty ones.

    As many as can be keep a card that they `had`; then as few empty ones as do are opened, the first first. Raises
    ValueError when they do not fit.
    """
    known = {*parts, *empty}
    mine = {label: next((card for card in cards_ if card in known), None) for label, cards_ in had.items()}
    keeping = {label: card for label, card in mine.items() if card is not None}
    for away in _fewest(list(keeping)):
        found = _beside(shares, parts, empty, most, {label: card for label, card in keeping.items() if label not in away})
        if found is not None:
            return found
    raise ValueError("more of a GPU is wanted than the node has free")


def _fewest(labels: list[str]) -> Iterable[tuple[str, ...]]:
    """All choices of some of them, the smallest first; at last all of them."""
    some = (each for count in range(len(labels)) for each in itertools.combinations(labels, count))
    return itertools.chain(itertools.islice(some, WAYS), [tuple(labels)])


def _beside(
    shares: dict[str, int], parts: dict[int, int], empty: list[int], most: int, kept: dict[str, int]
) -> dict[str, int] | None:
    """The same beside those that keep their cards; None where they do not fit."""
    left = dict(parts)
    for label, card in kept.items():
        left[card] = left.get(card, WHOLE) - shares[label]
    opened = len(left) - len(parts)
    if opened > most or any(capacity < 0 for capacity in left.values()):
        return None
    rest = [label for label in shares if label not in kept]
    closed = [card for card in empty if card not in left]
    for count in range(min(most - opened, len(closed)) + 1):
        numbers, free = [*left, *closed[:count]], [*left.values(), *([WHOLE] * count)]
        if sum(shares[label] for label in rest) <= sum(free):
            chosen = pack([shares[label] for label in rest], free)
            if chosen is not None:
                return kept | {label: numbers[card] for label, card in zip(rest, chosen, strict=True)}
    return None


def _nearest(kept: tuple[int, ...], gpus: list[list[int]], hardware: Hardware) -> tuple[int, ...]:
    """NUMA nodes: those of what it keeps first, then those with the most that is free."""
    own = {j: len({*kept} & {*part}) for j, part in enumerate(parts(hardware.gpus.count, hardware.numa))}
    return tuple(sorted(range(len(gpus)), key=lambda j: (-own[j], -len(gpus[j]), j)))


def _take(
    free: list[list[int]],
    count: int,
    first: tuple[int, ...],
    best: Callable[[list[int], int, list[int]], list[int]],
) -> tuple[int, ...]:
    """Remove and return `count` indices: from the NUMA nodes named first, of each the `best` so many beside those picked."""
    rest = sorted((j for j in range(len(free)) if j not in first), key=lambda j: (-len(free[j]), j))
    picked: list[int] = []
    for j in (*first, *rest):
        if len(picked) == count:
            break
        part = best(free[j], min(count - len(picked), len(free[j])), picked)
        picked += part
        free[j] = [i for i in free[j] if i not in part]
    return tuple(sorted(picked))


def _take_cores(
    free: list[list[int]], count: int, first: tuple[int, ...], liked: tuple[int, ...], last: frozenset[int]
) -> tuple[int, ...]:
    """Liked ones of each NUMA node, then the lowest, those of `last` last."""
    return _take(free, count, first, lambda part, most, _: _ordered(part, liked, last)[:most])


def _take_gpus(
    hardware: Hardware, free: list[list[int]], count: int, first: tuple[int, ...], near: Iterable[int], last: frozenset[int]
) -> tuple[int, ...]:
    """Of each NUMA node those that are connected best, with each other and with those it has (`near`)."""
    has = tuple(near)
    return _take(free, count, first, lambda part, most, picked: closest(hardware, part, most, (*has, *picked), last=last))


def _ordered(free: list[int], liked: tuple[int, ...], last: frozenset[int]) -> list[int]:
    """Liked ones, then the lowest, those of `last` last."""
    return sorted(free, key=lambda i: (i not in liked, i in last, i)) if liked or last else free


def _spread(gpus: tuple[int, ...], count: int, numa: int) -> dict[int, int]:
    """How many of some GPUs lie on each NUMA node that has any of them."""
    return {j: len({*gpus} & {*part}) for j, part in enumerate(parts(count, numa)) if {*gpus} & {*part}}


def _cores(
    free: list[list[int]], count: int, of: dict[int, int], liked: tuple[int, ...], last: frozenset[int]
) -> tuple[int, ...]:
    """Remove and return `count` cores, shared out over the NUMA nodes `of` by how many GPUs lie on each."""
    gpus = sum(of.values())
    picked: list[int] = []
    for j in sorted(of, key=lambda j: (len(free[j]) * gpus - count * of[j], j)):  # who has too few comes first
        part = _ordered(free[j], liked, last)[: -(-(count - len(picked)) * of[j] // gpus)]
        picked += part
        free[j] = [i for i in free[j] if i not in part]
        gpus -= of[j]
    near = tuple(sorted(of, key=lambda j: (-of[j], j)))
    return tuple(sorted((*picked, *_take_cores(free, count - len(picked), near, liked, last))))
