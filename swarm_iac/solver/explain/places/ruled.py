"""How many replicas of one workload fit under many sets of rules, each asked soon after the other?

What each rule leaves on each node is worked out once. Rules that leave all that is missing are not counted with.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import cached_property

import numpy as np
import numpy.typing as npt

from swarm_iac.solver.balance.even import left_on_each
from swarm_iac.solver.explain import model_limits
from swarm_iac.solver.explain.counting import EVERY, GPU_RULE, NODE_RULES, RACK_RULES, by_ceiling, ceilings, on_nodes
from swarm_iac.solver.explain.domains import DOMAINS, NUMA_RULE, OF_DOMAINS, Smaller, by_domain
from swarm_iac.solver.explain.model_limits import MODEL_RULES
from swarm_iac.solver.explain.places.at_least import AtLeast
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import POWER, RACK, SUPPLY, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT, hindering

Ints = npt.NDArray[np.int64]


class Table:
    """What is free on each node (nodes × NODE) and in its rack (nodes × RACK), as long as the capacity does not change."""

    def __init__(self, capacity: FreeCapacity) -> None:
        self.nodes = list(capacity.snapshot.nodes.values())
        endless = [ENDLESS] * len(RACK)
        self.free = _array([capacity.free[host.name] for host in self.nodes])
        self.racks = _array([capacity.racks.get(host.rack or "", endless) for host in self.nodes])
        self._power = _array([host.power for host in self.nodes])

    def power_of(self, request: WorkloadRequest) -> Ints:
        """`NodeCapacity.power_of` for each node."""
        watts = 0 if request.power is None else request.power
        return request.gpus * np.maximum(0, watts - self._power) if watts else np.zeros_like(self._power)

    def by_supply(self, request: WorkloadRequest) -> Ints:
        """`FreeCapacity.by_supply` for each node."""
        watts = self.power_of(request)
        return np.where(watts > 0, np.maximum(0, self.free[:, SUPPLY]) // np.maximum(1, watts), ENDLESS)

    def short(self, request: WorkloadRequest) -> npt.NDArray[np.bool_]:
        """Which of RACK has the rack of a node too little of for one more? Nodes × RACK."""
        left, found = np.maximum(0, self.racks), np.zeros(self.racks.shape, dtype=np.bool_)
        for i, place in enumerate(UPLINK):
            found[:, i] = left[:, i] < request.need[place]
        found[:, POWER] = left[:, POWER] < self.power_of(request)
        return found


class Ruled:
    """`reach` of a gang, and whether one more of others finds a place, under many sets of rules.

    What each rule leaves of each node is worked out once; the capacity must not change meanwhile.
    """

    def __init__(self, capacity: FreeCapacity, request: WorkloadRequest, table: Table | None = None) -> None:
        """`table`: of this capacity, where several are asked about."""
        self.capacity, self.request, self.table = capacity, request, table or Table(capacity)
        self.nodes = self.table.nodes
        self._missing = request.members - capacity.counts[request.name].total()
        self._reached: dict[frozenset[str], int] = {}
        #: The most replicas that each rule on nodes allows, node by node, where it allows fewer than any number.
        self.caps: dict[str, Ints] = {}
        unfit = self._unfit = hindering(capacity.snapshot, request)
        for name in (one.name for one in FIT if any(one.name in out for out in unfit.rules)):
            self._cap(name, [0 if name in out else ENDLESS for out in unfit.rules], unfit.kinds)
        for i, need in request.needs:
            self._cap(NODE_RULES[i], self.table.free[:, i] // need)
        if request.power is not None:
            self._cap(NODE_RULES[SUPPLY], self.table.by_supply(request))
        if request.in_pieces:
            limit = max(1, self._missing)  # more than these are as good as these
            self._cap(GPU_RULE, [capacity.shares(request, host.name, limit) for host in self.nodes])
        self._of_domains = [rule for rule in DOMAINS if (request.single if rule == NUMA_RULE else request.linked)]
        self._smaller = Smaller()
        self._domains: dict[tuple[str, str | int], int] = {}  # by rule and node, or kind of nodes on which nothing stands
        #: Of racks that are compared what one more replica finds: several find another number.
        self.one: dict[str, Ints] = {}
        for group in request.groups:
            self._cap(group.of.rule, left_on_each(capacity, request, group))
            if group.of.even:
                self.one[group.of.rule] = self.caps.pop(group.of.rule)
        self.wide = model_limits.of_any_model(capacity, request)  # as it is counted on nodes of other models
        for model, rule, most_there in model_limits.on_models(capacity, self.wide):
            self._cap(rule, [most_there if host.model == model else ENDLESS for host in self.nodes])

    def _by_domain(self, rule: str, host: NodeCapacity) -> int:
        """What one rule of DOMAINS leaves on a node. It takes longest, so it is asked only of nodes that others leave open."""
        capacity, snapshot = self.capacity, self.capacity.snapshot
        if not OF_DOMAINS[rule].isdisjoint(self._unfit[host.name]):
            return ENDLESS
        key = rule, host.name if capacity.load[host.name] else snapshot.same_size[host.name]
        if key not in self._domains:
            self._domains[key] = by_domain(capacity, self.request, host, self.request.members, rule, self._smaller)
        return self._domains[key]

    def _cap(self, rule: str, found: Iterable[int] | Ints, kinds: Ints | None = None) -> None:
        """`kinds`: the place in `found` of each node."""
        caps = found if isinstance(found, np.ndarray) else _array(list(found))
        caps = caps if kinds is None else caps[kinds]
        self.caps[rule] = np.minimum(caps, self.caps[rule]) if rule in self.caps else caps

    @cached_property
    def open(self) -> list[str]:
        """The nodes from which no rule on nodes alone keeps one more replica."""
        caps = np.min([*self.caps.values(), np.ones(len(self.nodes), dtype=np.int64)], axis=0)
        found = [self.nodes[i] for i in np.flatnonzero(caps > 0).tolist()]
        return [host.name for host in found if all(self._by_domain(rule, host) > 0 for rule in self._of_domains)]

    @cached_property
    def bounding(self) -> frozenset[str]:
        """The rules that may leave less than what is missing: what the others are, changes nothing."""
        request, rules = self.request, {rule for rule, caps in self.caps.items() if (caps < self._missing).any()}
        rules |= {rule for rule, left in ceilings(self.capacity, request) if left < self._missing}
        rules |= {*self._of_domains, *(group.of.rule for group in request.groups)}
        rules |= {*MODEL_RULES} if self.wide.models else set()
        return frozenset(rules.union(RACK_RULES) if self.capacity.racks else rules)

    def reach(self, rules: Set[str] = EVERY) -> int:
        """The most replicas of a gang that can be added; of others at most one on each node."""
        some = self.bounding & rules
        if some not in self._reached:
            self._reached[some] = self._reach(some)
        return self._reached[some]

    def _reach(self, rules: frozenset[str]) -> int:
        capacity, request = self.capacity, self.request
        left = min(self._missing, by_ceiling(capacity, request, rules))
        if left <= 0:
            return 0
        caps = np.full(len(self.nodes), left, dtype=np.int64)
        for rule in rules & self.caps.keys():
            caps = np.minimum(caps, self.caps[rule])
        # Of others than gangs the next one alone is asked about: `keeping_out`.
        domains = [rule for rule in self._of_domains if rule in rules] if request.gang else []
        least = AtLeast(capacity, request, model_limits.left_on(capacity, self.wide, rules) if self.wide.models else {})
        found: list[tuple[NodeCapacity, int]] = []
        for i in np.flatnonzero(caps > 0).tolist():
            host, cap = self.nodes[i], int(caps[i])
            for rule in domains:
                cap = cap and min(cap, self._by_domain(rule, host))
            if cap > 0:
                found.append((host, cap))
                if least.add(host, cap) >= left:
                    return left
        return min(left, on_nodes(capacity, self.wide, found, rules))

    @cached_property
    def keeping_out(self) -> frozenset[frozenset[str]]:
        """For each node the rules of which each alone keeps one more replica from it, ceilings among them.

        A node is left out where all rules of another one are among its own: what drops its own drops those as well.
        """
        capacity, request = self.capacity, self.request
        full = frozenset(rule for rule, left in ceilings(capacity, request) if left < 1)
        out = {rule: most < 1 for rule, most in (self.caps | self.one).items()}
        if capacity.racks:
            out |= dict(zip(RACK_RULES, self.table.short(request).T, strict=True))
        names = list(out)
        bits = sum((out[name].astype(np.int64) << i for i, name in enumerate(names)), np.zeros(len(self.nodes), np.int64))
        names, sets = self._with_domains(names, bits)
        return frozenset(full.union(name for i, name in enumerate(names) if bit >> i & 1) for bit in sets)

    def _with_domains(self, names: list[str], bits: Ints) -> tuple[list[str], list[int]]:
        """The same with the rules on NUMA nodes and links. Nodes that fewer rules keep out come first; one that these leave
        open stands for all others with the same rules, or more.
        """
        found = list[int]()
        for value in sorted(np.unique(bits).tolist(), key=int.bit_count) if self._of_domains else ():
            if any(value & one == one for one in found):
                continue
            some = set[int]()
            for row in np.flatnonzero(bits == value).tolist():
                full = [
                    by_domain(self.capacity, self.request, self.nodes[row], 1, rule, self._smaller) < 1
                    for rule in self._of_domains
                ]
                some.add(value | sum(1 << len(names) + i for i, out in enumerate(full) if out))
                if value in some:
                    some = {value}
                    break
            found += some
        return [*names, *self._of_domains], found if self._of_domains else np.unique(bits).tolist()


def _array(rows: object) -> Ints:
    return np.array(rows, dtype=np.int64)
