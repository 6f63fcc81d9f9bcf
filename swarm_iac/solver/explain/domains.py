"""How many more does a NUMA node hold of those that need one, or a group of linked GPUs?"""

from __future__ import annotations

from dataclasses import replace

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import linked_gpus_suffice, numa_node_suffices

#: Of those that have to be on one NUMA node, and of those that have to be on linked GPUs.
NUMA_RULE, LINK_RULE = "single_fits_numa_node", "replicas_fit_link_groups"
DOMAINS = (NUMA_RULE, LINK_RULE)
#: What keeps a node out that never suits, by the rule here that says nothing of it then.
OF_DOMAINS = {
    NUMA_RULE: {numa_node_suffices.__name__},
    LINK_RULE: {numa_node_suffices.__name__, linked_gpus_suffice.__name__},
}


#: A workload as it is counted where a node has too little of something in all, by what it asks for then.
Smaller = dict[tuple[tuple[int, ...], int, bool], WorkloadRequest]


def by_domain(
    capacity: FreeCapacity,
    request: WorkloadRequest,
    host: NodeCapacity,
    fit: int,
    rule: str,
    smaller: Smaller | None = None,
) -> int:
    """How many of `fit` replicas more one rule of DOMAINS allows; any number where the node never suits.

    Who asks for both is counted without its links by the rule on NUMA nodes, and with both by the rule on links.

    What the node has too little of in all is left out, so a reason says that something is split only where that is wrong.
    `smaller` keeps what is asked for then, for the next node.
    """
    free = capacity.free[host.name]
    need = tuple(0 if i in (GPUS, CORES, MEMORY) and each > free[i] else each for i, each in enumerate(request.need))
    share = WHOLE if request.shared and capacity.shares(request, host.name, 1) < 1 else request.share
    asked = request.single if rule == NUMA_RULE else request.linked
    if not asked or not numa_node_suffices(request, host) or (rule == LINK_RULE and not linked_gpus_suffice(request, host)):
        return ENDLESS
    linked = request.linked and rule == LINK_RULE
    if need == request.need and share == request.share and linked == request.linked:
        return capacity.by_domain(request, host, fit)
    smaller, key = {} if smaller is None else smaller, (need, share, linked)
    if key not in smaller:
        smaller[key] = replace(request, need=need, share=share, linked=linked)
    return capacity.by_domain(smaller[key], host, fit)
