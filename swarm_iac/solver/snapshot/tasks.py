"""What has to be decided? What may stay is settled first; the rest is a task for the fleet level.

stay    unchanged, on a node that may keep it, breaking no rule: leaving costs a move of the budget
soft    still welcome on its node but of another size or user, in the way of a rule, or in a gang that loses a member: it
        prefers its node, free of charge
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from swarm_iac.model.device import gpu
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.table import held_of
from swarm_iac.solver.packing.kept_parts import Cards
from swarm_iac.solver.packing.mig_instances import Held
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import CORES, GPUS
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import may_stay, open_to
from swarm_iac.solver.snapshot.value import loads, size

Pairs = Counter[tuple[str, str]]


@dataclass
class Task:
    """`base` already holds what is fixed; `free` says how many replicas of which workload are to be decided."""

    snapshot: Snapshot
    base: FreeCapacity
    free: dict[str, int]
    stay: Pairs = field(default_factory=Counter)
    soft: Pairs = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    budget: int | None = None
    nodes: frozenset[str] | None = None  # None: all nodes may be chosen
    pairs: frozenset[tuple[str, str]] | None = None  # None: every pair may be chosen
    widest: int | None = None  # None: every suitable node; else the best so many for each workload
    #: Cards of the free parts of GPUs that may stay where they stand, by node and workload.
    cards: dict[str, dict[str, Counter[int]]] = field(default_factory=dict)
    #: The same of free replicas with MIG instances: what each holds.
    instances: dict[str, dict[str, list[Held]]] = field(default_factory=dict)

    def on_cards(self, node: str) -> Cards:
        """The node's cards, and which of the free parts hold which."""
        return Cards(max(0, self.base.free[node][GPUS]), self.base.partial(node), self.cards.get(node, {}))

    def own_cards(self, workload: str, node: str) -> list[Held]:
        """What each of the workload's free replicas holds that has pieces of GPUs and may stay on the node."""
        if instances := self.instances.get(node, {}).get(workload):
            return instances
        share = self.snapshot.requests[workload].share
        return [(gpu(card, share),) for card in sorted(self.cards.get(node, {}).get(workload, Counter()).elements())]

    def home(self, workload: str, node: str) -> int:
        """How many free replicas of the workload stood on the node and may stay there."""
        return self.stay[workload, node] + self.soft[workload, node]


def by_workload(counts: Pairs) -> Counter[str]:
    """Replicas of each workload, over all nodes."""
    found: Counter[str] = Counter()
    for (name, _), count in counts.items():
        found[name] += count
    return found


@dataclass
class Classified:
    """What may stay, with its devices, and what prefers to."""

    stay: dict[str, Allocation]
    soft: dict[str, Allocation]

    @cached_property
    def stand(self) -> Pairs:
        """How many of a workload may stay on a node; asked once nothing is added any more."""
        return Counter((a.workload, a.node) for a in self.stay.values())

    def kept(self, snapshot: Snapshot, counts: Pairs) -> FreeCapacity:
        """What is free beside those of `counts` that may stay where they are, with the devices that they have.

        On a large fleet nearly all do, so beside all of them it is worked out once.
        """
        known = snapshot.known(Classified.kept)
        if id(self) not in known:
            capacity = FreeCapacity(snapshot)
            for a in self.stay.values():
                capacity.take(snapshot.requests[a.workload], snapshot.nodes[a.node], 1, a.gpus)
            known[id(self)] = self, capacity  # held, so that no other gets its number
        found: FreeCapacity = known[id(self)][1].copy()
        for (name, node), count in self.stand.items():
            if count > counts[name, node]:  # pieces of GPUs: those go that came last
                found.take(snapshot.requests[name], snapshot.nodes[node], counts[name, node] - count)
        return found


def same_size(request: WorkloadRequest, allocation: Allocation) -> bool:
    """Does the allocation hold exactly what one replica asks for now?"""
    alike = all((one.profile, one.part) == (request.profile, request.share) for one in allocation.gpus)
    return alike and held_of(allocation) == request.size


