"""What does a replica count by what it takes the largest part of? Its dominant resource, in GPUs.

    counts_w,n = max(weight_n · GPUs of w, max_r ⌈need_w,r · G / C_r⌉)        G = Σ_n weight_n · GPUs_n,  C_r = Σ_n capacity_n,r

over all resources r of machines but GPUs: one that takes a tenth of the fleet's memory counts as a tenth of its GPUs. The
dominant share of dominant resource fairness (Ghodsi et al. 2011), replica by replica, as Slurm's MAX_TRES has it: a team whose
replicas have different dominant resources holds the sum of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.worth import Weights
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot

#: What is compared: everything that machines have, each thing once. Power is no capacity of theirs.
COMPARED: tuple[int, ...] = tuple(i for i, row in enumerate(MACHINE) if i != GPUS and not row.part_of)


@dataclass(frozen=True)
class Dominant:
    """Of a workload the resource (a place in NODE) that a replica takes the largest part of, GPUs aside, and what it counts."""

    resource: int
    counts: int
    takes: int
    of: int  # what the fleet has


def dominants(snapshot: Snapshot, weights: Weights) -> dict[str, Dominant]:
    """By workload, of those that take any of it. Amounts as `Entitlements` counts."""
    nodes = snapshot.nodes.values()
    gpus = sum(WHOLE * weights.of(host.name) * host.capacity[GPUS] for host in nodes)
    fleet = {i: most for i in COMPARED if 0 < (most := sum(host.capacity[i] for host in nodes)) < ENDLESS}
    found = {}
    for name, request in snapshot.requests.items():
        ones = [Dominant(i, -(-need * gpus // fleet[i]), need, fleet[i]) for i, need in request.needs if i in fleet]
        if ones and gpus:
            found[name] = max(ones, key=lambda one: one.counts)
    return found
