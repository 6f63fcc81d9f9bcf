"""How do the replicas of one workload stand to each other?"""

from __future__ import annotations

import itertools

from swarm_iac.model.place.groups import LEVELS, GroupRule, Level
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Values
from swarm_iac.solver.snapshot.capacity import group_of, held

#: In a model with more pairs than this, ceilings and goals are sums over workloads, not over pairs.
SUMMED = 300


def replicas_are_not_exceeded(fleet: FleetModel) -> None:
    """For every workload w that is no gang:  Σ_n x[w,n] ≤ members_w;  in a large model  Σ_n x[w,n] = placed[w] ≤ members_w"""
    for name in fleet.by_request:
        parts = fleet.of(name)
        if fleet.request(name).gang:
            continue
        if len(fleet.x) <= SUMMED or len(parts) == 1:
            fleet.at_most([(var, 1) for var in parts], fleet.task.free[name])
            continue

        def placed(values: Values, parts: list[cp_model.IntVar] = parts) -> int:
            return sum(values[part.index] for part in parts)

        var = fleet.new(0, fleet.task.free[name], f"placed[{name}]", placed)
        fleet.model.add(sum(parts) == var)
        fleet.totals[name] = [(var, 1)]


def gang_is_whole_or_absent(fleet: FleetModel) -> None:
    """For every gang w:  Σ_n x[w,n] = members_w · whole[w];  whole[w] = 1 where a fixed member stands"""
    for name in fleet.by_request:
        if not fleet.request(name).gang:
            continue
        left, parts = fleet.task.free[name], fleet.of(name)
        low = int(left < fleet.request(name).members)

        def whole(values: Values, parts: list[cp_model.IntVar] = parts, low: int = low) -> int:
            return max(low, int(any(values[part.index] for part in parts)))

        var = fleet.new(low, 1, f"whole[{name}]", whole)
        fleet.model.add(sum(parts) == left * var)
        if len(fleet.x) > SUMMED:
            fleet.totals[name] = [(var, left)]


def group_rule_holds(fleet: FleetModel, rule: GroupRule) -> None:
    """For every w with the rule and every group g (node, rack or site):  Σ_{n∈g} x[w,n] ≤ each − fixed[w,g] if bounded;

    x[w,n] ≤ top[w,n] · in[w,g(n)],  Σ_g in[w,g] ≤ 1,  if all have to be in one.  Groups: see `group_of`.
    """
    for name, nodes in fleet.by_request.items():
        for one in (one for one in fleet.request(name).groups if one.of is rule):
            groups: dict[str, list[str]] = {}
            for node in nodes:
                groups.setdefault(group_of(fleet.node(node), one.level), []).append(node)
            there = held(fleet.task.base, fleet.request(name), one.level)
            for group, inside in groups.items() if one.each is not None else ():
                fleet.at_most([(fleet.x[name, node], 1) for node in inside], one.left(there, group) or 0)
            if rule.together and len(groups) > 1:
                _in_one(fleet, name, groups)


def others_stay_away(fleet: FleetModel, rule: GroupRule) -> None:
    """For every node n:  Σ_w in[w,n] ≤ 1;  for every rack or site g and w that says so:  in[w,g] + Σ_{v≠w} in[v,n] ≤ 1, n ∈ g.

    in[w,·] ≥ x[w,n] / top[w,n], for all w with the rule. Near those that are fixed no x is a variable.
    """
    if not rule.others or rule.named:
        return
    of = {name: one.level for name in fleet.by_request for one in fleet.request(name).groups if one.of is rule}
    here = {node: mine for node, names in fleet.by_node.items() if (mine := [name for name in names if name in of])}
    on = {(name, node): _used(fleet, name, node, [node]) for node, names in here.items() for name in names}
    for node, names in here.items():
        fleet.at_most([(on[name, node], 1) for name in names], 1)
    for level in LEVELS[1:]:
        groups: dict[str, list[str]] = {}
        for node in here if level in of.values() else ():
            groups.setdefault(group_of(fleet.node(node), level), []).append(node)
        for group, nodes in groups.items():
            whole = sorted({name for node in nodes for name in here[node] if of[name] == level})
            used = {name: _used(fleet, name, group, [node for node in nodes if name in here[node]]) for name in whole}
            fleet.at_most([(var, 1) for var in used.values()], 1)
            for node, name in itertools.product(nodes, whole):
                fleet.at_most([(used[name], 1), *((on[other, node], 1) for other in here[node] if other != name)], 1)


