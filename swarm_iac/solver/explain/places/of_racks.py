"""How is it told that a rack, or the power of a node, has too little left?"""

from __future__ import annotations

from swarm_iac.model.placement import Reason
from swarm_iac.solver.explain.able import able
from swarm_iac.solver.explain.counting import EVERY, on_node, reach
from swarm_iac.solver.explain.places.of_members import for_each_member
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import RACK, Budget
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
    # A rack whose nodes have no capacity for it anyway says nothing: more of its power or uplink would not help.
    open_ = {b.name for b in among if on_node(capacity, request, b, EVERY, 1) > 0}
    among = [b for b in among if b.name in open_] or among

    def missing(host: NodeCapacity) -> tuple[int, int, str]:
        need = host.of_rack(request)[i]
        return need - capacity.racks[host.rack or ""][i], -need, host.name

    best = min(among, key=missing)
    if missing(best) == missing(min(bounded, key=missing)):
        those = ""
    name, need = str(best.rack), best.of_rack(request)[i]
    left = max(0, capacity.racks[name][i])
    if request.gang and need <= left and (short := _short(capacity, request, budget, bounded)):
        name, fit = short
        need = next(b for b in bounded if b.rack == name).of_rack(request)[i]
        rest = f"what is left is {noun.text(max(0, capacity.racks[name][i]))} in {name}, enough for {fit}"
        text = f"needs {noun.text(need)} more of its rack's {key} for each of {request.members} members; {rest}"
        return Reason(rule=budget.shown_as, text=text, path=f"racks.{name}.{key}")
    # Capacity for one member is not enough for all of them.
    each = f" for each of {request.members} members" if request.gang and need <= left else ""
    text = (
        f"needs {noun.text(need)} more of its rack's {key}{each}; {those}the most that is left is {noun.text(left)} in {name}"
    )
    return Reason(rule=budget.shown_as, text=text, path=f"racks.{name}.{key}")


def _short(
    capacity: FreeCapacity, request: WorkloadRequest, budget: Budget, bounded: list[NodeCapacity]
) -> tuple[str, int] | None:
    """The rack in which the rule leaves out most members of a gang, and how many it takes; None where it leaves out none.

    Of a gang that is to be in one rack it is the one that takes most.
    """
    racks: dict[str, set[str]] = {}
    for host in bounded:
        racks.setdefault(str(host.rack), set()).add(host.name)
    fit = {name: reach(capacity, request, EVERY, among=nodes) for name, nodes in racks.items()}
    without = EVERY - {one.rule for one in RACK if one.key == budget.key}  # an uplink goes both ways
    out = {name: reach(capacity, request, without, among=racks[name]) - fit[name] for name in racks}
    one = any(group.of.together and group.level == "rack" for group in request.groups)
    short = [name for name in out if out[name] > 0]
    name = max(short, key=lambda name: (fit[name] if one else out[name], -fit[name], name), default="")
    return (name, fit[name]) if name else None


def _bounded(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity, i: int) -> bool:
    """Has the node a rack that bounds what a replica takes of it there?"""
    return host.rack in capacity.racks and capacity.racks[host.rack][i] < ENDLESS // 2 and host.of_rack(request)[i] > 0


def supply(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget, core: frozenset[str]) -> Reason:
    """Of a power budget of nodes: where the least is missing."""
    nodes, those = able(capacity, request, budget.rule, core)
    every = capacity.snapshot.nodes.values()  # where the rule alone keeps it from none, it does so with others
    hosts = [b for b in nodes if b.power_of(request)] or [b for b in every if b.power_of(request)]
    hosts = [b for b in hosts if on_node(capacity, request, b, EVERY - {budget.rule}, 1) > 0] or hosts  # as of racks
    free = {b.name: capacity.free[b.name][budget.place] for b in hosts}
    best = min(free, key=lambda name: (capacity.snapshot.nodes[name].power_of(request) - free[name], name))
    need, left = capacity.snapshot.nodes[best].power_of(request), max(0, free[best])
    each = f" {for_each_member(capacity, request)}" if request.gang and need <= left else ""
    text = f"needs {Watts(need)} more of a node's power{each}; {those}the most that is left is {Watts(left)} on {best}"
    return Reason(rule=budget.shown_as, text=text, path=f"hardware.{capacity.snapshot.stack.nodes[best].hardware}.power")
