"""Does a certificate say the truth? Checked with sums alone: no solver, no `limits`, nothing of the autopilot."""

from __future__ import annotations

from collections.abc import Iterable

from swarm_iac.live.layer import Certificate
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.locks.digests import digest_placement


def check(stack: Stack, lock: Placement, live: Iterable[Allocation], certificate: Certificate | None) -> None:
    """Raises AssertionError where a guarantee could not be placed with no move once the live replicas are gone."""
    ones = list(live)
    if certificate is None:
        assert not ones
        return
    assert certificate.lock == digest_placement(lock), "it is of another lock"
    assert certificate.nodes.keys() == {one.node for one in ones}
    names = {one.name for one in lock.allocations}
    for one in ones:
        workload = stack.workloads[one.workload]
        assert one.name not in names, "a guaranteed replica is not live"
        assert workload.kind == "serve" and workload.gang is None, "what would lose its work is not live"
        assert one.index < workload.replicas.most
        assert stack.nodes[one.node].state == "ready"
    for name, workload in stack.workloads.items():
        count = sum(one.workload == name for one in (*lock.allocations, *ones))
        assert count <= max(workload.replicas.most, workload.members), f"{name} has more than its range"
    for node in certificate.nodes:
        here = [one for one in (*lock.allocations, *ones) if one.node == node]
        hardware = stack.hardware_of(node)
        assert sum(int(one.vcpus) for one in here) <= int(hardware.vcpus)
        assert sum(int(one.memory) for one in here) <= int(hardware.memory)
        cards: dict[int, int] = {}
        for one in here:
            for device in one.gpus:
                cards[device.index] = cards.get(device.index, 0) + device.part
        assert all(part <= 1000 and card < hardware.gpus.count for card, part in cards.items()), (
            f"{node}: a card has two owners"
        )
        said = {row.resource: row for row in certificate.nodes[node]}
        assert all(row.guaranteed + row.live <= row.has for row in said.values())
        gpus = said.get("gpus")
        assert (gpus.live if gpus else 0) == sum(one.gpu_milli for one in ones if one.node == node)