def named_stay_away(fleet: FleetModel) -> None:
    """For every two v, w of which one is to be away from the other, and every group g of that kind:  in[v,g] + in[w,g] ≤ 1"""
    known: dict[tuple[str, str], cp_model.IntVar] = {}
    pairs = {
        (min(name, other), max(name, other), one.level)
        for name in fleet.by_request
        for one in fleet.request(name).groups
        for other in one.names
        if other in fleet.by_request
    }

    def used(name: str, level: Level) -> dict[str, cp_model.IntVar]:
        groups: dict[str, list[str]] = {}
        for node in fleet.by_request[name]:
            groups.setdefault(group_of(fleet.node(node), level), []).append(node)
        for group, nodes in groups.items():
            if (name, f"{level} {group}") not in known:
                known[name, f"{level} {group}"] = _used(fleet, name, group, nodes)
        return {group: known[name, f"{level} {group}"] for group in groups}

    for name, other, level in sorted(pairs):
        one, two = used(name, level), used(other, level)
        for group in one.keys() & two.keys():
            fleet.at_most([(one[group], 1), (two[group], 1)], 1)


def company_is_near(fleet: FleetModel) -> None:
    """For every w, v ∈ only_with_w,s and n in a group g of this kind:  x[w,n] ≤ home[w,n] + (top[w,n] − home[w,n]) · has[v,g]

    has[v,g] ≤ Σ_{m∈g} x[v,m], and 1 where v is fixed. home: what ran there, and may stay alone.
    """
    known: dict[tuple[str, str], cp_model.IntVar | int] = {}

    def has(other: str, level: Level, group: str) -> cp_model.IntVar | int:
        if (other, group) not in known:
            nodes = fleet.task.snapshot.nodes
            its = [fleet.x[other, node] for node in fleet.by_request.get(other, ()) if group_of(nodes[node], level) == group]
            if any(group_of(nodes[node], level) == group for node in fleet.task.base.counts.get(other, ())):
                known[other, group] = 1
            elif its:
                var = fleet.new(0, 1, f"has[{other},{group}]", lambda values: int(any(values[one.index] for one in its)))
                fleet.model.add(var <= sum(its))
                known[other, group] = var
            else:
                known[other, group] = 0
        return known[other, group]

    for name, nodes in fleet.by_request.items():
        named = [(level, other) for level, others in fleet.request(name).place.only_with.items() for other in others]
        for (level, other), node in itertools.product(named, nodes):
            there, top = has(other, level, group_of(fleet.node(node), level)), fleet.tops[name, node]
            home = min(top, fleet.task.home(name, node))
            if home < top and not isinstance(there, int):
                fleet.model.add(fleet.x[name, node] <= home + (top - home) * there)
            elif home < top and not there:
                fleet.model.add(fleet.x[name, node] <= home)


def _used(fleet: FleetModel, name: str, group: str, nodes: list[str]) -> cp_model.IntVar:
    """1 where any of the nodes has a replica."""
    parts = [fleet.x[name, node] for node in nodes]

    def used(values: Values) -> int:
        return int(any(values[part.index] for part in parts))

    var = fleet.new(0, 1, f"in[{name},{group}]", used)
    for node in nodes:
        fleet.model.add(fleet.x[name, node] <= fleet.tops[name, node] * var)
    return var


def _in_one(fleet: FleetModel, name: str, groups: dict[str, list[str]]) -> None:
    """One group at most has a replica."""
    fleet.model.add(sum(_used(fleet, name, group, inside) for group, inside in groups.items()) <= 1)
