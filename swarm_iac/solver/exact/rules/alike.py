"""Which of several empty nodes that are alike holds most? The first: else a placement has as many equals as they have orders.

A placement and the same with two such nodes exchanged are worth the same, and a search would have to refuse each of them.
A hint is put in that order first (`FleetModel.in_order`).
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.snapshot.layout import GPUS, VCPUS


def first_of_alike_holds_most(fleet: FleetModel) -> None:
    """For nodes n, m that follow each other among those alike:  Σ_w r_w · x[w,n] ≥ Σ_w r_w · x[w,m]

    r: GPUs, in thousandths where parts of them are asked for; vCPUs where the nodes have no GPU.
    """
    groups: dict[Hashable, list[str]] = {}
    for node in sorted(fleet.by_node):
        if not _taken(fleet, node):
            groups.setdefault(_kind(fleet, node), []).append(node)
    for nodes in groups.values():
        names = fleet.by_node[nodes[0]]
        size = {name: size for name in names if (size := _size(fleet, name, nodes[0]))}
        if len(nodes) < 2 or not size:
            continue
        fleet.alike.append((nodes, size))
        for more, less in pairwise(nodes):
            holds = [sum(amount * fleet.x[name, node] for name, amount in size.items()) for node in (more, less)]
            fleet.model.add(holds[0] >= holds[1])


def _taken(fleet: FleetModel, node: str) -> bool:
    """Is anything placed there, or may anything stay, or did it leave cards that are cut?"""
    base = fleet.task.base
    return bool(base.load[node] or base.cuts.get(node) or any(fleet.task.home(name, node) for name in fleet.by_node[node]))


def _kind(fleet: FleetModel, node: str) -> Hashable:
    """Equal for nodes that every rule and every goal treats alike."""
    host = fleet.node(node)
    free, hardware = tuple(fleet.task.base.free[node]), fleet.task.snapshot.stack.hardware_of(node).model_dump_json()
    tops = tuple((name, fleet.tops[name, node]) for name in fleet.by_node[node])
    return (host.rack, host.site, tuple(sorted(host.labels.items())), host.tainted, host.power, hardware, free, tops)


def _size(fleet: FleetModel, name: str, node: str) -> int:
    request = fleet.request(name)
    if fleet.node(node).capacity[GPUS]:
        return request.gpus * (request.share if fleet.task.snapshot.milli else 1)
    return request.need[VCPUS]
