"""What is still free, and how many more replicas fit on a node?

The arithmetic twin of the rules of the CP-SAT model, for what is settled one replica at a time: what may stay, the
greedy start, and explanations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.snapshot import single_numa
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin, Scene


def group_of(bin_: Bin, level: str) -> str:
    """The group for `spread` and `within`: the node itself, or its rack; a node without a rack is a rack of its own."""
    return f"node {bin_.name}" if level == "node" or bin_.rack is None else f"rack {bin_.rack}"


class Room:
    """Free resources of nodes, racks, users and the cluster, and who stands where."""

    def __init__(self, scene: Scene, *, numa: bool = True) -> None:
        self.scene = scene
        #: Replicas of those that have to be on one NUMA node, by node and workload; None where that is not looked at.
        self.single: dict[str, Counter[str]] | None = {} if numa and scene.singles else None
        #: Who has its devices already, if it is there.
        self.seats: Mapping[str, tuple[Allocation, ...]] = {} if self.single is None else scene.seats
        self.free = {name: list(bin_.room) for name, bin_ in scene.bins.items()}
        self.users = {name: list(values) for name, values in scene.users.items()}
        self.cluster = list(scene.cluster)
        self.racks = {name: list(values) for name, values in scene.racks.items()}
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in scene.asks}
        self.load: Counter[str] = Counter()
        #: Cards held in part, by node: what each has left. `free[node][GPUS]` counts the empty ones.
        self.parts: dict[str, dict[int, int]] = {}
        self.held: dict[tuple[str, str], list[int]] = {}

    def partial(self, node: str) -> dict[int, int]:
        """Cards of the node that are held in part: thousandths left of each."""
        return self.parts.get(node, {})

    def copy(self) -> Room:
        """An independent copy."""
        other = Room.__new__(Room)
        other.scene = self.scene
        other.single = None if self.single is None else {name: Counter(values) for name, values in self.single.items()}
        other.seats = self.seats
        other.free = {name: list(values) for name, values in self.free.items()}
        other.users = {name: list(values) for name, values in self.users.items()}
        other.cluster = list(self.cluster)
        other.racks = {name: list(values) for name, values in self.racks.items()}
        other.counts = {name: Counter(values) for name, values in self.counts.items()}
        other.load = Counter(self.load)
        other.parts = {name: dict(cards) for name, cards in self.parts.items()}
        other.held = {pair: list(cards) for pair, cards in self.held.items()}
        return other

    def most(self, ask: Ask, bin_: Bin) -> int:
        """How many more replicas of `ask` this node could take now; neither suitability nor gangs are looked at."""
        fit = ask.members - self.counts[ask.name].total()
        free = self.free[bin_.name]
        for i, need in ask.needs:
            fit = min(fit, free[i] // need)
            if fit <= 0:
                return 0
        if ask.shared:
            fit = min(fit, self.shares(ask, bin_.name))
        fit = min(fit, self.by_ceiling(ask), self.by_rack(ask, bin_), self._by_shape(ask, bin_))
        return max(self.by_numa(ask, bin_, fit), 0)

    def by_numa(self, ask: Ask, bin_: Bin, fit: int) -> int:
        """Of `fit` that the node has room for in all, how many leave each that asks for one NUMA node on one."""
        if self.single is None or fit <= 0 or len(bin_.parts) == 1:
            return fit
        if not ask.single:
            # Who is new takes what is left on any NUMA node; only who has its devices already may be in the way.
            seats = sum(a.workload == ask.name for a in self.seats.get(bin_.name, ()))
            if not self.single.get(bin_.name) or seats <= self.counts[ask.name][bin_.name]:
                return fit
        return single_numa.most(self, ask, bin_, fit)

    def fits(self, ask: Ask, bin_: Bin) -> bool:
        """Does the node have room for one more, whatever is wanted and wherever its others stand?"""
        free = self.free[bin_.name]
        return (
            all(need <= left for need, left in zip(ask.need, free, strict=True))
            and (not ask.shared or self.shares(ask, bin_.name) > 0)
            and self.by_numa(ask, bin_, 1) > 0
        )

    def shares(self, ask: Ask, node: str) -> int:
        """How many more parts of a GPU of this size the node's cards could hold.

        None where more cards are taken than there are: parts were packed worse here than they could be.
        """
        if self.free[node][GPUS] < 0:
            return 0
        empty = self.free[node][GPUS] * (WHOLE // ask.share)
        return empty + sum(left // ask.share for left in self.partial(node).values())

    def by_ceiling(self, ask: Ask) -> int:
        """How many more the user and the cluster may have."""
        fit = ENDLESS
        user, cluster = self.users[ask.user], self.cluster
        for i, need in ask.uses:
            fit = min(fit, user[i] // need, cluster[i] // need)
        return fit

    def by_rack(self, ask: Ask, bin_: Bin) -> int:
        """How many more the rack of the node has power and uplink for."""
        if bin_.rack is None or bin_.rack not in self.racks:
            return ENDLESS
        needs = bin_.of_rack(ask)
        return min((free // need for need, free in zip(needs, self.racks[bin_.rack], strict=True) if need), default=ENDLESS)

    def _by_shape(self, ask: Ask, bin_: Bin) -> int:
        counts, bins = self.counts[ask.name], self.scene.bins
        if ask.within and counts:
            home = group_of(bin_, ask.within)
            if any(group_of(bins[node], ask.within) != home for node, count in counts.items() if count):
                return 0
        if ask.spread:
            home = group_of(bin_, ask.spread)
            taken = any(group_of(bins[node], ask.spread) == home for node, count in counts.items() if count)
            return 0 if taken else 1
        return ENDLESS

    def take(self, ask: Ask, bin_: Bin, count: int, gpus: tuple[int, ...] = ()) -> None:
        """Put `count` replicas on the node; a negative count gives them back.

        A part of a GPU goes to the card `gpus` where one is named, else to the fullest that has room, else to an empty
        one, which gets a negative number of its own.
        """
        if ask.shared:
            for _ in range(abs(count)):
                self._give(ask, bin_.name) if count < 0 else self._share(ask, bin_.name, gpus)
        free = self.free[bin_.name]
        for i, need in ask.needs:
            free[i] -= need * count
        user = self.users[ask.user]
        for i, need in ask.uses:
            user[i] -= need * count
            self.cluster[i] -= need * count
        if bin_.rack in self.racks:
            rack = self.racks[bin_.rack]
            for i, need in enumerate(bin_.of_rack(ask)):
                rack[i] -= need * count
        self.load[bin_.name] += count
        counts = self.counts[ask.name]
        counts[bin_.name] += count
        if not counts[bin_.name]:
            del counts[bin_.name]
        if self.single is not None and ask.single:
            ones = self.single.setdefault(bin_.name, Counter())
            ones[ask.name] += count
            if not ones[ask.name]:
                del ones[ask.name]

    def put_back(self, ask: Ask, bin_: Bin, count: int, own: Iterable[int]) -> int:
        """Put up to `count` parts on those of the cards `own`, one each, that have room still. Returns how many."""
        done = 0
        for card in own:
            empty = WHOLE if self.free[bin_.name][GPUS] > 0 else 0
            if done < count and self.partial(bin_.name).get(card, empty) >= ask.share:
                self.take(ask, bin_, 1, (card,))
                done += 1
        return done

    def _share(self, ask: Ask, node: str, gpus: tuple[int, ...]) -> None:
        cards = self.parts.setdefault(node, {})
        fitting = sorted((left, card) for card, left in cards.items() if left >= ask.share)
        card = gpus[0] if gpus else (fitting[0][1] if fitting else min(0, *cards, 0) - 1)
        if card not in cards:
            cards[card] = WHOLE
            self.free[node][GPUS] -= 1
        cards[card] -= ask.share
        self.held.setdefault((ask.name, node), []).append(card)

    def _give(self, ask: Ask, node: str) -> None:
        card = self.held[ask.name, node].pop()
        cards = self.parts[node]
        cards[card] += ask.share
        if cards[card] == WHOLE:
            del cards[card]
            self.free[node][GPUS] += 1


def room_with(scene: Scene, counts: Counter[tuple[str, str]]) -> Room:
    """What is free beside these replicas on nodes. Whole GPUs come before parts, and large parts before small ones."""
    room = Room(scene)
    for (name, node), count in sorted(counts.items(), key=lambda one: (-scene.asks[one[0][0]].share, one[0])):
        room.take(scene.asks[name], scene.bins[node], count)
    return room
