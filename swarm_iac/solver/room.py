"""What is still free, and how many more replicas fit on a node?

The arithmetic twin of the rules of the CP-SAT model, for what is settled one replica at a time: what may stay, the
greedy start, and explanations.
"""

from __future__ import annotations

from collections import Counter

from swarm_iac.solver.scene import ENDLESS, Ask, Bin, Scene


def group_of(bin_: Bin, level: str) -> str:
    """The group for `spread` and `within`: the node itself, or its rack; a node without a rack is a rack of its own."""
    return f"node {bin_.name}" if level == "node" or bin_.rack is None else f"rack {bin_.rack}"


class Room:
    """Free resources of nodes, racks, users and the cluster, and who stands where."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.free = {name: list(bin_.room) for name, bin_ in scene.bins.items()}
        self.users = {name: list(values) for name, values in scene.users.items()}
        self.cluster = list(scene.cluster)
        self.racks = {name: list(values) for name, values in scene.racks.items()}
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in scene.asks}
        self.load: Counter[str] = Counter()

    def copy(self) -> Room:
        """An independent copy."""
        other = Room.__new__(Room)
        other.scene = self.scene
        other.free = {name: list(values) for name, values in self.free.items()}
        other.users = {name: list(values) for name, values in self.users.items()}
        other.cluster = list(self.cluster)
        other.racks = {name: list(values) for name, values in self.racks.items()}
        other.counts = {name: Counter(values) for name, values in self.counts.items()}
        other.load = Counter(self.load)
        return other

    def most(self, ask: Ask, bin_: Bin) -> int:
        """How many more replicas of `ask` this node could take now; neither suitability nor gangs are looked at."""
        fit = ask.members - self.counts[ask.name].total()
        for need, free in zip(ask.need, self.free[bin_.name], strict=True):
            if need:
                fit = min(fit, free // need)
                if fit <= 0:
                    return 0
        fit = min(fit, self._by_ceiling(ask), self._by_rack(ask, bin_), self._by_shape(ask, bin_))
        return max(fit, 0)

    def _by_ceiling(self, ask: Ask) -> int:
        fit = ENDLESS
        for need, user, cluster in zip(ask.usage, self.users[ask.user], self.cluster, strict=True):
            if need:
                fit = min(fit, user // need, cluster // need)
        return fit

    def _by_rack(self, ask: Ask, bin_: Bin) -> int:
        if bin_.rack is None or bin_.rack not in self.racks:
            return ENDLESS
        needs = (ask.need[5], ask.need[6], bin_.power_of(ask))
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

    def take(self, ask: Ask, bin_: Bin, count: int) -> None:
        """Put `count` replicas on the node; a negative count gives them back."""
        free = self.free[bin_.name]
        for i, need in enumerate(ask.need):
            free[i] -= need * count
        user = self.users[ask.user]
        for i, need in enumerate(ask.usage):
            user[i] -= need * count
            self.cluster[i] -= need * count
        if bin_.rack in self.racks:
            rack = self.racks[bin_.rack]
            for i, need in enumerate((ask.need[5], ask.need[6], bin_.power_of(ask))):
                rack[i] -= need * count
        self.load[bin_.name] += count
        counts = self.counts[ask.name]
        counts[bin_.name] += count
        if not counts[bin_.name]:
            del counts[bin_.name]
