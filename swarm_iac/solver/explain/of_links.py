"""Why are no linked GPUs found for a replica, though so many are free? And which replicas run as they should not?"""

from __future__ import annotations

from swarm_iac.model.placement import Placement, Reason
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.able import able
from swarm_iac.solver.explain.counting import EVERY
from swarm_iac.solver.explain.domains import LINK_RULE, by_domain
from swarm_iac.solver.explain.places.of_members import for_each_member, members_fit
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.domain_seats import Parts, seated
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import domain_sizes


def reason(capacity: FreeCapacity, request: WorkloadRequest, rule: str) -> Reason:
    """What is free, or there, on one node and in its groups of linked GPUs: where the most of it is in one."""
    path, on = f"workloads.{request.name}.place.links", " on one NUMA node" if request.single else ""
    need = f"needs {request.gpus} GPUs that NVLink joins{on}"
    if rule != LINK_RULE:
        nodes = able(capacity, request, rule, EVERY - {rule})[0]
        largest = max((size for host in nodes for size in domain_sizes(request, host)), default=0)
        text = f"; the largest group has {largest}{on}" if largest else "; `links` of their hardware declares no NVLink"
        text = text if largest < request.gpus else ""
        return Reason(rule=rule, text=f"{need}, and the nodes that would do have none{text}", path=path)
    nodes = able(capacity, request, rule, EVERY)[0]
    if request.gang and any(by_domain(capacity, request, host, 1, rule) > 0 for host in nodes):
        text = f"{need} {for_each_member(capacity, request)}"
        return Reason(rule=rule, text=text, path=path)
    found = f"; {members_fit(capacity, request)}" if request.gang else ""
    best = max(nodes, key=lambda host: (max(free_of(capacity, host)[1], default=0), host.name), default=None)
    if best is None:
        return Reason(rule=rule, text=f"{need}, and no node has such free{found}", path=path)
    count, groups = free_of(capacity, best)
    most = max(groups, default=0)
    if most >= request.gpus:
        text = f"{best.name} has free all that it needs, but not on linked GPUs{on}"
    else:
        linked = pluralize(most, "of them is linked", "of them are linked")
        has = f"{most} in each group of linked ones" if {*groups} == {most} else f"at most {linked}"
        text = f"{pluralize(count, 'GPU is', 'GPUs are')} free on {best.name}, but {has}"
    return Reason(rule=rule, text=f"{need}; {text}{found}", path=path)


def free_of(capacity: FreeCapacity, host: NodeCapacity) -> tuple[int, list[int]]:
    """Whole GPUs that are free on a node, and in each group of linked ones, as all lies there."""
    free = Parts(capacity.snapshot, capacity.snapshot.stack.hardware_of(host.name), seated(capacity, host.name))
    return sum(map(len, free.cells)), list(map(len, free.links))


def splits(snapshot: Snapshot, placement: Placement, workload: str) -> tuple[Reason, ...]:
    """Which of its replicas lie on several NUMA nodes of their node."""
    found = []
    for a in placement.going():
        known = a.workload == workload and a.node in snapshot.nodes
        if known and (parts := snapshot.stack.hardware_of(a.node).apart(a.cards, a.cpus)):
            where = " and ".join(map(str, parts))
            ran = ": it ran so before `numa: single`, and is not stopped for it"
            ran = ran if snapshot.stack.workloads[workload].place.numa else ""
            found.append(
                Reason(rule="split", text=f"{a.name} is split over NUMA nodes {where} of {a.node}{ran}", path=f"nodes.{a.node}")
            )
    return tuple(found)


def unlinked(snapshot: Snapshot, placement: Placement, workload: str) -> tuple[Reason, ...]:
    """Which of its replicas run on GPUs that are not all linked, where they are to be."""
    ones = [a for a in placement.going() if a.workload == workload and a.node in snapshot.nodes]
    return tuple(
        Reason(
            rule="unlinked",
            text=f"{a.name} has GPUs of {a.node} that NVLink does not join: it ran so before, and is not stopped for it",
            path=f"nodes.{a.node}",
        )
        for a in ones
        if snapshot.requests[workload].linked and not snapshot.stack.hardware_of(a.node).linked(a.cards)
    )
