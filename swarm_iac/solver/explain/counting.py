"""How many replicas of one workload fit, with everything else as it is, under a given set of rules?

Exact by counting, because replicas of one workload are interchangeable: the most on each node, then in each rack
(cheapest power first), then in all. On an empty fleet it bounds what any placement can reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.snapshot.capacity import Room, group_of
from swarm_iac.solver.snapshot.layout import CLUSTER, CORES, GPUS, MEMORY, NODE, POWER, RACK, UPLINK, USER
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin, Scene
from swarm_iac.solver.snapshot.suitability import FIT, hindering, numa_node_suffices

Ints = npt.NDArray[np.int64]

#: The rules of each level, in the order of the tuples that they bound.
NODE_RULES, RACK_RULES, USER_RULES, CLUSTER_RULES = (
    tuple(budget.rule for budget in level) for level in (NODE, RACK, USER, CLUSTER)
)
#: On whole GPUs, of which parts need cards.
GPU_RULE = NODE_RULES[GPUS]
SHAPE_RULES = ("spread_keeps_apart", "within_keeps_together")
#: Of those that have to be on one NUMA node.
NUMA_RULE = "single_fits_numa_node"
EVERY = frozenset((*(name for name, _ in FIT), *NODE_RULES, *RACK_RULES, *USER_RULES, *CLUSTER_RULES, *SHAPE_RULES, NUMA_RULE))
#: The rule about the state of nodes.
STATES = "node_is_ready"
#: Of `spread` and `within`.
LEVELS = ("node", "rack")


def reach(room: Room, ask: Ask, rules: Set[str] = EVERY, home: Counter[str] | None = None) -> int:
    """The most replicas that can be added. `home` counts those that may stay on a cordoned node."""
    left = min(ask.members - room.counts[ask.name].total(), _by_ceiling(room, ask, rules))
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
    if ask.shared and GPU_RULE in rules:
        left = min(left, room.shares(ask, bin_.name))
    if ask.single and NUMA_RULE in rules and left > 0:
        left = min(left, by_numa(room, ask, bin_, left))
    counts = room.counts[ask.name]
    if counts and "within_keeps_together" in rules and ask.within:
        inside = group_of(bin_, ask.within)
        if any(group_of(room.scene.bins[node], ask.within) != inside for node in counts):
            return 0
    if ask.spread and "spread_keeps_apart" in rules:
        inside = group_of(bin_, ask.spread)
        left = 0 if any(group_of(room.scene.bins[node], ask.spread) == inside for node in counts) else min(left, 1)
    return left


def by_numa(room: Room, ask: Ask, bin_: Bin, fit: int) -> int:
    """How many of `fit` replicas more the NUMA nodes allow; any number where the node never suits.

    What the node has too little of in all is left out, so a reason says that something is split only where that is wrong.
    """
    free = room.free[bin_.name]
    need = tuple(0 if i in (GPUS, CORES, MEMORY) and each > free[i] else each for i, each in enumerate(ask.need))
    share = WHOLE if ask.shared and room.shares(ask, bin_.name) < 1 else ask.share
    if not numa_node_suffices(ask, bin_):
        return ENDLESS
    same = need == ask.need and share == ask.share
    return room.by_numa(ask if same else replace(ask, need=need, share=share), bin_, fit)


class Tally:
    """`reach`, kept up to date while the room changes: only the nodes that changed, and their racks, are counted again.

    `nodes`: the only ones that are counted, if not all.
    """

    def __init__(self, room: Room, ask: Ask, rules: Set[str] = EVERY, nodes: Set[str] | None = None) -> None:
        self.room, self.ask, self.rules, self._nodes = room, ask, rules, nodes
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
        left = min(self._missing, _by_ceiling(room, ask, self.rules))
        together = ask.within and "within_keeps_together" in self.rules
        return max(0, min(left, max(self._most.values(), default=0) if together else self._total))

    def counts(self, node: str) -> bool:
        """Is the node one of those that are counted?"""
        return self._nodes is None or node in self._nodes

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
        cap = on_node(self.room, self.ask, bin_, rules, max(0, self._missing)) if self.counts(bin_.name) else 0
        self._found.setdefault(group, {})[bin_.name] = (bin_.power_of(self.ask), cap)
        return group

    def _of(self, group: str) -> int:
        found = [one for one in self._found[group].values() if one[1] > 0]
        return _in_rack(self.room, self.ask, group, found, self.rules) if found else 0


class Ruled:
    """`reach` of one workload under many sets of rules: what each rule leaves of each node is worked out once.

    The room must not change meanwhile.
    """

    def __init__(self, room: Room, ask: Ask) -> None:
        self.room, self.ask = room, ask
        self.bins = list(room.scene.bins.values())
        #: The most replicas that each rule on nodes allows, node by node, where it allows fewer than any number.
        self.caps: dict[str, Ints] = {}
        unfit, counts = hindering(room.scene, ask), room.counts[ask.name]
        for name, _ in FIT:
            self._cap(name, [0 if name in unfit[bin_.name] else ENDLESS for bin_ in self.bins])
        for i, (name, need) in enumerate(zip(NODE_RULES, ask.need, strict=True)):
            if need:
                self._cap(name, [room.free[bin_.name][i] // need for bin_ in self.bins])
        if ask.shared:
            self._cap(GPU_RULE, [room.shares(ask, bin_.name) for bin_ in self.bins])
        if ask.single:
            self._cap(NUMA_RULE, self._numa())
        taken = {level: {group_of(room.scene.bins[node], level) for node in counts} for level in LEVELS}
        if ask.within and counts:
            inside = taken[ask.within]
            self._cap("within_keeps_together", [0 if inside - {group_of(bin_, ask.within)} else ENDLESS for bin_ in self.bins])
        if ask.spread:
            self._cap("spread_keeps_apart", [int(group_of(bin_, ask.spread) not in taken[ask.spread]) for bin_ in self.bins])

    def _numa(self) -> list[int]:
        """By the NUMA rule; of nodes on which nothing stands, one of each kind is counted."""
        room, empty = self.room, dict[int, int]()
        found = []
        for bin_ in self.bins:
            kind = room.scene.alike[bin_.name]
            if room.load[bin_.name] or kind not in empty:
                found.append(by_numa(room, self.ask, bin_, self.ask.members))
                if not room.load[bin_.name]:
                    empty[kind] = found[-1]
            else:
                found.append(empty[kind])
        return found

    def _cap(self, rule: str, found: list[int]) -> None:
        self.caps[rule] = np.array(found, dtype=np.int64)

    def reach(self, rules: Set[str] = EVERY) -> int:
        """The most replicas that can be added."""
        room, ask = self.room, self.ask
        left = min(ask.members - room.counts[ask.name].total(), _by_ceiling(room, ask, rules))
        if left <= 0:
            return 0
        caps = np.full(len(self.bins), left, dtype=np.int64)
        for rule, most in self.caps.items():
            if rule in rules:
                caps = np.minimum(caps, most)
        racks: dict[str, list[tuple[int, int]]] = {}
        for i in np.flatnonzero(caps > 0).tolist():
            bin_ = self.bins[i]
            racks.setdefault(_gathered(ask, bin_, rules), []).append((bin_.power_of(ask), int(caps[i])))
        counts = [_in_rack(room, ask, rack, found, rules) for rack, found in racks.items()]
        total = max(counts, default=0) if ask.within and "within_keeps_together" in rules else sum(counts)
        return min(left, total)

    def keeping_out(self) -> frozenset[frozenset[str]]:
        """For each node the rules of which each alone keeps one more replica from it, ceilings among them."""
        room, ask = self.room, self.ask
        ceilings = frozenset(rule for rule in (*USER_RULES, *CLUSTER_RULES) if _by_ceiling(room, ask, {rule}) < 1)
        out = {rule: most < 1 for rule, most in self.caps.items()}
        for i, rule in enumerate(RACK_RULES):
            short = [bin_.rack in room.racks and bin_.of_rack(ask)[i] > max(0, room.racks[bin_.rack][i]) for bin_ in self.bins]
            out[rule] = np.array(short, dtype=np.bool_)
        names = list(out)
        rows = np.unique(np.array([out[name] for name in names], dtype=np.bool_), axis=1).T
        return frozenset(ceilings.union(name for name, one in zip(names, row, strict=True) if one) for row in rows.tolist())


def keeping_out(room: Room, ask: Ask) -> frozenset[frozenset[str]]:
    """For each node the rules of which each alone keeps one more replica from it, ceilings among them."""
    return Ruled(room, ask).keeping_out()


def _by_ceiling(room: Room, ask: Ask, rules: Set[str]) -> int:
    """How many more the user and the cluster may have under these rules."""
    left = ENDLESS
    for names, free in ((USER_RULES, room.users[ask.user]), (CLUSTER_RULES, room.cluster)):
        for name, need, rest in zip(names, ask.usage, free, strict=True):
            if need and name in rules:
                left = min(left, rest // need)
    return left


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
    left = room.racks[rack]
    for i, place in enumerate(UPLINK):
        if ask.need[place] and RACK_RULES[i] in rules:
            most = min(most, max(0, left[i]) // ask.need[place])
    if RACK_RULES[POWER] in rules:
        power, cool = left[POWER], 0
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
        home = scene.home(name)
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
                ask.single,
            )
            if key not in known:
                known[key] = reach(empty, ask)
            count = known[key]
        result[name] = 0 if ask.gang and count < ask.members else count
    return result
