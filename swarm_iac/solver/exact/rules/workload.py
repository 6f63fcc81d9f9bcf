"""How do the replicas of one workload stand to each other?"""

from __future__ import annotations

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Values
from swarm_iac.solver.snapshot.capacity import group_of


def replicas_are_not_exceeded(fleet: FleetModel) -> None:
    """For every workload w that is no gang:  Σ_n x[w,n] ≤ members_w"""
    for name in fleet.by_request:
        if not fleet.request(name).gang:
            fleet.at_most([(var, 1) for var in fleet.of(name)], fleet.task.free[name])


def gang_is_whole_or_absent(fleet: FleetModel) -> None:
    """For every gang w:  Σ_n x[w,n] = members_w · whole[w];  whole[w] = 1 where a fixed member stands"""
    for name in fleet.by_request:
        if not fleet.request(name).gang:
            continue
        left, parts = fleet.task.free[name], fleet.of(name)
        low = int(left < fleet.request(name).members)

        def whole(values: Values, parts: list[cp_model.IntVar] = parts, low: int = low) -> int:
            return max(low, int(any(values[part.index] for part in parts)))

        fleet.model.add(sum(parts) == left * fleet.new(low, 1, f"whole[{name}]", whole))


def spread_keeps_apart(fleet: FleetModel) -> None:
    """For every w with spread and every node (or rack) g:  Σ_{n∈g} x[w,n] ≤ 1.  A node without a rack is a g alone."""
    for name, nodes in fleet.by_request.items():
        level = fleet.request(name).spread
        if level:
            groups: dict[str, list[str]] = {}
            for node in nodes:
                groups.setdefault(group_of(fleet.node(node), level), []).append(node)
            for inside in groups.values():
                fleet.at_most([(fleet.x[name, node], 1) for node in inside], 1)


def within_keeps_together(fleet: FleetModel) -> None:
    """For every w with within:  x[w,n] ≤ top[w,n] · in[w,g(n)],  Σ_g in[w,g] ≤ 1.  A node without a rack is a g alone."""
    for name, nodes in fleet.by_request.items():
        level = fleet.request(name).within
        if not level:
            continue
        groups: dict[str, list[str]] = {}
        for node in nodes:
            groups.setdefault(group_of(fleet.node(node), level), []).append(node)
        if len(groups) == 1:
            continue
        chosen = []
        for group, inside in groups.items():
            parts = [fleet.x[name, node] for node in inside]

            def used(values: Values, parts: list[cp_model.IntVar] = parts) -> int:
                return int(any(values[part.index] for part in parts))

            var = fleet.new(0, 1, f"in[{name},{group}]", used)
            chosen.append(var)
            for node in inside:
                fleet.model.add(fleet.x[name, node] <= fleet.tops[name, node] * var)
        fleet.model.add(sum(chosen) <= 1)
