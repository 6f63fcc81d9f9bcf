"""How many replicas of one workload fit, with everything else as it is, under a given set of rules?

Exact by counting, because replicas of one workload are interchangeable: the most on each node, then in each rack
(cheapest power first), then in each site, then in all. On an empty fleet it bounds what any placement can reach.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from swarm_iac.model.place.groups import SITE_LINKS, Level, together
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.solver.balance.even import left
from swarm_iac.solver.balance.evened import Gathered, evened_under
from swarm_iac.solver.explain import model_limits
from swarm_iac.solver.explain.domains import DOMAINS, by_domain
from swarm_iac.solver.explain.model_limits import MODEL_RULES
from swarm_iac.solver.explain.places.at_least import AtLeast
from swarm_iac.solver.snapshot import site_links
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.layout import CEILINGS, GPUS, NODE, POWER, RACK, SUPPLY, UPLINK, of_chain
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT, Hindering, hindering

#: The rules of each level, in the order of the tuples that they bound.
NODE_RULES, RACK_RULES, CEILING_RULES = (tuple(budget.rule for budget in level) for level in (NODE, RACK, CEILINGS))
#: On whole GPUs, of which parts need cards.
GPU_RULE = NODE_RULES[GPUS]
GROUPED = (*(rule.rule for rule in GROUP_RULES), SITE_LINKS.rule)
EVERY = frozenset((*(one.name for one in FIT), *NODE_RULES, *RACK_RULES, *CEILING_RULES, *MODEL_RULES, *GROUPED, *DOMAINS))
assert len(EVERY.difference(CEILING_RULES)) < 63, "a set of rules about nodes is the bits of one int64"
#: The rules about the state of nodes, and about their taints: those keep only new replicas away.
STATES, TAINTS = "node_is_ready", "taints_are_tolerated"
CLOSED = {STATES, TAINTS}


def reach(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    rules: Set[str] = EVERY,
    home: Counter[str] | None = None,
    among: Iterable[str] | None = None,
) -> int:
    """The most replicas that can be added. `home` counts those that may stay on a cordoned node; `among`: on these nodes."""
    left = min(request.members - capacity.counts[request.name].total(), by_ceiling(capacity, request, rules))
    if left <= 0:
        return 0
    found: list[tuple[NodeCapacity, int]] = []
    least = AtLeast(capacity, request, model_limits.left_on(capacity, request, rules) if request.models else {})
    empty: dict[int, int] = {}  # of nodes on which nothing stands, one of each kind is counted
    hindered, nodes = hindering(capacity.snapshot, request), capacity.snapshot.nodes
    each = capacity.counts[request.name] or (request.others and capacity.load)
    names = hindered.nodes_under(rules)
    closed = home.keys() & nodes.keys() - {*names} if home else set()
    for host in (nodes[name] for name in ((*names, *sorted(closed)) if among is None else among)):
        if host.name in closed:
            cap = on_node(capacity, request, host, rules, left, home, hindered)
        elif each or capacity.load[host.name]:
            cap = on_node(capacity, request, host, rules, left, None, hindered)
        elif (kind := capacity.snapshot.same_size[host.name]) in empty:
            cap = empty[kind]
        else:
            cap = empty[kind] = on_node(capacity, request, host, rules, left, None, hindered)
        if cap > 0:
            found.append((host, cap))
            if least.add(host, cap) >= left:
                return left
    return min(left, on_nodes(capacity, request, found, rules, home))


def on_nodes(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    found: list[tuple[NodeCapacity, int]],
    rules: Set[str],
    home: Counter[str] | None = None,
) -> int:
    """The most in all, of so many on each node."""
    sited, alone = _sited(request, rules), _together(request, rules) == "node"
    use = _rack_use(request, rules)

    def in_racks(ones: list[tuple[NodeCapacity, int]]) -> dict[Gathered, int]:
        racks: dict[Gathered, list[tuple[int, int]]] = {}
        for host, cap in ones:
            power = host.power_of(request) if use.powered and host.rack in capacity.racks else 0
            racks.setdefault(_group(host, sited=sited, alone=alone), []).append((power, cap))
        return {group: _in_rack(capacity, group, each, use) for group, each in racks.items()}

    whole = functools.cache(lambda: in_racks(found))
    evened = evened_under(capacity, request, whole, rules, home=home is not None)

    def plain(ones: list[tuple[NodeCapacity, int]]) -> int:
        counts = whole() if ones is found else in_racks(ones)
        return evened.total(counts) if evened else _in_all(capacity, request, counts, rules)

    lefts = model_limits.left_on(capacity, request, rules) if request.models else {}
    return model_limits.most(lefts, found, _together(request, rules), plain) if lefts else plain(found)


def _together(request: WorkloadRequest, rules: Set[str]) -> Level | None:
    return together(group for group in request.groups if group.of.rule in rules)


def on_node(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    host: NodeCapacity,
    rules: Set[str],
    fit: int,
    home: Counter[str] | None = None,
    hindered: Hindering | None = None,
) -> int:
    """The most replicas that can be added on one node, the rules on racks and ceilings aside. `hindered`: see `hindering`."""
    unfit = (hindering(capacity.snapshot, request) if hindered is None else hindered)[host.name]
    if unfit and (out := unfit & rules):
        if out - CLOSED or host.state not in ("ready", "cordon") or not home:
            return 0
        fit = min(fit, home[host.name])
    free = capacity.free[host.name]
    for i, need in request.needs:
        if NODE_RULES[i] in rules:
            fit = min(fit, free[i] // need)
    if request.power is not None and NODE_RULES[SUPPLY] in rules:
        fit = min(fit, capacity.by_supply(request, host))
    if fit <= 0:
        return 0
    if request.in_pieces and GPU_RULE in rules:
        fit = min(fit, capacity.shares(request, host.name, fit))
    for rule in DOMAINS if request.local else ():
        if rule in rules and fit > 0:
            fit = min(fit, by_domain(capacity, request, host, fit, rule))
    for group in request.groups:
        if group.of.rule in rules and not group.of.even:
            most = left(capacity, request, group, host)
            fit = fit if most is None else min(fit, most)
    if request.models:
        fit = min(fit, model_limits.left_on(capacity, request, rules).get(host.model or "", fit))
    return fit


class Tally:
    """`reach`, kept up to date while the capacity changes: only the nodes that changed, and their racks, are counted again.

    `nodes`: the only ones that are counted, if not all.
    """

    def __init__(
        self, capacity: FreeCapacity, request: WorkloadRequest, rules: Set[str] = EVERY, nodes: Set[str] | None = None
    ) -> None:
        self.capacity, self.request, self.rules, self._nodes = capacity, request, rules, nodes
        self._stateless = frozenset(rules - {STATES})
        self._use = _rack_use(request, rules)
        self._opened: set[str] = set()
        self._missing = request.members - capacity.counts[request.name].total()
        self._found: dict[Gathered, dict[str, tuple[int, int]]] = {}  # power and most replicas of each node, by group
        for host in capacity.snapshot.nodes.values():
            self._count(host)
        self._most = {group: self._of(group) for group in self._found}
        self._total = sum(self._most.values())

    def reach(self) -> int:
        """The most replicas that can be added now."""
        capacity, request = self.capacity, self.request
        left = min(self._missing, by_ceiling(capacity, request, self.rules))
        plain = not (_together(request, self.rules) or _sited(request, self.rules))
        if request.models:
            nodes = capacity.snapshot.nodes
            found = [(nodes[name], cap) for ones in self._found.values() for name, (_, cap) in ones.items() if cap > 0]
            return max(0, min(left, on_nodes(capacity, request, found, self.rules)))
        if evened := evened_under(capacity, request, lambda: self._most, self.rules):
            return max(0, min(left, evened.total(self._most)))
        return max(0, min(left, self._total if plain else _in_all(capacity, request, self._most, self.rules)))

    def counts(self, node: str) -> bool:
        """Is the node one of those that are counted?"""
        return self._nodes is None or node in self._nodes

    def changed(self, nodes: Iterable[str]) -> None:
        """Something came to these nodes or left them, or their racks have another budget."""
        hosts = [self.capacity.snapshot.nodes[name] for name in nodes]
        if self.request.others:  # who comes to a node of a rack, or site, may be too near to all others of it
            away = self.capacity.snapshot.away
            groups = {group_of(host, away) for host in hosts}
            hosts += [host for host in self.capacity.snapshot.nodes.values() if group_of(host, away) in groups]
        for group in {self._count(host) for host in hosts}:
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

    def _count(self, host: NodeCapacity) -> Gathered:
        rules = self._stateless if host.name in self._opened else self.rules
        group = _gathered(self.request, host, rules)
        cap = on_node(self.capacity, self.request, host, rules, max(0, self._missing)) if self.counts(host.name) else 0
        self._found.setdefault(group, {})[host.name] = (host.power_of(self.request), cap)
        return group

    def _of(self, group: Gathered) -> int:
        found = [one for one in self._found[group].values() if one[1] > 0]
        return _in_rack(self.capacity, group, found, self._use) if found else 0


def by_ceiling(capacity: FreeCapacity, request: WorkloadRequest, rules: Set[str]) -> int:
    """How many more the user, the teams around it and the cluster may have under these rules."""
    return min((left for rule, left in ceilings(capacity, request) if rule in rules), default=ENDLESS)


def ceilings(capacity: FreeCapacity, request: WorkloadRequest) -> Iterator[tuple[str, int]]:
    """Each rule on what it holds with others, and how many more that leaves."""
    for scope, budgets in zip(request.chain, of_chain(len(request.chain)), strict=True):
        free = capacity.scopes[scope]
        for i, need in request.uses:
            yield budgets[i].rule, free[i] // need


def _sited(request: WorkloadRequest, rules: Set[str]) -> bool:
    """Is any of the rules about sites?"""
    return bool(request.groups) and any(group.level == "site" for group in request.groups if group.of.rule in rules)


def _gathered(request: WorkloadRequest, host: NodeCapacity, rules: Set[str]) -> Gathered:
    """Nodes that are counted together: those of a rack, or each alone; with their site where any rule is about sites."""
    return _group(host, sited=_sited(request, rules), alone=_together(request, rules) == "node")


def _group(host: NodeCapacity, *, sited: bool, alone: bool) -> Gathered:
    site = group_of(host, "site") if sited else ""
    if alone or not host.rack:
        return site, host.rack or "", host.name
    return site, host.rack, ""


def _in_all(capacity: FreeCapacity, request: WorkloadRequest, counts: Mapping[Gathered, int], rules: Set[str]) -> int:
    """The most in all, of so many in each rack: where all have to be together, those of the best group."""
    together = _together(request, rules)
    most = [
        group.each for group in request.groups if group.level == "site" and group.of.rule in rules and group.each is not None
    ]
    found: Iterable[int] = counts.values()
    joined = request.between and SITE_LINKS.rule in rules and together is None
    if most or joined or together == "site":
        sites: dict[str, int] = {}
        for (site, _, _), count in counts.items():
            sites[site] = max(sites.get(site, 0), count) if together in ("node", "rack") else sites.get(site, 0) + count
        sites = {place: min([count, *most]) for place, count in sites.items()}
        found = [site_links.most(capacity, request, sites)] if joined else sites.values()
    return max(found, default=0) if together else sum(found)


@dataclass(frozen=True, slots=True)
class _RackUse:
    """What one replica takes of a rack, as far as rules look at it."""

    each: int  # so many a rack may have by rules on racks, whatever it has
    uplinks: tuple[tuple[int, int], ...]  # place in RACK and need
    powered: bool


def _rack_use(request: WorkloadRequest, rules: Set[str]) -> _RackUse:
    groups = [group for group in request.groups if group.level == "rack" and group.of.rule in rules]
    each = min((group.each for group in groups if group.each is not None), default=ENDLESS)
    uplinks = tuple((i, need) for i, place in enumerate(UPLINK) if (need := request.need[place]) and RACK_RULES[i] in rules)
    return _RackUse(each, uplinks, request.power is not None and RACK_RULES[POWER] in rules)


def _in_rack(capacity: FreeCapacity, key: Gathered, found: list[tuple[int, int]], use: _RackUse) -> int:
    """The most of all nodes of a rack. `found`: watts that one more takes, and how many fit, of each."""
    most = min(use.each, sum(cap for _, cap in found))
    left = capacity.racks.get(key[1])
    if left is None:
        return most
    for i, need in use.uplinks:
        most = min(most, max(0, left[i]) // need)
    if use.powered:
        power, cool = left[POWER], 0
        for cost, cap in sorted(found):
            fit = cap if not cost else min(cap, max(0, power) // cost)
            power -= fit * cost
            cool += fit
        most = min(most, cool)
    return most
