"""How far is a placement from what workloads would rather have: few racks, some beside them, no others, certain labels?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.place.groups import Level
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.balance.besides import beside_value, shy
from swarm_iac.solver.balance.company import wishes
from swarm_iac.solver.balance.nearest import nearby
from swarm_iac.solver.balance.preferred import choosy, lacks_value
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.fleet_model import FleetModel, Terms, Values
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.tasks import fixed_by


def nearness(fleet: FleetModel, share: float) -> list[Aim]:
    """min  Σ_w ( Σ_g in[w,g] − any[w] )  over all w with `near`, and racks (or sites) g;  in[w,g] ≥ x[w,n] / top[w,n] for n ∈ g

    any[w] = 1 where w is anywhere. Racks where something fixed of w is count in any case. None where no workload says so.
    """
    snapshot = fleet.task.snapshot
    terms: Terms = []
    constant = 0
    for name in nearby(snapshot):
        level = snapshot.requests[name].near
        assert level is not None, "it is one of those that say so"
        there = {group_of(snapshot.nodes[node], level) for node in fleet.task.base.counts[name]}
        constant += max(0, len(there) - 1)
        if name in fleet.by_request:
            terms += _of(fleet, name, level, there)
    return [Aim("near", terms, constant, -1, constant, share=share, turns=True)] if nearby(snapshot) else []


def company(fleet: FleetModel, share: float) -> list[Aim]:
    """min  Σ_w,v,g alone[w,v,g]  over all w with `prefer_with`, v that it names, and groups g of that kind

    alone[w,v,g] ≥ Σ_{n∈g} x[w,n] − top[w,g] · has[v,g],  has[v,g] ≤ Σ_{n∈g} x[v,n]. What is fixed counts like the others.
    """
    snapshot, base = fleet.task.snapshot, fleet.task.base
    if not (asked := wishes(snapshot)):
        return []
    terms: Terms = []
    constant = 0
    for name, level, other in asked:
        mine, its = _parts(fleet, name, level), _parts(fleet, other, level)
        there = {group_of(snapshot.nodes[node], level) for node, count in base.counts[other].items() if count}
        fixed = Counter[str]()
        for node, count in base.counts[name].items():
            fixed[group_of(snapshot.nodes[node], level)] += count
        for group in sorted((mine.keys() | fixed.keys()) - there):
            if group in its:
                terms.append((_alone(fleet, mine.get(group, []), its[group], fixed[group], f"{name},{other},{group}"), 1))
            else:
                constant += fixed[group]
                terms += [(var, 1) for var in mine.get(group, ())]
    return [Aim("alone", terms, constant, -1, constant, share=share, turns=True)]


def _parts(fleet: FleetModel, name: str, level: Level) -> dict[str, list[cp_model.IntVar]]:
    """The variables of a workload by group of nodes."""
    found: dict[str, list[cp_model.IntVar]] = {}
    for node in fleet.by_request.get(name, ()):
        found.setdefault(group_of(fleet.node(node), level), []).append(fleet.x[name, node])
    return found


def _alone(
    fleet: FleetModel, mine: list[cp_model.IntVar], its: list[cp_model.IntVar], fixed: int, name: str
) -> cp_model.IntVar:
    """How many of a group there are where none of the others is: so many as these variables say, and the fixed ones."""
    top = fixed + sum(fleet.top_of(var) for var in mine)
    has = _whether(fleet, its, f"with[{name}]")
    fleet.model.add(has <= sum(its))

    def lonely(values: Values) -> int:
        return 0 if any(values[var.index] for var in its) else fixed + sum(values[var.index] for var in mine)

    var = fleet.new(0, top, f"alone[{name}]", lonely)
    fleet.model.add(var >= sum(mine) + fixed - top * has)
    return var


def apartness(fleet: FleetModel, share: float) -> list[Aim]:
    """min  Σ_g ( Σ_w in[w,g] − any[g] )  over nodes, racks and sites g, and all w with `prefer_apart` for this kind of group

    any[g] = 1 where any of them is in g. Who is fixed in g counts in any case. None where no two workloads say so.
    """
    snapshot, base = fleet.task.snapshot, fleet.task.base
    terms: Terms = []
    for level, names in shy(snapshot).items():
        there = {(group_of(snapshot.nodes[node], level), name) for name in names for node in base.counts[name]}
        taken = {group for group, _ in there}
        inside: dict[str, list[cp_model.IntVar]] = {}
        parts: dict[tuple[str, str], list[cp_model.IntVar]] = {}
        for name in sorted(names & fleet.by_request.keys()):
            for node in fleet.by_request[name]:
                if (place := (group_of(fleet.node(node), level), name)) not in there:
                    parts.setdefault(place, []).append(fleet.x[name, node])
        for (group, name), ones in parts.items():
            inside.setdefault(group, []).append(_any(fleet, ones, f"beside[{name},{group}]"))
        for group, used in inside.items():
            terms += [(var, 1) for var in used]
            if group not in taken:
                any_ = _whether(fleet, used, f"any[{group}]")
                fleet.model.add(any_ <= sum(used))
                terms.append((any_, -1))
    constant = beside_value(snapshot, fixed_by(fleet.task)) if shy(snapshot) else 0
    return [Aim("beside", terms, constant, -1, constant, share=share, turns=True)] if shy(snapshot) else []


def _whether(fleet: FleetModel, used: list[cp_model.IntVar], name: str) -> cp_model.IntVar:
    """A variable that is 1 where one of these is, in the placement that a search begins with."""

    def anywhere(values: Values) -> int:
        return int(any(values[var.index] for var in used))

    return fleet.new(0, 1, name, anywhere)


def _any(fleet: FleetModel, parts: list[cp_model.IntVar], name: str) -> cp_model.IntVar:
    """1 where any of these numbers of replicas is not 0."""

    def has(values: Values) -> int:
        return int(any(values[part.index] for part in parts))

    var = fleet.new(0, 1, name, has)
    for part in parts:
        fleet.model.add(part <= fleet.top_of(part) * var)
    return var


def preference(fleet: FleetModel, share: float) -> list[Aim]:
    """min  Σ_w,n lacks[w,n] · x[w,n]  over all w with `prefer`;  lacks: so many of its preferred labels n has not"""
    snapshot = fleet.task.snapshot
    if not (names := choosy(snapshot)):
        return []
    terms = [
        (var, cost)
        for (name, node), var in fleet.x.items()
        if name in names and (cost := fleet.request(name).place.lacks(fleet.node(node).labels))
    ]
    constant = lacks_value(snapshot, fixed_by(fleet.task))
    return [Aim("preferred", terms, constant, -1, constant, share=share, turns=True)]


def _of(fleet: FleetModel, name: str, level: Level, there: set[str]) -> Terms:
    inside: dict[str, list[cp_model.IntVar]] = {}
    for node in fleet.by_request[name]:
        if (group := group_of(fleet.node(node), level)) not in there:
            inside.setdefault(group, []).append(fleet.x[name, node])
    used = [_any(fleet, parts, f"near[{name},{group}]") for group, parts in inside.items()]
    if there or not used:
        return [(var, 1) for var in used]

    any_ = _whether(fleet, used, f"any[{name}]")
    fleet.model.add(any_ <= sum(used))
    return [*((var, 1) for var in used), (any_, -1)]
