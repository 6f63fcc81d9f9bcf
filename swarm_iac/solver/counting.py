"""How many replicas of one workload fit, with everything else as it is, under a given set of rules?

Exact by counting, because replicas of one workload are interchangeable: the most on each node, then in each rack
(cheapest power first), then in all. On an empty fleet it bounds what any placement can reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set

from swarm_iac.solver.room import Room, group_of
from swarm_iac.solver.rules.fit import FIT, hindering
from swarm_iac.solver.scene import CEILINGS, NODE_DIMS, UPLINK, Ask, Bin, Scene

#: Rules on one thing that a node has, in the order of NODE_DIMS.
NODE_RULES = (
    "gpus_fit_node", "vcpus_fit_node", "cores_fit_node", "memory_fits_node", "storage_fits_node",
    "egress_fits_nic", "ingress_fits_nic", *(f"node_stays_under_limits {what}" for what in CEILINGS),
)  # fmt: skip
RACK_RULES = ("egress_fits_uplink", "ingress_fits_uplink", "power_stays_under_rack_budget")
USER_RULES = tuple(f"user_stays_under_limits {what}" for what in CEILINGS)
CLUSTER_RULES = tuple(f"cluster_stays_under_limits {what}" for what in CEILINGS)
SHAPE_RULES = ("spread_keeps_apart", "within_keeps_together")
EVERY = frozenset((*(name for name, _ in FIT), *NODE_RULES, *RACK_RULES, *USER_RULES, *CLUSTER_RULES, *SHAPE_RULES))
#: The rule about the state of nodes.
STATES = "node_is_ready"
#: Of `spread` and `within`.
LEVELS = ("node", "rack")
assert len(NODE_RULES) == len(NODE_DIMS)


def reach(room: Room, ask: Ask, rules: Set[str] = EVERY, home: Counter[str] | None = None) -> int:
    """The most replicas that can be added. `home` counts those that may stay on a cordoned node."""
    left = ask.members - room.counts[ask.name].total()
    for name, free in (*zip(USER_RULES, room.users[ask.user], strict=True), *zip(CLUSTER_RULES, room.cluster, strict=True)):
        need = ask.usage[CEILINGS.index(name.split()[1])]
        if need and name in rules:
            left = min(left, free // need)
    if left <= 0:
        return 0
    racks: dict[str, list[tuple[int, int]]] = {}
    unbound, plain = 0, not ask.within and ask.spread != "rack"
    empty: dict[int, int] = {}  # of nodes on which nothing stands, one of each kind is counted
    for bin_ in room.scene.bins.values():
        if home or room.counts[ask.name] or room.load[bin_.name]:
            cap = on_node(room, ask, bin_, rules, left, home)
        elif (kind := room.scene.alike[bin_.name]) in empty:
            cap = empty[kind]
        else:
            cap = empty[kind] = on_node(room, ask, bin_, rules, left)
        if cap > 0:
            racks.setdefault(_gathered(ask, bin_, rules), []).append((bin_.power_of(ask), cap))
            unbound += cap if plain and bin_.rack not in room.racks else 0
            if unbound >= left:
                return left
    counts = [_in_rack(room, ask, rack, found, rules) for rack, found in racks.items()]
    total = max(counts, default=0) if ask.within and "within_keeps_together" in rules else sum(counts)
    return min(left, total)


def on_node(room: Room, ask: Ask, bin_: Bin, rules: Set[str], left: int, home: Counter[str] | None = None) -> int:
    """The most replicas that can be added on one node, the rules on racks and ceilings aside."""
    if out := hindering(room.scene, ask)[bin_.name] & rules:
        if out != {STATES} or bin_.state != "cordon" or not home:
            return 0
        left = min(left, home[bin_.name])
    for name, need, free in zip(NODE_RULES, ask.need, room.free[bin_.name], strict=True):
        if need and name in rules:
            left = min(left, free // need)
    if ask.shared and "gpus_fit_node" in rules:
        left = min(left, room.shares(ask, bin_.name))
    counts = room.counts[ask.name]
    if counts and "within_keeps_together" in rules and ask.within:
        inside = group_of(bin_, ask.within)
        if any(group_of(room.scene.bins[node], ask.within) != inside for node in counts):
            return 0
    if ask.spread and "spread_keeps_apart" in rules:
        inside = group_of(bin_, ask.spread)
        left = 0 if any(group_of(room.scene.bins[node], ask.spread) == inside for node in counts) else min(left, 1)
    return left


class Tally:
    """`reach`, kept up to date while the room changes: only the nodes that changed, and their racks, are counted again."""

    def __init__(self, room: Room, ask: Ask, rules: Set[str] = EVERY) -> None:
        self.room, self.ask, self.rules = room, ask, rules
        self._stateless = frozenset(rules - {STATES})
        self._opened: set[str] = set()
        self._missing = ask.members - room.counts[ask.name].total()
        self._found: dict[str, dict[str, tuple[int, int]]] = {}  # power and most replicas of each node, by group
        for bin_ in room.scene.bins.values():
            self._count(bin_)
        self._most = {group: self._of(group) for group in self._found}
        self._total = sum(self._most.values())

    def reach(self) -> int:
        """The most replicas that can be added now."""
        room, ask = self.room, self.ask
        left = self._missing
        for rules, free in ((USER_RULES, room.users[ask.user]), (CLUSTER_RULES, room.cluster)):
            for name, need, rest in zip(rules, ask.usage, free, strict=True):
                if need and name in self.rules:
                    left = min(left, rest // need)
        together = ask.within and "within_keeps_together" in self.rules
        return max(0, min(left, max(self._most.values(), default=0) if together else self._total))

    def changed(self, nodes: Iterable[str]) -> None:
        """Something came to these nodes or left them, or their racks have another budget."""
        for group in {self._count(self.room.scene.bins[name]) for name in nodes}:
            self._total -= self._most[group]
            self._most[group] = self._of(group)
            self._total += self._most[group]

    def open(self, node: str) -> None:
        """Count the node as ready."""
        self._opened.add(node)
        self.changed((node,))

    def close(self, node: str) -> None:
        """Count it in its own state again."""
        self._opened.discard(node)
        self.changed((node,))

    def _count(self, bin_: Bin) -> str:
        rules = self._stateless if bin_.name in self._opened else self.rules
        group = _gathered(self.ask, bin_, rules)
        cap = on_node(self.room, self.ask, bin_, rules, max(0, self._missing))
        self._found.setdefault(group, {})[bin_.name] = (bin_.power_of(self.ask), cap)
        return group

    def _of(self, group: str) -> int:
        found = [one for one in self._found[group].values() if one[1] > 0]
        return _in_rack(self.room, self.ask, group, found, self.rules) if found else 0


def keeping_out(room: Room, ask: Ask) -> frozenset[frozenset[str]]:
    """For each node the rules of which each alone keeps one more replica from it, ceilings among them."""
    ceilings = {
        name
        for name, need, free in (
            *zip(USER_RULES, ask.usage, room.users[ask.user], strict=True),
            *zip(CLUSTER_RULES, ask.usage, room.cluster, strict=True),
        )
        if need and need > free
    }
    groups = {level: {group_of(room.scene.bins[node], level) for node in room.counts[ask.name]} for level in LEVELS}
    found, unfit = set(), hindering(room.scene, ask)
    for bin_ in room.scene.bins.values():
        out = {*unfit[bin_.name], *ceilings}
        out.update(r for r, need, free in zip(NODE_RULES, ask.need, room.free[bin_.name], strict=True) if need and need > free)
        if ask.shared and room.shares(ask, bin_.name) < 1:
            out.add("gpus_fit_node")
        if bin_.rack in room.racks:
            left = room.racks[bin_.rack]
            out.update(r for r, need, free in zip(RACK_RULES, bin_.of_rack(ask), left, strict=True) if need and need > free)
        if ask.spread and group_of(bin_, ask.spread) in groups[ask.spread]:
            out.add("spread_keeps_apart")
        if ask.within and groups[ask.within] - {group_of(bin_, ask.within)}:
            out.add("within_keeps_together")
        found.add(frozenset(out))
    return frozenset(found)


def _gathered(ask: Ask, bin_: Bin, rules: Set[str]) -> str:
    """Nodes that are counted together: those of a rack, or each alone."""
    if ask.within == "node" and "within_keeps_together" in rules:
        return f"{bin_.rack or ''}/{bin_.name}"
    return f"{bin_.rack}/" if bin_.rack else f"/{bin_.name}"


def _in_rack(room: Room, ask: Ask, key: str, found: list[tuple[int, int]], rules: Set[str]) -> int:
    rack = key.split("/", maxsplit=1)[0]
    most = sum(cap for _, cap in found)
    if ask.spread == "rack" and "spread_keeps_apart" in rules:
        most = min(most, 1)
    if rack not in room.racks:
        return most
    uplinks = room.racks[rack]
    for i, name in enumerate(RACK_RULES[:2]):
        if ask.need[UPLINK[i]] and name in rules:
            most = min(most, max(0, uplinks[i]) // ask.need[UPLINK[i]])
    if RACK_RULES[2] in rules:
        power, cool = uplinks[2], 0
        for cost, cap in sorted(found):
            fit = cap if not cost else min(cap, max(0, power) // cost)
            power -= fit * cost
            cool += fit
        most = min(most, cool)
    return most


def possible(scene: Scene) -> dict[str, int]:
    """For each workload the most replicas that could be placed if it had the fleet to itself."""
    empty = Room(scene)
    known: dict[tuple[object, ...], int] = {}
    result = {}
    for name, ask in scene.asks.items():
        home = Counter(a.node for a in scene.running.get(name, ()))
        if any(node in scene.bins and scene.bins[node].state == "cordon" for node in home):
            count = reach(empty, ask, home=home)
        else:
            key = (
                empty.by_ceiling(ask),
                ask.members,
                ask.need,
                ask.share,
                ask.model,
                ask.gpu_memory,
                ask.select,
                ask.spread,
                ask.within,
                ask.power,
            )
            if key not in known:
                known[key] = reach(empty, ask)
            count = known[key]
        result[name] = 0 if ask.gang and count < ask.members else count
    return result
