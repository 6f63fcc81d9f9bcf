"""What fits on one NUMA node, as `place.numa: single` asks, beside what is placed there?

What stays keeps its devices (its seat). All that asks for one NUMA node gets its devices before others that are new: those
may lie over several, so beside the seats only the totals of the node count for them, and what is left to find is

    a NUMA node j(a) for each new a of `single`, so that for every NUMA node i of the node
    Σ_{a: j(a) = i} (gpus, cores)_a ≤ (gpus, cores) free on i,  and memory of all sets of NUMA nodes suffices (`numa.Memory`)

This is a small search, the largest first; beyond STEPS it says no. Who ran there keeps as many of its GPUs as one way can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm_iac.model.device import WHOLE, gpu, whole_gpus
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing.devices import Devices
from swarm_iac.solver.packing.numa_nodes import Memory, parts
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.capacity import FreeCapacity

#: Most steps of the search on one node.
STEPS = 2000


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One new replica: whole GPUs, cores, bytes, and thousandths of one GPU more where it is a part."""

    gpus: int
    cores: int
    memory: int
    share: int = 0


def item_of(request: WorkloadRequest) -> Item:
    """What one replica needs of its NUMA node."""
    return Item(request.need[GPUS], request.need[CORES], request.need[MEMORY], request.share if request.shared else 0)


