"""Does everything together stay under the ceilings of users, of teams and of the cluster?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarm_iac.solver.exact.fleet_model import FleetModel, Terms
from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED
from swarm_iac.solver.snapshot.snapshot import CLUSTER


def ceilings_hold(fleet: FleetModel) -> None:
    """For every scope s (a user, a team with all teams inside it, the cluster) and every resource r:

    Σ_{w in s, n} r_w · x[w,n] ≤ limit_s.r

    Of a user or team that has an exception, limit_s is the exception's.
    """
    for names, left in _ceilings(fleet):
        for i in range(len(COUNTED)):
            uses = {name: fleet.request(name).usage[i] for name in names}
            fleet.at_most([(var, use * count) for name, use in uses.items() for var, count in fleet.total(name)], left[i])


def models_stay_under_limits(fleet: FleetModel) -> None:
    """For every scope s and GPU model m that it has a limit on:

    Σ_{w in s, n with model m} gpus_w · x[w,n] ≤ limit_s.gpus_by_model.m
    """
    terms: dict[str, Terms] = {}
    for (name, node), var in fleet.x.items():
        request = fleet.request(name)
        for _, scope in request.on_model(fleet.node(node).model) if request.models else ():
            terms.setdefault(scope, []).append((var, request.usage[ALL_GPUS]))
    for scope, found in sorted(terms.items()):
        fleet.at_most(found, fleet.task.base.scopes[scope][ALL_GPUS])


def _ceilings(fleet: FleetModel) -> Iterator[tuple[Sequence[str], list[int]]]:
    """Workloads that share a ceiling, and what is left of it."""
    found: dict[str, list[str]] = {}
    for name in fleet.by_request:
        for scope in fleet.request(name).chain:
            found.setdefault(scope, []).append(name)
    for scope in sorted(found, key=lambda scope: (scope == CLUSTER, scope)):
        yield found[scope], fleet.task.base.scopes[scope]