def classify(snapshot: Snapshot) -> Classified:
    """Which running allocations may stay? What no longer fits beside the others may not.

    Tried by priority, then what is not to be moved, then the largest first: what is lost is the least of it. Equals by their
    place in the file.
    """
    capacity = FreeCapacity(snapshot, numa=False)  # who runs over several NUMA nodes is not stopped for it
    taken: dict[tuple[str, str], set[int]] = {}
    classified = Classified({}, {})
    load, place = loads(snapshot), {name: i for i, name in enumerate(snapshot.stack.workloads)}
    order = sorted(
        snapshot.requests.values(),
        key=lambda request: (-request.priority, request.movable, -size(request), -load[request.name], place[request.name]),
    )
    for request in order:
        for allocation in snapshot.running.get(request.name, ()):
            host = snapshot.nodes.get(allocation.node)
            if host is None or not may_stay(request, host):
                continue
            if allocation.user not in (None, request.user):  # it restarts under another account
                if open_to(request, host):
                    classified.soft[allocation.name] = allocation
                continue
            gpus = taken.setdefault((host.name, "gpu"), set())
            cpus = taken.setdefault((host.name, "cpu"), set())
            # A card may be held by several, as long as each holds only a part of it and there is so much left.
            open_ = {card for card, left in capacity.partial(host.name).items() if request.shared and left >= request.share}
            if request.profile:
                there = same_size(request, allocation) and _in_position(capacity, request, host, allocation.gpus, gpus)
            else:
                there = _free(allocation.cards, host.capacity[GPUS], gpus - open_)
            devices = there and _free(allocation.cpus, host.capacity[CORES], cpus)
            devices = devices and all(numa < snapshot.stack.hardware_of(host.name).numa for numa in allocation.numa)
            if devices and same_size(request, allocation) and capacity.most(request, host) > 0:
                capacity.take(request, host, 1, allocation.gpus)
                gpus.update(allocation.cards)
                cpus.update(allocation.cpus)
                classified.stay[allocation.name] = allocation
            else:
                classified.soft[allocation.name] = allocation
    return _with_gangs(snapshot, classified)


def _with_gangs(snapshot: Snapshot, classified: Classified) -> Classified:
    """Of a gang that loses a member where it runs the others restart as well: they prefer their nodes, free of charge."""
    stays = Counter(a.workload for a in classified.stay.values())
    torn = {name for name, ones in snapshot.running.items() if snapshot.requests[name].gang and stays[name] < len(ones)}
    stay = {name: a for name, a in classified.stay.items() if a.workload not in torn}
    return Classified(stay, {name: a for name, a in (classified.soft | classified.stay).items() if name not in stay})


def _in_position(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, held: Held, taken: set[int]) -> bool:
    """May all these MIG instances lie where they are? `taken`: cards that somebody has already, cut ones as well."""
    profile, cut = host.profiles.get(request.profile), capacity.cuts.get(host.name)
    others = taken - (cut.fixed.keys() if cut else set())
    mine = profile is not None and all(one.start in profile.starts and one.size == profile.size for one in held)
    there = all(one.index < host.capacity[GPUS] and one.index not in others for one in held)
    return mine and there and capacity.has_free(request, host, held)


def _free(wanted: tuple[int, ...], size: int, taken: set[int]) -> bool:
    return all(0 <= i < size for i in wanted) and len(set(wanted)) == len(wanted) and taken.isdisjoint(wanted)


def repair_task(snapshot: Snapshot, classified: Classified) -> Task:
    """Everything that may stay is fixed, except members of a gang that is not whole."""
    stays: Counter[str] = Counter(a.workload for a in classified.stay.values())
    whole = {n for n, request in snapshot.requests.items() if not request.gang or stays[n] == request.members}
    return _task(snapshot, classified, {name for name, a in classified.stay.items() if a.workload in whole})


def full_task(snapshot: Snapshot, classified: Classified) -> Task:
    """Nothing is fixed; the budget alone holds what runs."""
    return _task(snapshot, classified, set())


