"""How is it told that a rack, or the power of a node, has too little left?"""

from __future__ import annotations

from swarm_iac.model.placement import Reason
from swarm_iac.solver.explain.able import able
from swarm_iac.solver.explain.places.of_members import for_each_member
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import Budget
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest
from swarm_iac.units import Watts


def rack(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget, core: frozenset[str]) -> Reason:
    """Of what a rack has: where the least is missing, of the racks with a node that would do."""
    i, noun, key = budget.place, budget.noun, budget.key
    nodes, those = able(capacity, request, budget.rule, core)
    every = list(capacity.snapshot.nodes.values())
    bounded = [b for b in every if _bounded(capacity, request, b, i)] or [b for b in every if b.rack in capacity.racks]
    # Where the rule alone keeps it from none of the nodes, it does so with others.
    among = [b for b in nodes if b in bounded] or bounded

    def missing(host: NodeCapacity) -> tuple[int, int, str]:
        need = host.of_rack(request)[i]
        return need - capacity.racks[host.rack or ""][i], -need, host.name

    best = min(among, key=missing)
    if missing(best) == missing(min(bounded, key=missing)):
        those = ""
    name, need = str(best.rack), best.of_rack(request)[i]
    left = max(0, capacity.racks[name][i])
    # Capacity for one member is not enough for all of them.
    each = f" for each of {request.members} members" if request.gang and need <= left else ""
    text = (
        f"needs {noun.text(need)} more of its rack's {key}{each}; {those}the most that is left is {noun.text(left)} in {name}"
    )
    return Reason(rule=budget.shown_as, text=text, path=f"racks.{name}.{key}")


def _bounded(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, i: int) -> bool:
    """Has the node a rack that bounds what a replica takes of it there?"""
    return host.rack in capacity.racks and capacity.racks[host.rack][i] < ENDLESS // 2 and host.of_rack(request)[i] > 0


def supply(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget, core: frozenset[str]) -> Reason:
    """Of a power budget of nodes: where the least is missing."""
    nodes, those = able(capacity, request, budget.rule, core)
    every = capacity.snapshot.nodes.values()  # where the rule alone keeps it from none, it does so with others
    hosts = [b for b in nodes if b.power_of(request)] or [b for b in every if b.power_of(request)]
    free = {b.name: capacity.free[b.name][budget.place] for b in hosts}
    best = min(free, key=lambda name: (capacity.snapshot.nodes[name].power_of(request) - free[name], name))
    need, left = capacity.snapshot.nodes[best].power_of(request), max(0, free[best])
    each = f" {for_each_member(capacity, request)}" if request.gang and need <= left else ""
    text = f"needs {Watts(need)} more of a node's power{each}; {those}the most that is left is {Watts(left)} on {best}"
    return Reason(rule=budget.shown_as, text=text, path=f"hardware.{capacity.snapshot.stack.nodes[best].hardware}.power")
