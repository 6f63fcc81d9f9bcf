"""Does everything together stay under the ceilings of users and of the cluster?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.snapshot.layout import COUNTED


def ceilings_hold(fleet: FleetModel) -> None:
    """For every user u, for the cluster, and for every resource r:  Σ_{w of u, n} r_w · x[w,n] ≤ limit_u.r

    Of a user who has an exception, limit_u is the exception's.
    """
    for names, left in _ceilings(fleet):
        for i in range(len(COUNTED)):
            fleet.at_most([(var, fleet.request(name).usage[i]) for name in names for var in fleet.of(name)], left[i])


def _ceilings(fleet: FleetModel) -> Iterator[tuple[Sequence[str], list[int]]]:
    """Workloads that share a ceiling, and what is left of it."""
    names = list(fleet.by_request)
    for user in sorted({fleet.request(name).user for name in names}):
        yield [name for name in names if fleet.request(name).user == user], fleet.task.base.users[user]
    yield names, fleet.task.base.cluster