def around(
    snapshot: Snapshot,
    classified: Classified,
    counts: Pairs,
    nodes: frozenset[str],
    targets: frozenset[str],
    gangs: frozenset[str] = frozenset(),
) -> Task:
    """From the placement `counts`: what stands on `nodes` may leave them for `nodes` or `targets`; all else is fixed.

    Gangs stay as they are, but for `gangs`, of which all members may leave. What has moved already is fixed where it went,
    and its move is off the budget; what was stopped has moved nowhere.
    """
    left = Counter(counts)
    movable = {pair for pair in counts if pair[0] in gangs or (pair[1] in nodes and not snapshot.requests[pair[0]].gang)}
    stay: Pairs = Counter({pair: count for pair, count in classified.stand.items() if pair in movable})
    kept = (classified.stand - stay) & counts
    base = classified.kept(snapshot, kept)
    left -= kept
    gone = by_workload(classified.stand - stay - kept)
    lost = {name for name in gone if not snapshot.requests[name].movable}  # who was stopped has no other place in this change
    elsewhere = Counter[str]()
    for pair, count in sorted(left.items()):
        if count and pair not in movable:
            base.take(snapshot.requests[pair[0]], snapshot.nodes[pair[1]], count)
            elsewhere[pair[0]] += count
    moved = (gone & elsewhere).total()
    free = {n: rest for n, request in snapshot.requests.items() if (rest := request.members - base.counts[n].total()) > 0}
    free = {name: rest for name, rest in free.items() if name not in lost}
    return Task(
        snapshot=snapshot,
        base=base,
        free={name: rest for name, rest in free.items() if not snapshot.requests[name].gang or not base.counts[name]},
        stay=stay,
        soft=Counter((a.workload, a.node) for a in classified.soft.values() if (a.workload, a.node) in movable),
        running=Counter({n: rest for n in free if (rest := len(snapshot.running.get(n, ())) - base.counts[n].total()) > 0}),
        budget=max(0, int(snapshot.stack.solve.moves) - moved),
        nodes=nodes | targets,
        cards=_cards(snapshot, (a for a in classified.stay.values() if (a.workload, a.node) in movable)),
        instances=instances_of(snapshot, (a for a in classified.stay.values() if (a.workload, a.node) in movable)),
    )


def _task(snapshot: Snapshot, classified: Classified, fixed: set[str]) -> Task:
    base = FreeCapacity(snapshot)
    for name in sorted(fixed):
        allocation = classified.stay[name]
        base.take(snapshot.requests[allocation.workload], snapshot.nodes[allocation.node], 1, allocation.gpus)
    free = {n: rest for n, request in snapshot.requests.items() if (rest := request.members - base.counts[n].total()) > 0}
    return Task(
        snapshot=snapshot,
        base=base,
        free=free,
        stay=Counter((a.workload, a.node) for name, a in classified.stay.items() if name not in fixed),
        soft=Counter((a.workload, a.node) for a in classified.soft.values()),
        running=Counter({n: len(found) - base.counts[n].total() for n, found in snapshot.running.items() if n in free}),
        budget=int(snapshot.stack.solve.moves),
        cards=_cards(snapshot, (a for name, a in classified.stay.items() if name not in fixed)),
        instances=instances_of(snapshot, (a for name, a in classified.stay.items() if name not in fixed)),
    )


def _cards(snapshot: Snapshot, free: Iterable[Allocation]) -> dict[str, dict[str, Counter[int]]]:
    found: dict[str, dict[str, Counter[int]]] = {}
    for a in free:
        if snapshot.requests[a.workload].shared:
            found.setdefault(a.node, {}).setdefault(a.workload, Counter())[a.cards[0]] += 1
    return found


def instances_of(snapshot: Snapshot, free: Iterable[Allocation]) -> dict[str, dict[str, list[Held]]]:
    """The MIG instances that each of these holds, by node and workload."""
    found: dict[str, dict[str, list[Held]]] = {}
    for a in free if snapshot.cuts else ():
        if snapshot.requests[a.workload].profile:
            found.setdefault(a.node, {}).setdefault(a.workload, []).append(a.gpus)
    return found


def fixed_by(task: Task) -> Pairs:
    """What a task does not decide."""
    return Counter({(name, node): k for name, counts in task.base.counts.items() for node, k in counts.items()})
