"""Does each rack carry what stands in it?

Traffic that stays inside a rack is counted too, because nobody declares who talks to whom: conservative.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import FleetModel, Terms
from swarm_iac.solver.snapshot.layout import Budget


def _inside(fleet: FleetModel) -> dict[str, list[str]]:
    racks: dict[str, list[str]] = {}
    for node in fleet.by_node:
        rack = fleet.node(node).rack
        if rack in fleet.task.snapshot.racks:
            racks.setdefault(rack, []).append(node)
    return racks


def rack_budget_holds(fleet: FleetModel, budget: Budget) -> None:
    """For every rack r:  Σ_{w, n∈r} use_w,n · x[w,n] ≤ left_r   [bit/s or W]

    What goes through the uplink: use_w,n = egress_w (or ingress_w), left_r = uplink_r.
    Power: use_w,n = gpus_w · max(0, cap_w − cap_n), left_r = power_r − Σ_{n∈r} gpus_n · cap_n; cap_n is the node's gpu_power
    (of a range the lower end) over all its GPUs, used or not, cap_w the workload's own, and unknown caps count 0.
    """
    i = budget.place
    for rack, nodes in _inside(fleet).items():
        terms: Terms = [(fleet.x[w, n], fleet.node(n).of_rack(fleet.request(w))[i]) for n in nodes for w in fleet.by_node[n]]
        fleet.at_most(terms, fleet.task.base.racks[rack][i])
