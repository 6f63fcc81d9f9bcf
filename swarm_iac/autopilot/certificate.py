"""How is it known that every guarantee stays placed with no move of others? Sums that anybody can add up again.

Revoking is taking live replicas away. What is left is the placement of the lock, unchanged: its digest says which. So there is
nothing to search for, and the certificate needs no solver: only that both fit at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable

from swarm_iac.live.layer import Carried, Certificate
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.locks.digests import digest_placement

#: What machines have, each counted by itself.
_OF_MACHINES = tuple(row for row in RESOURCES if row.capacity is not None)


def certify(stack: Stack, lock: Placement, live: Iterable[Allocation]) -> Certificate:
    """The certificate of these live replicas beside the lock."""
    by_node: dict[str, list[Allocation]] = {}
    for one in live:
        by_node.setdefault(one.node, []).append(one)
    held: dict[str, list[Allocation]] = {node: [] for node in by_node}
    for one in lock.allocations:
        if one.node in held:
            held[one.node].append(one)
    nodes = {node: list(_carried(stack, node, held[node], ones)) for node, ones in sorted(by_node.items())}
    pending = sorted(one.workload for one in lock.unplaced)
    return Certificate(lock=digest_placement(lock), nodes=nodes, pending=pending)


def _carried(stack: Stack, node: str, held: list[Allocation], live: list[Allocation]) -> Iterable[Carried]:
    hardware = stack.hardware_of(node)
    for row in _OF_MACHINES:
        assert row.capacity is not None
        taken = sum(map(row.held, live))
        if taken:
            has = row.capacity.amount(hardware)
            yield Carried(resource=row.name, has=has, guaranteed=sum(map(row.held, held)), live=taken)


def broken(stack: Stack, lock: Placement, live: Iterable[Allocation], certificate: Certificate) -> str:
    """Why the certificate does not hold; empty where it does. It is made again, and every sum is compared."""
    ones = tuple(live)
    if certificate != certify(stack, lock, ones):
        return "it is of another placement"
    for node, rows in certificate.nodes.items():
        for row in rows:
            if row.guaranteed + row.live > row.has:
                return f"{node}: {row.guaranteed} + {row.live} of {row.resource} are more than {row.has}"
    return ""
