"""What fits where replicas are bound to a NUMA node (`numa: single`) or to linked GPUs (`links: required`), beside the rest?

What stays keeps its devices (its seat). All that is bound to a domain (`packing/gpu_domains.py`) gets its devices before others
that are new: those may lie over several, so beside the seats only the totals of the node count for them, and what is left to
find is

    a domain d(a) for each new a that is bound, so that for every NUMA node i and every set S of cells of the node
    Σ_{a: numa(d(a)) = i} cores_a ≤ cores free on i,  Σ_{a: cells(d(a)) ⊆ S} gpus_a ≤ GPUs free in S,
    and memory of all sets of NUMA nodes suffices (`numa_nodes.Memory`)

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
from swarm_iac.solver.packing.gpu_domains import Cells, Domain, Domains, Pool, closest
from swarm_iac.solver.packing.numa_nodes import Memory, parts
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest

if TYPE_CHECKING:
    from swarm_iac.solver.snapshot.capacity import FreeCapacity

#: Most steps of the search on one node.
STEPS = 2000


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One new replica: whole GPUs, cores, bytes, and thousandths of one GPU more where it is a part.

    Cores and memory of who is bound by its links alone may be of any NUMA node, and are not counted.
    """

    gpus: int
    cores: int
    memory: int
    share: int = 0
    single: bool = True
    linked: bool = False


def item_of(request: WorkloadRequest) -> Item:
    """What one replica needs of its domain."""
    if not request.single:
        return Item(request.need[GPUS], 0, 0, single=False, linked=True)
    share = request.share if request.shared else 0
    return Item(request.need[GPUS], request.need[CORES], request.need[MEMORY], share, linked=request.linked)


