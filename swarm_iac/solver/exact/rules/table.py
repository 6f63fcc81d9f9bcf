"""Which rules does every placement keep, and in which order are they added? `fit` holds those on single pairs."""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.exact.rules import ceilings, gpu_parts, node, numa, rack, workload

#: Added to every model, in this order.
RULES: tuple[Callable[[Board], None], ...] = (
    workload.replicas_are_not_exceeded,
    workload.gang_is_whole_or_absent,
    workload.spread_keeps_apart,
    workload.within_keeps_together,
    node.gpus_fit_node,
    gpu_parts.parts_fit_cards,
    node.vcpus_fit_node,
    node.cores_fit_node,
    node.memory_fits_node,
    numa.single_fits_numa_node,
    node.storage_fits_node,
    node.egress_fits_nic,
    node.ingress_fits_nic,
    node.node_stays_under_limits,
    rack.egress_fits_uplink,
    rack.ingress_fits_uplink,
    rack.power_stays_under_rack_budget,
    ceilings.user_stays_under_limits,
    ceilings.cluster_stays_under_limits,
)
