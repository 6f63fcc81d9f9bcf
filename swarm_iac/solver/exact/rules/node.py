"""Does what is placed on a node fit it?

Written with open[n] on the right-hand side where the node is still empty: the same integers, a tighter relaxation.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.snapshot.layout import SUPPLY, Budget


def node_budget_holds(fleet: FleetModel, budget: Budget) -> None:
    """For every node n:  Σ_w r_w · x[w,n] ≤ r_n,  r of its machine or under limits.node   [the unit of r]

    gpus_w is 0 for parts of a GPU, which `parts_fit_cards` counts; cores_w is ⌊vcpus_w⌋ where w is pinned, else 0; a limit on
    bandwidth holds each way.

    Power: r_w,n = gpus_w · max(0, cap_w − cap_n), r_n = power_n − gpus_n · cap_n; cap_n is the node's gpu_power (of a range
    the lower end) over all its GPUs, used or not, cap_w the workload's own, and unknown caps count 0.   [W]
    """
    for node, names in fleet.by_node.items():
        host = fleet.node(node)
        needs = [fleet.request(name).need[budget.place] for name in names]
        if budget.place == SUPPLY:
            needs = [host.power_of(fleet.request(name)) for name in names]
        terms = [(fleet.x[name, node], need) for name, need in zip(names, needs, strict=True)]
        factor = None if fleet.task.base.load[node] else fleet.open[node]
        fleet.at_most(terms, fleet.task.base.free[node][budget.place], factor)