class Parts:
    """What is free in each domain of one machine beside seats."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware, seats: Iterable[Allocation]) -> None:
        ones = tuple(seats)
        taken, cpus = {i for a in ones for i in a.cards}, {i for a in ones for i in a.cpus}
        left: dict[int, int] = {}
        for a in ones:
            for one in a.gpus:
                if one.shared:
                    left[one.index] = left.get(one.index, WHOLE) - one.part
        by_gpu, by_cpu = parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa)
        self.hardware, self.domains = hardware, Domains(hardware, links=snapshot.linked)
        #: Whole GPUs that are free, by cell.
        self.cells = [[i for i in cell if i not in taken] for cell in self.domains.cells]
        self.cpus = [[i for i in part if i not in cpus] for part in by_cpu]
        #: Cards held in part, by NUMA node: what each has left.
        self.cards = [{i: left[i] for i in part if left.get(i, 0) > 0} for part in by_gpu]
        self.all_gpus, self.all_cpus = by_gpu, by_cpu
        self.memory = Memory(hardware)
        for a in ones:
            self.memory.bind(a.numa, int(a.memory))

    def within(self, cells: Cells) -> list[int]:
        """Whole GPUs that are free in some cells, the first first."""
        return sorted(i for c in cells for i in self.cells[c])

    @property
    def gpus(self) -> list[list[int]]:
        """Whole GPUs that are free on each NUMA node."""
        return [self.within(domain.cells) for domain in self.domains.single]

    @property
    def links(self) -> list[list[int]]:
        """Whole GPUs that are free in each group of linked ones."""
        return [self.within(domain.cells) for domain in self.domains.linked]

    def take(self, gpus: Iterable[int]) -> None:
        """Nobody else gets these."""
        gone = {*gpus}
        self.cells = [[i for i in cell if i not in gone] for cell in self.cells]


class _Search:
    """A domain for each item, or none for all. `kept`: the GPUs that each keeps in each of its domains; empty for all."""

    def __init__(self, free: Parts, items: Sequence[Item], kept: Sequence[Sequence[int]] = ()) -> None:
        self.items, self.kept = items, kept
        self.best: tuple[Domain, ...] | None = None
        self.most = -1
        self.rest = [sum(max(each, default=0) for each in kept[i:]) for i in range(len(kept) + 1)]
        self.domains, self.pool = free.domains, Pool(map(len, free.cells))
        self.cpus = [len(part) for part in free.cpus]
        self.cards = [sorted(part.values()) for part in free.cards]
        self.memory = free.memory
        self.homes: list[int] = []
        self.steps = 0

    def found(self) -> tuple[Domain, ...] | None:
        """The domains, in the order of the items; the memory is as before."""
        enough = sum(item.gpus for item in self.items) <= sum(self.pool.free)
        enough = enough and sum(item.cores for item in self.items) <= sum(self.cpus)
        if enough:
            self._visit(0, 0)
        return self.best

    def _visit(self, i: int, kept: int) -> bool:
        """Can nothing better be found any more?"""
        self.steps += 1
        if i == len(self.items):
            self.best = tuple(self._of(item)[j] for item, j in zip(self.items, self.homes, strict=True))
            self.most = kept
            return kept == self.rest[0]
        if kept + self.rest[min(i, len(self.kept))] <= self.most:
            return False
        item = self.items[i]
        domains = self._of(item)
        own = self.kept[i] if self.kept else (0,) * len(domains)
        # Of items that are alike each goes to a domain no earlier than the one before.
        same = i and self.items[i - 1] == item and not any(own) and not (self.kept and any(self.kept[i - 1]))
        least = self.homes[-1] if same else 0
        fits = [j for j in range(least, len(domains)) if self._fits(item, domains[j])]
        tried = set()
        for j in sorted(fits, key=lambda j: (-own[j], self.pool.left(domains[j].cells), self._cores(domains[j]), j)):
            alike = (own[j], *self._state(domains[j]))
            if self.steps > STEPS or alike in tried:
                continue
            tried.add(alike)
            home = domains[j].numa
            cards = list(self.cards[home]) if home is not None else []
            self._put(item, domains[j], 1)
            self.homes.append(j)
            done = self._visit(i + 1, kept + own[j])
            self.homes.pop()
            self._put(item, domains[j], -1)
            if home is not None:
                if len(self.cards[home]) > len(cards):
                    self.pool.bind(domains[j].cells, -1)
                self.cards[home] = cards
            if done:
                return True
        return False

    def _of(self, item: Item) -> tuple[Domain, ...]:
        return self.domains.of(item.single, item.linked)

    def _cores(self, domain: Domain) -> int:
        return self.cpus[domain.numa] if domain.numa is not None else 0

    def _state(self, domain: Domain) -> tuple[object, ...]:
        """What is free there: a domain of which all of it is the same as of another one is as good."""
        if domain.numa is None:
            cells = sorted((self.domains.numa[c], self.pool.free[c]) for c in domain.cells)
            return (self.pool.left(domain.cells), self.pool.wide[domain.cells], *cells)
        if self.domains.linked:  # groups of linked GPUs may lie on one of two NUMA nodes
            return (domain,)
        cards = self.cards[domain.numa]
        return (self.pool.left(domain.cells), self.cpus[domain.numa], self.memory.left(domain.numa), *cards)

    def _fits(self, item: Item, domain: Domain) -> bool:
        left = self.pool.left(domain.cells)
        if left < item.gpus:
            return False
        if domain.numa is None:
            return True
        if item.share and not (left or any(rest >= item.share for rest in self.cards[domain.numa])):
            return False
        return self.cpus[domain.numa] >= item.cores and self.memory.fits((domain.numa,), item.memory)

    def _put(self, item: Item, domain: Domain, count: int) -> None:
        self.pool.bind(domain.cells, item.gpus * count)
        if domain.numa is None:
            return
        self.cpus[domain.numa] -= item.cores * count
        self.memory.bind((domain.numa,), item.memory * count)
        if item.share and count > 0:
            cards = self.cards[domain.numa]
            card = next((left for left in cards if left >= item.share), None)
            if card is None:
                self.pool.bind(domain.cells, 1)
                card = WHOLE
            else:
                cards.remove(card)
            self.cards[domain.numa] = sorted((*cards, card - item.share))


def homes_of(free: Parts, items: Sequence[Item], kept: Sequence[Sequence[int]] = ()) -> tuple[Domain, ...] | None:
    """A domain for each of the items, which are sorted, the largest first; None where not all find one.

    `kept`: see _Search; as many as can be.
    """
    return _Search(free, items, kept).found()


def most(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, fit: int) -> int:
    """Of `fit` replicas more that the node has capacity for in all, how many leave each that is bound to a domain in one."""
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
    counts = Counter(capacity.local.get(host.name, {})) if capacity.local else Counter[str]()
    here = capacity.counts[request.name][host.name]
    seats = seated(capacity, host.name, request.name, here + more)
    held = Counter(a.workload for a in seats)
    items = [item for name, count in counts.items() for item in [item_of(snapshot.requests[name])] * (count - held[name])]
    items += [item_of(request)] * (more - max(0, held[request.name] - here) if request.local else 0)
    items.sort(reverse=True)
    node = snapshot.stack.nodes[host.name]
    key = (node.hardware, node.tuning, tuple(items), seats and (host.name, seats))
    known = snapshot.known(homes_of)
    if key not in known:
        free = Parts(snapshot, snapshot.stack.hardware_of(host.name), seats)
        known[key] = homes_of(free, items)
    return known[key] is not None


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
    """Devices of one domain for one new replica of each of these, in their order; None where not all find one.

    A replica restarted where it was has the devices of `before` again, where they are of one domain and free. What others
    had (`spare`) is taken last. Who is bound by its links alone gets its GPUs, and neither cores nor NUMA nodes. `free` is
    used up.
    """
    found: dict[int, Devices] = {}
    for i, (request, was) in enumerate(zip(requests, before, strict=True)):
        home = _home_again(free, request, was)
        if was is not None and home is not None:
            free.take(was.cards)
            if home.numa is None:
                found[i] = Devices(was.gpus, (), ())
                continue
            free.cpus[home.numa] = [cpu for cpu in free.cpus[home.numa] if cpu not in was.cpus]
            free.memory.bind((home.numa,), request.need[MEMORY])
            found[i] = Devices(was.gpus, was.cpus, (home.numa,))
    order = sorted((i for i in range(len(requests)) if i not in found), key=lambda i: item_of(requests[i]), reverse=True)
    kept = [_keeps(free, requests[i], before[i]) for i in order] if any(before[i] for i in order) else ()
    homes = homes_of(free, [item_of(requests[i]) for i in order], kept)
    if homes is None:
        return None
    others = [*spare, *(was for i in order if (was := before[i]) is not None)]
    had = frozenset(i for a in others for i in a.cards), {i for a in others for i in a.cpus}
    # Who ran there has its own before others take from what is left.
    seated = sorted(zip(order, homes, strict=True), key=lambda one: before[one[0]] is None)
    if free.domains.linked:  # which cards the parts of GPUs open is known first: the others get theirs beside them
        seated.sort(key=lambda one: not requests[one[0]].shared)
    rest = [(home.cells, requests[i].need[GPUS]) for i, home in seated]
    for at, (i, home) in enumerate(seated):
        request, was = requests[i], before[i]
        gpus = _pick(free, home, request.need[GPUS], was.cards if was else (), had[0], rest[at + 1 :])
        if home.numa is None:
            found[i] = Devices(whole_gpus(gpus), (), ())
            continue
        cpus = _take(free.cpus[home.numa], request.need[CORES], was.cpus if was else (), had[1])
        free.memory.bind((home.numa,), request.need[MEMORY])
        part = (gpu(_card(free, home, request.share, was.cards if was else (), rest), request.share),) if request.shared else ()
        found[i] = Devices(part or whole_gpus(gpus), cpus, (home.numa,))
    return [found[i] for i in range(len(requests))]


def _keeps(free: Parts, request: WorkloadRequest, was: Allocation | None) -> list[int]:
    """Of the GPUs that it had, how many it could keep in each of its domains."""
    own = {*was.cards} if was else set[int]()
    domains = free.domains.of(request.single, request.linked)
    if request.shared:
        numa = free.cards
        open_ = [
            {*free.within(one.cells), *(i for i, left in numa[j].items() if left >= request.share)}
            for j, one in enumerate(domains)
        ]
        return [int(not own.isdisjoint(part)) for part in open_]
    return [min(request.need[GPUS], len(own.intersection(free.within(one.cells)))) for one in domains]


def _home_again(free: Parts, request: WorkloadRequest, was: Allocation | None) -> Domain | None:
    """The domain of all that it had, if it asks for as many whole devices and they are free."""
    if was is None or request.shared or len(was.gpus) != request.need[GPUS] or not all(one.whole for one in was.gpus):
        return None
    domains = [one for one in free.domains.of(request.single, request.linked) if {*was.cards} <= {*free.within(one.cells)}]
    if not request.single:
        return next(iter(domains), None)
    if len(was.cpus) != request.need[CORES]:
        return None
    return next(
        (
            one
            for one in domains
            if one.numa is not None
            and {*was.cpus} <= {*free.cpus[one.numa]}
            and free.memory.fits((one.numa,), request.need[MEMORY])
        ),
        None,
    )


def _pick(
    free: Parts, home: Domain, count: int, liked: Iterable[int], last: frozenset[int], rest: Sequence[tuple[Cells, int]]
) -> tuple[int, ...]:
    """Take so many GPUs of a domain: liked ones first, then those that are connected best, and leave the `rest` enough."""
    could, picked = free.within(home.cells), list[int]()
    while len(picked) < count:
        few = closest(free.hardware, could, count - len(picked), picked, liked, last)
        few = few if len(home.cells) == 1 else few[:1]
        could = [i for i in could if i not in few]
        if len(home.cells) == 1 or _leaves(free, few[0], [(home.cells, count - len(picked) - 1), *rest]):
            picked += few
            free.take(few)
    return tuple(sorted(picked))


def _leaves(free: Parts, card: int, rest: Sequence[tuple[Cells, int]]) -> bool:
    """Would the rest fit if somebody had this card?"""
    return Pool([len(cell) - (card in cell) for cell in free.cells]).takes(rest)


def _take(free: list[int], count: int, liked: tuple[int, ...], last: set[int]) -> tuple[int, ...]:
    """Remove and return so many: liked ones first, then the lowest, those of others last."""
    picked = sorted(free, key=lambda i: (i not in liked, i in last, i))[:count]
    free[:] = [i for i in free if i not in picked]
    return tuple(sorted(picked))


def _card(free: Parts, home: Domain, share: int, liked: tuple[int, ...], rest: Sequence[tuple[Cells, int]]) -> int:
    """One that it had, else the fullest card with so much left, else an empty one that leaves the `rest` enough."""
    cards, empty = free.cards[home.numa or 0], free.within(home.cells)
    empty = [card for card in empty if not free.domains.linked or _leaves(free, card, rest)] or empty
    could = [*(i for i, left in cards.items() if left >= share), *empty]
    card = min(could, key=lambda i: (i not in liked, i not in cards, cards.get(i, WHOLE), i))
    if card in empty:
        free.take((card,))
    cards[card] = cards.get(card, WHOLE) - share
    return card
