"""How many replicas of each workload could be placed if it had the fleet to itself? A bound on every placement."""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.model.placement import Allocation
from swarm_iac.solver.backend.time_limit import never
from swarm_iac.solver.explain.counting import reach
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import domain_suffices, may_stay, open_to
from swarm_iac.solver.snapshot.tasks import same_size


def possible(snapshot: Snapshot, stop: Callable[[], bool] = never) -> dict[str, int]:
    """For each workload the most replicas that could be placed if it had the fleet to itself; after `stop` all."""
    empty = FreeCapacity(snapshot)
    known: dict[tuple[object, ...], int] = {}
    result = {}
    for name, request in snapshot.requests.items():
        if stop():
            result[name] = request.members
            continue
        home = snapshot.home(name)
        wide = sum(_stays_wide(snapshot, request, one) for one in snapshot.running.get(name, ()) if request.local)
        if (home and request.even) or any(
            node in snapshot.nodes and not open_to(request, snapshot.nodes[node]) for node in home
        ):
            count = reach(empty, request, home=home)
        else:
            key = (
                empty.by_ceiling(request), request.members, request.models, request.need, request.share, request.asked,
                request.groups, request.power, request.single, request.linked, request.between,
            )  # fmt: skip
            if key not in known:
                known[key] = reach(empty, request)
            count = known[key]
        count = min(request.members, count + wide)
        result[name] = 0 if request.gang and count < request.members else count
    return result


def _stays_wide(snapshot: Snapshot, request: WorkloadRequest, one: Allocation) -> bool:
    """May it stay as it is where it runs, although no NUMA node or link group there is large enough for one?"""
    host = snapshot.nodes.get(one.node)
    if host is None or domain_suffices(request, host) or not may_stay(request, host):
        return False
    return one.user in (None, request.user) and same_size(request, one)