class Parts:
    """What is free on each NUMA node of one machine beside seats."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware, seats: Iterable[Allocation]) -> None:
        ones = tuple(seats)
        taken, cpus = {i for a in ones for i in a.cards}, {i for a in ones for i in a.cpus}
        left: dict[int, int] = {}
        for a in ones:
            for one in a.gpus:
                if one.shared:
                    left[one.index] = left.get(one.index, WHOLE) - one.part
        by_gpu, by_cpu = parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa)
        self.gpus = [[i for i in part if i not in taken] for part in by_gpu]
        self.cpus = [[i for i in part if i not in cpus] for part in by_cpu]
        #: Cards held in part: what each has left.
        self.cards = [{i: left[i] for i in part if left.get(i, 0) > 0} for part in by_gpu]
        self.all_gpus, self.all_cpus = by_gpu, by_cpu
        self.memory = Memory(hardware)
        for a in ones:
            self.memory.bind(a.numa, int(a.memory))


class _Search:
    """A NUMA node for each item, or none for all. `kept`: the GPUs that each keeps on each NUMA node; empty for all."""

    def __init__(self, free: Parts, items: Sequence[Item], kept: Sequence[Sequence[int]] = ()) -> None:
        self.items, self.kept = items, kept
        self.best: tuple[int, ...] | None = None
        self.most = -1
        self.rest = [sum(max(each) for each in kept[i:]) for i in range(len(kept) + 1)]
        self.gpus, self.cpus = [len(part) for part in free.gpus], [len(part) for part in free.cpus]
        self.cards = [sorted(part.values()) for part in free.cards]
        self.memory = free.memory
        self.homes: list[int] = []
        self.steps = 0

    def found(self) -> tuple[int, ...] | None:
        """The NUMA nodes, in the order of the items; the memory is as before."""
        enough = sum(item.gpus for item in self.items) <= sum(self.gpus)
        enough = enough and sum(item.cores for item in self.items) <= sum(self.cpus)
        if enough:
            self._visit(0, 0)
        return self.best

    def _visit(self, i: int, kept: int) -> bool:
        """Can nothing better be found any more?"""
        self.steps += 1
        if i == len(self.items):
            self.best, self.most = tuple(self.homes), kept
            return kept == self.rest[0]
        if kept + self.rest[min(i, len(self.kept))] <= self.most:
            return False
        item, own = self.items[i], self.kept[i] if self.kept else (0,) * len(self.gpus)
        # Of items that are alike each goes to a NUMA node no earlier than the one before.
        same = i and self.items[i - 1] == item and not any(own) and not (self.kept and any(self.kept[i - 1]))
        least = self.homes[-1] if same else 0
        fits = [j for j in range(least, len(self.gpus)) if self._fits(item, j)]
        tried = set()
        for j in sorted(fits, key=lambda j: (-own[j], self.gpus[j], self.cpus[j], j)):
            alike = (own[j], self.gpus[j], self.cpus[j], self.memory.left(j), *self.cards[j])
            if self.steps > STEPS or alike in tried:
                continue
            tried.add(alike)
            cards = list(self.cards[j])
            self._put(item, j, 1)
            self.homes.append(j)
            done = self._visit(i + 1, kept + own[j])
            self.homes.pop()
            self._put(item, j, -1)
            self.gpus[j] += len(self.cards[j]) > len(cards)
            self.cards[j] = cards
            if done:
                return True
        return False

    def _fits(self, item: Item, j: int) -> bool:
        if item.share and not (self.gpus[j] or any(left >= item.share for left in self.cards[j])):
            return False
        return self.gpus[j] >= item.gpus and self.cpus[j] >= item.cores and self.memory.fits((j,), item.memory)

    def _put(self, item: Item, j: int, count: int) -> None:
        self.gpus[j] -= item.gpus * count
        self.cpus[j] -= item.cores * count
        self.memory.bind((j,), item.memory * count)
        if item.share and count > 0:
            card = next((left for left in self.cards[j] if left >= item.share), None)
            if card is None:
                self.gpus[j] -= 1
                card = WHOLE
            else:
                self.cards[j].remove(card)
            self.cards[j] = sorted((*self.cards[j], card - item.share))


def homes_of(free: Parts, items: Sequence[Item], kept: Sequence[Sequence[int]] = ()) -> tuple[int, ...] | None:
    """A NUMA node for each of the items, which are sorted, the largest first; None where not all find one.

    `kept`: see _Search; as many as can be.
    """
    return _Search(free, items, kept).found()


def most(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, fit: int) -> int:
    """Of `fit` replicas more that the node has capacity for in all, how many leave each of `single` on one NUMA node."""
    low, high = 0, fit
    if high and _packs(capacity, request, host, high):
        return high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if _packs(capacity, request, host, middle) else (low, middle)
    return low


def _packs(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, more: int) -> bool:
    """With so many more of `ask`, which may be of another size than its workload is."""
    snapshot = capacity.snapshot
    counts = Counter(capacity.single.get(host.name, {})) if capacity.single else Counter[str]()
    here = capacity.counts[request.name][host.name]
    seats = seated(capacity, host.name, request.name, here + more)
    held = Counter(a.workload for a in seats)
    items = [item for name, count in counts.items() for item in [item_of(snapshot.requests[name])] * (count - held[name])]
    items += [item_of(request)] * (more - max(0, held[request.name] - here) if request.single else 0)
    items.sort(reverse=True)
    node = snapshot.stack.nodes[host.name]
    key = (node.hardware, node.tuning, tuple(items), seats and (host.name, seats))
    if key not in snapshot.packings:
        free = Parts(snapshot, snapshot.stack.hardware_of(host.name), seats)
        snapshot.packings[key] = homes_of(free, items)
    return snapshot.packings[key] is not None


def seated(capacity: FreeCapacity, node: str, workload: str = "", count: int = 0) -> tuple[Allocation, ...]:
    """Who of the node's seats is there: the first so many of each workload as it has replicas there, of one `count`."""
    seen: Counter[str] = Counter()
    found = []
    for a in capacity.seats.get(node, ()):
        seen[a.workload] += 1
        if seen[a.workload] <= (count if a.workload == workload else capacity.counts[a.workload][node]):
            found.append(a)
    return tuple(found)


