"""What is still free, and how many more replicas fit on a node?

The arithmetic twin of the rules of the CP-SAT model, for what is settled one replica at a time: what may stay, the
greedy start, and explanations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE, gpu
from swarm_iac.model.place.groups import LEVELS, Group, Level
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.packing.mig_instances import CutCards, Held
from swarm_iac.solver.snapshot import domain_seats, site_links
from swarm_iac.solver.snapshot.layout import ALL_GPUS, GPUS, SUPPLY
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import mig_profile_exists

#: More pieces of GPUs than one node has.
PIECES = 1 << 20


def group_of(host: NodeCapacity, level: Level) -> str:
    """The group of a rule of `place`: the node itself, its rack or its site.

    A node without a rack is a rack of its own, and a rack without a site a site of its own.
    """
    if level == "site" and host.site is not None:
        return f"site {host.site}"
    return f"node {host.name}" if level == "node" or host.rack is None else f"rack {host.rack}"


def groups_of(snapshot: Snapshot, level: Level) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The groups of one kind, in the order of their first nodes, and for each node the place of its own among them."""
    known = snapshot.known(groups_of)
    if level not in known:
        number: dict[str, int] = {}
        mine = [number.setdefault(group_of(host, level), len(number)) for host in snapshot.nodes.values()]
        known[level] = list(number), np.array(mine, dtype=np.int64)
    return cast("tuple[list[str], npt.NDArray[np.int64]]", known[level])


def held(capacity: FreeCapacity, request: WorkloadRequest, level: Level) -> dict[str, int]:
    """How many replicas of the workload stand in each group of nodes that has any."""
    if request.name in capacity.snapshot.grouped:
        return capacity.groups.get((request.name, level), {})
    found: dict[str, int] = {}
    for node, count in capacity.counts[request.name].items():
        group = group_of(capacity.snapshot.nodes[node], level)
        found[group] = found.get(group, 0) + count
    return found


def left(capacity: FreeCapacity, request: WorkloadRequest, group: Group, host: NodeCapacity) -> int | None:
    """How many more replicas a rule on groups of nodes leaves on this node; None: any number."""
    if group.of.others and capacity.near(request, group, host):
        return 0
    if group.of.joins:
        return site_links.left(capacity, request, host)
    return group.left(held(capacity, request, group.level), group_of(host, group.level))


