"""Which new replicas are split over NUMA nodes, and where would they be whole at no cost to what comes first?

Where everything has its place, a new replica whose devices lie on several NUMA nodes goes to another node on which one
NUMA node holds all of it beside what is placed there: none of its like more or fewer, no move, no finer GPU than
before. Where no node has so much left, it changes places: 3 + 3 + 2 GPUs on NUMA nodes of four split one, 3 + 3 + 1 + 1 none.
Nodes in use come after that. What stays is never touched.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from swarm_iac.model.device import whole_gpus
from swarm_iac.model.hardware import numa_part
from swarm_iac.model.place.groups import LEVELS
from swarm_iac.model.placement import Allocation, Goal, Placement
from swarm_iac.solver.balance.company import wishes_about
from swarm_iac.solver.balance.overqualification import Overqualification
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.packing.numa_nodes import Memory, parts
from swarm_iac.solver.packing.numa_search import NumaRequest, Search
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering, suits
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload

Ones = tuple[Allocation, ...]
#: GPUs of some replicas, in order.
Sizes = tuple[int, ...]
#: The GPU model of a node, how many it has, its NUMA nodes, and the replicas on it.
Kind = tuple[str | None, int, int, Sizes]
#: So many split replicas are tried to be made whole: each looks at every node.
TRIED = 200
#: So many exchanges of two nodes are tried, which promise something by their GPUs. Each takes two thousandths of a second.
EXCHANGES = 200


def whole(snapshot: Snapshot, classified: Classified, counts: Pairs, ones: Ones) -> tuple[Pairs, Ones]:
    """The placement with as many split replicas made whole as one after the other can be; as it is where none can.

    A replica that left may have freed capacity for another, so it is tried again until nobody is made whole.
    """
    for way in (_elsewhere, _exchanged):
        while before := needless(snapshot, classified, ones):
            other = way(snapshot, classified, counts, ones, before)
            found = assemble(snapshot, classified, other) if other != counts else ones
            if len(needless(snapshot, classified, found)) >= len(before):
                break
            counts, ones = other, found
    return counts, ones


def _elsewhere(snapshot: Snapshot, classified: Classified, counts: Pairs, ones: Ones, before: list[Allocation]) -> Pairs:
    """Each of those that are split on another node that has so much left."""
    other, overqualification = counts.copy(), Overqualification(snapshot)
    stand: dict[str, list[Allocation]] = {node: [] for node in snapshot.nodes}
    for one in ones:
        stand[one.node].append(one)
    capacity = capacity_of(snapshot, Placement(allocations=ones))
    for allocation in sorted(before, key=lambda a: (-len(a.gpus), -len(a.cpus), a.name))[:TRIED]:
        request, was = snapshot.requests[allocation.workload], snapshot.nodes[allocation.node]
        if allocation.name in classified.soft or request.in_pieces:
            continue
        capacity.take(request, was, -1)
        cost, out = overqualification.of(request, was), hindering(snapshot, request)
        targets = [
            host
            for host in snapshot.nodes.values()
            if not out[host.name] and host is not was and not capacity.partial(host.name) and not capacity.cuts.get(host.name)
            if overqualification.of(request, host) <= cost and _as_well(snapshot, request, was, host)
            if capacity.most(request, host) > 0 and _home(snapshot, request, host, stand[host.name]) is not None
        ]  # fmt: skip
        to = min(targets, key=lambda b: (not capacity.load[b.name], capacity.free[b.name][GPUS], b.name), default=was)
        capacity.take(request, to, 1)
        if to is not was:
            other[request.name, was.name] -= 1
            other[request.name, to.name] += 1
            stand[was.name].remove(allocation)
            stand[to.name].append(_moved(snapshot, request, to, allocation, stand[to.name]))
    return +other


def _exchanged(snapshot: Snapshot, classified: Classified, counts: Pairs, ones: Ones, before: list[Allocation]) -> Pairs:
    """Where one is split, some of its node and some of another one exchanged, so that fewer are."""
    exchange = _Exchange(snapshot, classified, counts, ones)
    for node in dict.fromkeys(a.node for a in sorted(before, key=lambda a: (-len(a.gpus), a.name))):
        exchange.around(node)
    return +exchange.counts


class _Exchange:
    """Exchanges of a few replicas between two nodes on which all is new and has whole GPUs."""

    def __init__(self, snapshot: Snapshot, classified: Classified, counts: Pairs, ones: Ones) -> None:
        self.snapshot, self.classified, self.counts = snapshot, classified, counts.copy()
        self.capacity, self.left = capacity_of(snapshot, Placement(allocations=ones)), EXCHANGES
        self.overqualification = Overqualification(snapshot)
        stand: dict[str, list[Allocation]] = {}
        for one in ones:
            stand.setdefault(one.node, []).append(one)
        #: The replicas of each such node.
        self.on = {
            node: Counter(a.workload for a in found)
            for node, found in sorted(stand.items())
            if not self.capacity.partial(node) and not self.capacity.cuts.get(node)
            if all(_comes(classified, a) and a.name not in classified.soft for a in found)
        }  # fmt: skip
        #: They by what they have: few kinds, however many nodes.
        self.alike: dict[Kind, dict[str, None]] = {}
        for node in self.on:
            self.alike.setdefault(self._kind(node), {})[node] = None
        self.machines = {(one.gpus.count, one.numa): one for one in map(snapshot.stack.hardware_of, self.on)}
        self.split: dict[Kind, int] = {}
        self.promising: dict[tuple[Kind, Kind], list[tuple[Sizes, Sizes]]] = {}

    def around(self, node: str) -> None:
        """The first exchange that leaves fewer split on two nodes."""
        if node not in self.on:
            return
        kind = self._kind(node)
        for like, others in self.alike.items():
            for mine, its in self._promising(kind, like) if like[0] == kind[0] else ():
                for other in (one for one in others if one != node):
                    for give, take in itertools.product(self._some(node, mine), self._some(other, its)):
                        if self.left <= 0:
                            return
                        self.left -= 1
                        if self._done(node, give, other, take):
                            return

    def _kind(self, node: str) -> Kind:
        hardware, requests = self.snapshot.stack.hardware_of(node), self.snapshot.requests
        sizes = (size for name, n in self.on[node].items() if (size := requests[name].gpus) for _ in range(n))
        return self.snapshot.nodes[node].model, hardware.gpus.count, hardware.numa, tuple(sorted(sizes))

    def _promising(self, mine: Kind, its: Kind) -> list[tuple[Sizes, Sizes]]:
        """One or two of each with as many GPUs, with which fewer would be split by GPUs alone."""
        if (mine, its) not in self.promising:
            now = self._split(mine) + self._split(its)
            self.promising[mine, its] = [
                (give, take)
                for give, take in itertools.product(_few(mine[-1]), _few(its[-1]))
                if sum(give) == sum(take) and give != take
                if self._split(_with(mine, give, take)) + self._split(_with(its, take, give)) < now
            ]
        return self.promising[mine, its]

    def _split(self, kind: Kind) -> int:
        """How many are split on an empty node, whatever they ask for beside GPUs."""
        if kind not in self.split:
            _, count, numa, sizes = kind
            items = [NumaRequest(str(i), gpus, 0, 0, (0,) * numa) for i, gpus in enumerate(sizes)]
            free = [len(part) for part in parts(count, numa)]
            seats = Search(items, free, free, [0] * numa, Memory(self.machines[count, numa])).best()
            self.split[kind] = sum(seat.home is None for seat in seats.values())
        return self.split[kind]

    def _some(self, node: str, sizes: Sizes) -> Iterator[Counter[str]]:
        """Replicas of the node with so many GPUs each, of each choice of workloads once."""
        requests = self.snapshot.requests
        of = [sorted(name for name in self.on[node] if requests[name].gpus == gpus) for gpus in sizes]
        found = (Counter(names) for names in itertools.product(*of))
        seen = dict.fromkeys(tuple(sorted(one.items())) for one in found if one <= self.on[node])
        return (Counter(dict(one)) for one in seen)

    def _done(self, node: str, give: Counter[str], other: str, take: Counter[str]) -> bool:
        """Exchange them, if all keep all rules, nobody has it worse, and fewer are split."""
        here, there = self.on[node] - give + take, self.on[other] - take + give
        ways = [(name, node, other) for name in give.elements()] + [(name, other, node) for name in take.elements()]
        if not all(self._may(*way) for way in ways):
            return False
        laid: list[tuple[str, str]] = []
        for name, was, _ in ways:
            self._take(name, was, -1)
        for name, _, to in ways:
            if self.capacity.most(self.snapshot.requests[name], self.snapshot.nodes[to]) <= 0:
                break
            self._take(name, to, 1)
            laid.append((name, to))
        if len(laid) == len(ways) and self._really(node, here) + self._really(other, there) < (
            self._really(node, self.on[node]) + self._really(other, self.on[other])
        ):
            for name, now in ((node, here), (other, there)):
                del self.alike[self._kind(name)][name]
                self.on[name] = now
                self.alike.setdefault(self._kind(name), {})[name] = None
            for name, was, to in ways:
                self.counts[name, was] -= 1
                self.counts[name, to] += 1
            return True
        for name, to in laid:
            self._take(name, to, -1)
        for name, was, _ in ways:
            self._take(name, was, 1)
        return False

    def _may(self, name: str, was: str, to: str) -> bool:
        request, here, there = self.snapshot.requests[name], self.snapshot.nodes[was], self.snapshot.nodes[to]
        finer = self.overqualification.of(request, there) > self.overqualification.of(request, here)
        return suits(request, there) and not finer and _as_well(self.snapshot, request, here, there)

    def _take(self, name: str, node: str, count: int) -> None:
        self.capacity.take(self.snapshot.requests[name], self.snapshot.nodes[node], count)

    def _really(self, node: str, here: Counter[str]) -> int:
        """How many of these are split on the node."""
        ones = assemble(self.snapshot, self.classified, Counter({(name, node): count for name, count in here.items()}))
        return len(needless(self.snapshot, self.classified, ones))


def _few(sizes: Sizes) -> list[Sizes]:
    """One or two of them."""
    return sorted({*itertools.combinations(sizes, 1), *itertools.combinations(sizes, 2)})


def _with(kind: Kind, less: Sizes, more: Sizes) -> Kind:
    return *kind[:-1], tuple(sorted((Counter(kind[-1]) - Counter(less) + Counter(more)).elements()))


def _as_well(snapshot: Snapshot, request: WorkloadRequest, was: NodeCapacity, host: NodeCapacity) -> bool:
    """Does it stay in its rack, or site, where it counts by these, has the node no fewer of the labels that it prefers, and do
    its GPUs count as much of what its team is due?
    """
    if request.gpus and snapshot.shares and snapshot.shares.weights.of(was.name) != snapshot.shares.weights.of(host.name):
        return False
    levels = {request.even.level if request.even else "node", request.near or "node"} - {"node"}
    others = {level for _, level, _ in wishes_about(snapshot, request.name)}
    others |= {request.place.prefer_apart} if request.place.prefer_apart else set()
    if "node" in others:
        return False  # who is beside it here counts
    levels |= others
    if request.place.lacks(host.labels) > request.place.lacks(was.labels):
        return False
    return all(group_of(was, level) == group_of(host, level) for level in LEVELS if level in levels)


def needless(snapshot: Snapshot, classified: Classified, ones: Iterable[Allocation]) -> list[Allocation]:
    """New replicas that are split, though one NUMA node of some node that suits them is large enough for them."""
    known = snapshot.known(needless)
    found: list[Allocation] = []
    new = (a for a in ones if _comes(classified, a) and len(a.gpus) + len(a.cpus) > 1)
    split = [a for a in new if snapshot.stack.hardware_of(a.node).split(a.cards, a.cpus)]
    if not split:
        return found
    # Of nodes that are alike, one stands for all.
    kinds = {(number, snapshot.stack.nodes[name].hardware): snapshot.nodes[name] for name, number in snapshot.alike.items()}
    nodes, empty = kinds.values(), FreeCapacity(snapshot)
    for a in split:
        request = snapshot.requests[a.workload]
        like = (request.need, request.share, request.asked, request.single, request.linked)
        if like not in known:
            out = hindering(snapshot, request)
            known[like] = any(
                not out[b.name] and empty.fits(request, b) and _home(snapshot, request, b, []) is not None for b in nodes
            )
        if known[like]:
            found.append(a)
    return found


def _comes(classified: Classified, a: Allocation) -> bool:
    """Is it new on its node? Who ran there keeps its GPUs, also in another size, wherever they lie."""
    was = classified.soft.get(a.name)
    return a.name not in classified.stay and (was is None or was.node != a.node)


def goal(snapshot: Snapshot, classified: Classified, counts: Pairs, ones: Ones, goals: Mapping[str, Goal]) -> Goal:
    """How many of those that one NUMA node could hold are within one, and how many could be, whatever else is decided.

    Who finds no NUMA node beside what stays alone cannot, where all has its place and nobody has to move.
    """
    found = needless(snapshot, classified, ones)
    placed = by_workload(counts)
    bound = 0
    if all(placed[name] == request.wanted for name, request in snapshot.requests.items()) and not (
        "moves" in goals and goals["moves"].value
    ):
        stay: dict[str, list[Allocation]] = {node: [] for node in snapshot.nodes}
        for a in classified.stay.values():
            stay[a.node].append(a)
        for name in {a.workload for a in found}:
            request = snapshot.requests[name]
            if not any(
                suits(request, b) and _home(snapshot, request, b, stay[b.name]) is not None for b in snapshot.nodes.values()
            ):
                bound += sum(a.workload == name for a in found)
    many = sum(_comes(classified, a) and len(a.gpus) + len(a.cpus) > 1 for a in ones)
    return Goal(name="within_numa", value=many - len(found), bound=many - bound)


def _moved(
    snapshot: Snapshot, request: WorkloadRequest, host: NodeCapacity, allocation: Allocation, beside: list[Allocation]
) -> Allocation:
    """The replica on that node, within one NUMA node of it."""
    home = _home(snapshot, request, host, beside)
    if home is None:
        raise ValueError(f"no NUMA node of {host.name} holds {allocation.name}")
    hardware = snapshot.stack.hardware_of(host.name)
    gpus = [i for i in numa_part(hardware.gpus.count, hardware.numa, home) if all(i not in a.cards for a in beside)]
    cpus = [i for i in numa_part(int(hardware.vcpus) // 1000, hardware.numa, home) if all(i not in a.cpus for a in beside)]
    devices = {"gpus": whole_gpus(gpus[: request.need[GPUS]]), "cpus": tuple(cpus[: request.need[CORES]]), "numa": (home,)}
    return allocation.model_copy(update={"node": host.name, **devices})


def _home(snapshot: Snapshot, request: WorkloadRequest, host: NodeCapacity, ones: list[Allocation]) -> int | None:
    """A NUMA node that holds all of one more replica beside these: the one with the fewest GPUs left."""
    hardware = snapshot.stack.hardware_of(host.name)
    gpus, cpus, memory = {i for a in ones for i in a.cards}, {i for a in ones for i in a.cpus}, Memory(hardware)
    for a in ones:
        memory.bind(a.numa, int(a.memory))
    free = [len({*part} - gpus) for part in parts(hardware.gpus.count, hardware.numa)]
    cores = [len({*part} - cpus) for part in parts(int(hardware.vcpus) // 1000, hardware.numa)]
    fits = [
        j
        for j in range(hardware.numa)
        if free[j] >= request.need[GPUS] and cores[j] >= request.need[CORES] and memory.fits((j,), request.need[MEMORY])
    ]
    return min(fits, key=lambda j: (free[j], j), default=None)
