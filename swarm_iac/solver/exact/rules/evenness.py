"""Do replicas stand evenly in racks, or sites, where they have to?"""

from __future__ import annotations

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.balance.even import Even
from swarm_iac.solver.exact.fleet_model import FleetModel, Values

Terms = list[cp_model.IntVar]


def balance_holds(fleet: FleetModel) -> None:
    """For every w with `balance` and every group g that is compared, h over those that it is compared with:

        count_w,g ≤ min_h count_w,h + skew_w + top · all_ran[w,g],  x[w,n] + fixed_w,n ≤ ran_w,n for n ∈ g where all_ran[w,g]

    count_w,g = Σ_{n∈g} (x[w,n] + fixed_w,n). So what ran stays, and a group to which anything new comes is no fuller than the
    skew allows. all_ran is a variable only where more than the skew ran in g. Which groups are compared: see `compared`. Where
    nothing is decided about g, the others have no fewer than its new replicas allow.
    """
    for name in fleet.task.snapshot.evened:
        if name in fleet.by_request:
            _balanced(fleet, name)


def _balanced(fleet: FleetModel, name: str) -> None:
    fixed = fleet.task.base.counts[name]
    stands = Even(fleet.task.snapshot, fleet.request(name), fixed)
    inside: dict[str, list[str]] = {}
    for node in fleet.by_request[name]:
        inside.setdefault(stands.place(fleet.node(node)), []).append(node)
    vars_of = {place: [fleet.x[name, node] for node in nodes] for place, nodes in inside.items()}
    for near in sorted(stands.least):
        groups = sorted(place for place, one in stands.compared.items() if one == near)
        if len(groups) < 2:
            continue
        counts = {place: (vars_of.get(place, []), stands.there[place]) for place in groups}

        def least(values: Values, counts: dict[str, tuple[Terms, int]] = counts) -> int:
            return min(sum(values[var.index] for var in terms) + there for terms, there in counts.values())

        top = min(sum(map(fleet.top_of, terms)) + there for terms, there in counts.values())
        fewest = fleet.new(0, top, f"fewest[{name},{near}]", least)
        for terms, there in counts.values():
            fleet.model.add(fewest <= sum(terms) + there)
        for place in groups:
            if place in inside:
                _at_most(fleet, name, stands, place, inside[place], fewest)
            elif place in stands.new:
                fleet.model.add(fewest >= stands.there[place] - stands.group.skew)


def _at_most(fleet: FleetModel, name: str, stands: Even, place: str, nodes: list[str], fewest: cp_model.IntVar) -> None:
    """A group has no more than the fewest and the skew, or only what ran."""
    skew, there = stands.group.skew, stands.there[place]
    terms = [fleet.x[name, node] for node in nodes]
    most = sum(map(fleet.top_of, terms)) + there
    if most <= skew:
        return
    ran = sum(count for node, count in stands.ran.items() if node in stands.nodes and stands.place(stands.nodes[node]) == place)
    if place in stands.new or ran <= skew:
        fleet.model.add(sum(terms) + there <= fewest + skew)
        return

    def exempt(values: Values) -> int:
        return int(sum(values[var.index] for var in terms) + there > values[fewest.index] + skew)

    all_ran = fleet.new(0, 1, f"all_ran[{name},{place}]", exempt)
    fleet.model.add(sum(terms) + there <= fewest + skew + max(0, most - skew) * all_ran)
    for node, var in zip(nodes, terms, strict=True):
        kept, top = max(0, stands.ran[node] - stands.counts.get(node, 0)), fleet.top_of(var)
        if top > kept:
            fleet.model.add(var <= top - (top - kept) * all_ran)