class FreeCapacity:
    """Free resources of nodes, racks and scopes (users, teams, the cluster), and who stands where."""

    def __init__(self, snapshot: Snapshot, *, numa: bool = True) -> None:
        self.snapshot = snapshot
        #: Replicas of those that are bound to a NUMA node or linked GPUs, by node and workload; None where nobody looks at it.
        self.local: dict[str, Counter[str]] | None = {} if numa and snapshot.local else None
        #: Who has its devices already, if it is there.
        self.seats: Mapping[str, tuple[Allocation, ...]] = {} if self.local is None else snapshot.seats
        self.free = {name: list(host.capacity) for name, host in snapshot.nodes.items()}
        self.scopes = {name: list(values) for name, values in snapshot.scopes.items()}
        self.racks = {name: list(values) for name, values in snapshot.racks.items()}
        self.links = snapshot.links
        #: What all gangs together send over each of them.
        self.sent: Counter[tuple[str, str]] = Counter()
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in snapshot.requests}
        self.load: Counter[str] = Counter()
        #: Cards held in part, by node: what each has left. `free[node][GPUS]` counts the empty ones.
        self.parts: dict[str, dict[int, int]] = {}
        #: Cards that are cut into MIG instances, by node. `free[node][GPUS]` counts none of them either.
        self.cuts: dict[str, CutCards] = {}
        #: What each replica holds that has a part of a GPU or MIG instances, by workload and node; of instances nothing as long
        #: as they have no position.
        self.held: dict[tuple[str, str], list[Held]] = {}
        #: Replicas in each group of nodes, for workloads with rules on them: by workload and kind of group.
        self.groups: dict[tuple[str, Level], dict[str, int]] = {}
        #: Replicas of those that keep others away, by the key that says so and the group of nodes: of whom, from which kind.
        self.away: dict[tuple[str, Level, str], Counter[tuple[str, Level]]] = {}

    def partial(self, node: str) -> dict[int, int]:
        """Cards of the node that are held in part: thousandths left of each."""
        return self.parts.get(node, {})

    def copy(self) -> FreeCapacity:
        """An independent copy."""
        other = FreeCapacity.__new__(FreeCapacity)
        other.snapshot = self.snapshot
        other.local = None if self.local is None else {name: Counter(values) for name, values in self.local.items()}
        other.seats = self.seats
        other.free = {name: list(values) for name, values in self.free.items()}
        other.scopes = {name: list(values) for name, values in self.scopes.items()}
        other.racks = {name: list(values) for name, values in self.racks.items()}
        other.links, other.sent = self.links, Counter(self.sent)
        other.counts = {name: Counter(values) for name, values in self.counts.items()}
        other.load = Counter(self.load)
        other.parts = {name: dict(cards) for name, cards in self.parts.items()}
        other.cuts = {name: cards.copy() for name, cards in self.cuts.items()}
        other.held = {pair: list(cards) for pair, cards in self.held.items()}
        other.groups = {key: dict(found) for key, found in self.groups.items()}
        other.away = {place: Counter(ones) for place, ones in self.away.items()}
        return other

    def most(self, request: WorkloadRequest, host: NodeCapacity) -> int:
        """How many more replicas of `ask` this node could take now; neither suitability nor gangs are looked at."""
        fit = request.members - self.counts[request.name].total()
        free = self.free[host.name]
        for i, need in request.needs:
            fit = min(fit, free[i] // need)
            if fit <= 0:
                return 0
        if request.power is not None:
            fit = min(fit, self.by_supply(request, host))
        if request.in_pieces:
            fit = min(fit, self.shares(request, host.name, fit))
        fit = min(fit, self.by_ceiling(request), self.by_rack(request, host), self.by_groups(request, host))
        if request.models:
            fit = min(fit, self.by_model(request, host.model))
        return max(self.by_domain(request, host, fit), 0)

    def by_domain(self, request: WorkloadRequest, host: NodeCapacity, fit: int) -> int:
        """Of `fit` that the node has capacity for in all, how many leave each that is bound to a NUMA node, or to linked GPUs,
        in one.
        """
        if self.local is None or fit <= 0 or (len(host.parts) == 1 and not host.links):
            return fit
        if not request.local:
            # Who is new takes what is left on any NUMA node; only who has its devices already may be in the way.
            seats = sum(a.workload == request.name for a in self.seats.get(host.name, ()))
            if not self.local.get(host.name) or seats <= self.counts[request.name][host.name]:
                return fit
        return domain_seats.most(self, request, host, fit)

    def fits(self, request: WorkloadRequest, host: NodeCapacity) -> bool:
        """Does the node have capacity for one more, whatever is wanted and wherever its others stand?"""
        free = self.free[host.name]
        return (
            all(need <= left for need, left in zip(request.need, free, strict=True))
            and self.by_supply(request, host) > 0
            and (not request.in_pieces or self.shares(request, host.name, 1) > 0)
            and self.by_domain(request, host, 1) > 0
        )

    def shares(self, request: WorkloadRequest, node: str, limit: int = PIECES) -> int:
        """How many more parts of a GPU of this size the node's cards could hold, or replicas with MIG instances, up to `limit`.

        None where more cards are taken than there are: parts were packed worse here than they could be.
        """
        if self.free[node][GPUS] < 0:
            return 0
        if request.profile:
            return self._instances(request, node, limit)
        empty = self.free[node][GPUS] * (WHOLE // request.share)
        return empty + sum(left // request.share for left in self.partial(node).values())

    def _instances(self, request: WorkloadRequest, node: str, limit: int) -> int:
        host, empty = self.snapshot.nodes[node], self.free[node][GPUS]
        if not mig_profile_exists(request, host):  # what else it lacks is told as if its cards had it
            return empty * (WHOLE // request.share) // request.gpus
        cards = self.cuts.get(node) or CutCards(host.cards, {}, Counter())
        return cards.most(request.profile, request.gpus, empty, limit)

    def by_ceiling(self, request: WorkloadRequest) -> int:
        """How many more the user, the teams around it and the cluster may have."""
        fit = ENDLESS
        for scope in request.chain:
            left = self.scopes[scope]
            for i, need in request.uses:
                fit = min(fit, left[i] // need)
        return fit

    def by_model(self, request: WorkloadRequest, model: str | None) -> int:
        """How many more the limits on GPUs of this model leave: of the user, of the teams around it and of the cluster."""
        use = request.usage[ALL_GPUS]
        return min((self.scopes[scope][ALL_GPUS] // use for _, scope in request.on_model(model)), default=ENDLESS)

    def by_supply(self, request: WorkloadRequest, host: NodeCapacity) -> int:
        """How many more the power budget of the node leaves."""
        watts = host.power_of(request)
        return max(0, self.free[host.name][SUPPLY]) // watts if watts else ENDLESS

    def by_rack(self, request: WorkloadRequest, host: NodeCapacity) -> int:
        """How many more the rack of the node has power and uplink for."""
        if host.rack is None or host.rack not in self.racks:
            return ENDLESS
        needs = host.of_rack(request)
        return min((free // need for need, free in zip(needs, self.racks[host.rack], strict=True) if need), default=ENDLESS)

    def by_groups(self, request: WorkloadRequest, host: NodeCapacity) -> int:
        """How many more the rules of `place` on groups of nodes leave."""
        fit = ENDLESS
        for group in request.groups:
            most = left(self, request, group, host)
            fit = fit if most is None else min(fit, most)
        return fit

    def groups_near(self, request: WorkloadRequest, group: Group) -> dict[Level, set[str]]:
        """The groups of nodes for which `near` is true, by kind; kinds without any are left out."""
        if group.of.named:
            found = {group.level: {place for name in group.names for place in self.groups.get((name, group.level), ())}}
        else:
            found = {level: set[str]() for level in LEVELS[LEVELS.index(group.level) :]}
            for (key, level, place), ones in self.away.items():
                mine = key == group.of.key and level in found
                if mine and any(name != request.name and level in (group.level, other) for name, other in ones):
                    found[level].add(place)
        return {level: places for level, places in found.items() if places}

    def near(self, request: WorkloadRequest, group: Group, host: NodeCapacity) -> bool:
        """Is another workload that has the key in the same group of nodes, of the larger kind that the two say?

        Or any of those that are named, in the same group?
        """
        if group.of.named:
            place = group_of(host, group.level)
            return any(place in self.groups.get((name, group.level), ()) for name in group.names)
        return any(
            name != request.name and level in (group.level, other)
            for level in LEVELS[LEVELS.index(group.level) :]
            for name, other in self.away.get((group.of.key, level, group_of(host, level)), ())
        )

    def take(self, request: WorkloadRequest, host: NodeCapacity, count: int, gpus: Held = ()) -> None:
        """Put `count` replicas on the node; a negative count releases them.

        A part of a GPU goes to the card of `gpus` where one is named, else to the fullest that has capacity, else to an empty
        one, which gets a negative number of its own. MIG instances have the positions of `gpus`, else none of their own.
        """
        if request.in_pieces:
            self._piece(request, host, count, gpus)
        free = self.free[host.name]
        for i, need in request.needs:
            free[i] -= need * count
        if request.power is not None:
            free[SUPPLY] -= host.power_of(request) * count
        for scope in request.chain:
            left = self.scopes[scope]
            for i, need in request.uses:
                left[i] -= need * count
        for _, scope in request.on_model(host.model) if request.models else ():
            self.scopes[scope][ALL_GPUS] -= request.usage[ALL_GPUS] * count
        if host.rack in self.racks:
            rack = self.racks[host.rack]
            for i, need in enumerate(host.of_rack(request)):
                rack[i] -= need * count
        self.load[host.name] += count
        counts = self.counts[request.name]
        counts[host.name] += count
        if not counts[host.name]:
            del counts[host.name]
        if request.name in self.snapshot.grouped:
            self._regroup(request, host, count)
        if self.local is not None and request.local:
            ones = self.local.setdefault(host.name, Counter())
            ones[request.name] += count
            if not ones[request.name]:
                del ones[request.name]

    def _regroup(self, request: WorkloadRequest, host: NodeCapacity, count: int) -> None:
        """What the rules on groups of nodes look at."""
        joined = [pair for pair in self.links if host.site in pair] if request.between else []
        for pair in joined:
            self.sent[pair] -= site_links.crossing(self, request, pair)
        for level in LEVELS:
            found, group = self.groups.setdefault((request.name, level), {}), group_of(host, level)
            found[group] = found.get(group, 0) + count
            if not found[group]:
                del found[group]
        for pair in joined:
            self.sent[pair] += site_links.crossing(self, request, pair)
        for rule in (rule for rule in request.groups if rule.of.others and not rule.of.named):
            one = request.name, rule.level
            for level in LEVELS[LEVELS.index(rule.level) :]:
                near = self.away.setdefault((rule.of.key, level, group_of(host, level)), Counter())
                near[one] += count
                if not near[one]:
                    del near[one]

    def without(self, workloads: Iterable[str]) -> FreeCapacity:
        """A copy, as if these workloads had no allocations."""
        other = self.copy()
        for name in sorted(workloads):
            for node, count in list(other.counts[name].items()):
                other.take(self.snapshot.requests[name], self.snapshot.nodes[node], -count)
        return other

    @contextmanager
    def lifted(self, request: WorkloadRequest) -> Iterator[None]:
        """As if it had no allocations, until the block ends; others may come and go meanwhile. Each piece of a GPU is then on
        the card that it was on. A copy of a large fleet takes far longer.
        """
        home = dict(self.counts[request.name])
        pieces = {node: tuple(self.held[request.name, node]) for node in home} if request.in_pieces else {}
        for node, count in home.items():
            self.take(request, self.snapshot.nodes[node], -count)
        try:
            yield
        finally:
            for node, count in home.items():
                for piece in pieces.get(node, ()):
                    self.take(request, self.snapshot.nodes[node], 1, piece)
                if not pieces:
                    self.take(request, self.snapshot.nodes[node], count)

    def put_back(self, request: WorkloadRequest, host: NodeCapacity, count: int, own: Iterable[Held]) -> int:
        """Put up to `count` replicas on those pieces of GPUs of `own`, one each, that are still free. Returns how many."""
        done = 0
        for held in own:
            if done < count and self.has_free(request, host, held):
                self.take(request, host, 1, held)
                done += 1
        return done

    def has_free(self, request: WorkloadRequest, host: NodeCapacity, held: Held) -> bool:
        """Are these pieces of GPUs free for one more?"""
        empty = max(0, self.free[host.name][GPUS])
        if request.profile:
            return (self.cuts.get(host.name) or CutCards(host.cards, {}, Counter())).fits(held, empty)
        return self.partial(host.name).get(held[0].index, WHOLE if empty else 0) >= request.share

    def _piece(self, request: WorkloadRequest, host: NodeCapacity, count: int, gpus: Held) -> None:
        if request.profile:
            self._cut(request, host, count, gpus)
            return
        for _ in range(abs(count)):
            self._give(request, host.name) if count < 0 else self._share(request, host.name, gpus)

    def _cut(self, request: WorkloadRequest, host: NodeCapacity, count: int, gpus: Held) -> None:
        cards = self.cuts.setdefault(host.name, CutCards(host.cards, {}, Counter()))
        held, before = self.held.setdefault((request.name, host.name), []), cards.count
        for _ in range(abs(count)):
            if count > 0:
                held.append(gpus)
                devices = gpus
            else:
                devices = held.pop(held.index(gpus) if gpus in held else -1)
            if devices:
                cards.put(devices, count)
            else:
                cards.loose[request.profile] += request.gpus if count > 0 else -request.gpus
        self.free[host.name][GPUS] -= cards.count - before

    def _share(self, request: WorkloadRequest, node: str, gpus: Held) -> None:
        cards = self.parts.setdefault(node, {})
        fitting = sorted((left, card) for card, left in cards.items() if left >= request.share)
        card = gpus[0].index if gpus else (fitting[0][1] if fitting else min(0, *cards, 0) - 1)
        if card not in cards:
            cards[card] = WHOLE
            self.free[node][GPUS] -= 1
        cards[card] -= request.share
        self.held.setdefault((request.name, node), []).append((gpu(card, request.share),))

    def _give(self, request: WorkloadRequest, node: str) -> None:
        card = self.held[request.name, node].pop()[0].index
        cards = self.parts[node]
        cards[card] += request.share
        if cards[card] == WHOLE:
            del cards[card]
            self.free[node][GPUS] += 1


def capacity_with(snapshot: Snapshot, counts: Counter[tuple[str, str]]) -> FreeCapacity:
    """What is free beside these replicas on nodes. Whole GPUs come before parts, and large parts before small ones."""
    capacity = FreeCapacity(snapshot)
    for (name, node), count in sorted(counts.items(), key=lambda one: (-snapshot.requests[one[0][0]].share, one[0])):
        capacity.take(snapshot.requests[name], snapshot.nodes[node], count)
    return capacity
