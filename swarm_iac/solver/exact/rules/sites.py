"""Do the links between sites carry what the members of gangs send each other?"""

from __future__ import annotations

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Terms, Values
from swarm_iac.solver.snapshot.site_links import crossing, site


def links_carry_gangs(fleet: FleetModel) -> None:
    """For every link l between sites s and t:  Σ_w between_w · across[w,l] + fixed_l ≤ bandwidth_l   [bit/s], each way

        across[w,l] ≥ min(x[w,s], x[w,t]):  across ≥ x[w,s] − top[w,s] · less,  across ≥ x[w,t] − top[w,t] · (1 − less)

    x[w,s]: members of the gang w in s, with those that are fixed. less[w,l] = 1 where s has more of them than t.
    """
    base = fleet.task.base
    free = [name for name in base.snapshot.sending if name in fleet.by_request]
    for pair, rate in base.links.items() if free else ():
        left = rate - base.sent[pair] + sum(crossing(base, fleet.request(name), pair) for name in free)
        sides = {name: [_inside(fleet, name, place) for place in pair] for name in free}
        tops = {name: [sum(map(fleet.top_of, parts)) + fixed for parts, fixed in ends] for name, ends in sides.items()}
        if sum(fleet.request(name).between * min(tops[name]) for name in free) <= left:
            continue
        terms: Terms = []
        for name in free:
            if min(tops[name]):
                terms.append((_across(fleet, f"{name},{'-'.join(pair)}", sides[name], tops[name]), fleet.request(name).between))
        fleet.at_most(terms, left)


def _inside(fleet: FleetModel, name: str, place: str) -> tuple[list[cp_model.IntVar], int]:
    """The variables of a gang's members in a site, and how many are fixed there."""
    parts = [fleet.x[name, node] for node in fleet.by_request[name] if fleet.node(node).site == place]
    return parts, fleet.task.base.groups.get((name, "site"), {}).get(site(place), 0)


def _across(fleet: FleetModel, name: str, ends: list[tuple[list[cp_model.IntVar], int]], tops: list[int]) -> cp_model.IntVar:
    """At least the fewer of the members in two sites."""

    def members(values: Values, end: int) -> int:
        parts, fixed = ends[end]
        return sum(values[part.index] for part in parts) + fixed

    less = fleet.new(0, 1, f"less[{name}]", lambda values: int(members(values, 0) > members(values, 1)))
    across = fleet.new(0, min(tops), f"across[{name}]", lambda values: min(members(values, 0), members(values, 1)))
    for (parts, fixed), top, other in zip(ends, tops, (less, 1 - less), strict=True):
        fleet.model.add(across >= sum(parts) + fixed - top * other)
    return across