def seats_for(
    free: Parts, requests: Sequence[WorkloadRequest], before: Sequence[Allocation | None], spare: Iterable[Allocation] = ()
) -> list[Devices] | None:
    """Devices of one NUMA node for one new replica of each of these, in their order; None where not all find one.

    A replica restarted where it was has the devices of `before` again, where they are of one NUMA node and free. What others
    had (`spare`) is taken last. `free` is used up.
    """
    found: dict[int, Devices] = {}
    for i, (request, was) in enumerate(zip(requests, before, strict=True)):
        home = _home_again(free, request, was)
        if was is not None and home is not None:
            free.gpus[home] = [card for card in free.gpus[home] if card not in was.cards]
            free.cpus[home] = [cpu for cpu in free.cpus[home] if cpu not in was.cpus]
            free.memory.bind((home,), request.need[MEMORY])
            found[i] = Devices(was.gpus, was.cpus, (home,))
    order = sorted((i for i in range(len(requests)) if i not in found), key=lambda i: item_of(requests[i]), reverse=True)
    kept = [_keeps(free, requests[i], before[i]) for i in order] if any(before[i] for i in order) else ()
    homes = homes_of(free, [item_of(requests[i]) for i in order], kept)
    if homes is None:
        return None
    others = [*spare, *(was for i in order if (was := before[i]) is not None)]
    had = {i for a in others for i in a.cards}, {i for a in others for i in a.cpus}
    # Who ran there has its own before others take from what is left.
    for i, home in sorted(zip(order, homes, strict=True), key=lambda one: before[one[0]] is None):
        request, was = requests[i], before[i]
        gpus = _take(free.gpus[home], request.need[GPUS], was.cards if was else (), had[0])
        cpus = _take(free.cpus[home], request.need[CORES], was.cpus if was else (), had[1])
        free.memory.bind((home,), request.need[MEMORY])
        part = (gpu(_card(free, home, request.share, was.cards if was else ()), request.share),) if request.shared else ()
        found[i] = Devices(part or whole_gpus(gpus), cpus, (home,))
    return [found[i] for i in range(len(requests))]


def _keeps(free: Parts, request: WorkloadRequest, was: Allocation | None) -> list[int]:
    """Of the GPUs that it had, how many it could keep on each NUMA node."""
    own = {*was.cards} if was else set[int]()
    if request.shared:
        open_ = [
            {*gpus, *(i for i, left in free.cards[j].items() if left >= request.share)} for j, gpus in enumerate(free.gpus)
        ]
        return [int(not own.isdisjoint(part)) for part in open_]
    return [min(request.need[GPUS], len(own.intersection(part))) for part in free.gpus]


def _home_again(free: Parts, request: WorkloadRequest, was: Allocation | None) -> int | None:
    """The NUMA node of all that it had, if it asks for as many whole devices and they are free."""
    if was is None or request.shared or (len(was.gpus), len(was.cpus)) != (request.need[GPUS], request.need[CORES]):
        return None
    if not all(one.whole for one in was.gpus):
        return None
    homes = (j for j in range(len(free.gpus)) if {*was.cards} <= {*free.gpus[j]} and {*was.cpus} <= {*free.cpus[j]})
    return next((j for j in homes if free.memory.fits((j,), request.need[MEMORY])), None)


def _take(free: list[int], count: int, liked: tuple[int, ...], last: set[int]) -> tuple[int, ...]:
    """Remove and return so many: liked ones first, then the lowest, those of others last."""
    picked = sorted(free, key=lambda i: (i not in liked, i in last, i))[:count]
    free[:] = [i for i in free if i not in picked]
    return tuple(sorted(picked))


def _card(free: Parts, home: int, share: int, liked: tuple[int, ...]) -> int:
    """One that it had, else the fullest card with so much left, else an empty one."""
    cards, empty = free.cards[home], free.gpus[home]
    could = [*(i for i, left in cards.items() if left >= share), *empty]
    card = min(could, key=lambda i: (i not in liked, i not in cards, cards.get(i, WHOLE), i))
    if card in empty:
        empty.remove(card)
    cards[card] = cards.get(card, WHOLE) - share
    return card
