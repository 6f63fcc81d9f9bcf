"""How far would power limits of GPUs have to fall, or power budgets of nodes to rise, for one job more?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swarm_iac.model.edit import Edit
from swarm_iac.solver.advice.first_that_fits import smallest
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.explain.counting import reach
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import SUPPLY
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.units import Watts, span

#: No limit is lowered by more than this part of it: what a card can do below that, nobody has declared. [thousandths]
MOST = 250


def node_budgets(capacity: FreeCapacity, request: WorkloadRequest, goal: int) -> Iterator[Relaxation]:
    """For each hardware a power budget with which `goal` more replicas fit, or one more; and limits of GPUs in its place."""
    stack, trial = capacity.snapshot.stack, capacity.copy()
    for shape, hardware in stack.hardware.items():
        hosts = [host for host in capacity.snapshot.nodes.values() if stack.nodes[host.name].hardware == shape]
        if hardware.power is None or not any(host.power_of(request) for host in hosts):
            continue
        lacks = {(host.power_of(request), capacity.free[host.name][SUPPLY]) for host in hosts if host.power_of(request)}
        short = sorted({more for need, left in lacks for k in range(1, min(goal, 16) + 1) if (more := k * need - left) > 0})

        def fits(more: int, hosts: list[NodeCapacity] = hosts) -> bool:
            for host in hosts:
                trial.free[host.name][SUPPLY] = capacity.free[host.name][SUPPLY] + more
            enough = reach(trial, request) >= goal
            for host in hosts:
                trial.free[host.name][SUPPLY] = capacity.free[host.name][SUPPLY]
            return enough

        for value in dict.fromkeys((smallest(short, fits), short[0] if short else None)):
            if value is not None:
                edit = Edit(path=f"hardware.{shape}.power", value=str(Watts(int(hardware.power) + value)))
                yield Relaxation("limit", edit, 1000 * value // int(hardware.power), fits(value))
        for host in sorted(hosts, key=lambda host: (host.power_of(request) - capacity.free[host.name][SUPPLY], host.name))[:1]:
            if (missing := host.power_of(request) - capacity.free[host.name][SUPPLY]) > 0:
                yield from lower_limits(capacity, request, [host], missing, 1)


def lower_limits(
    capacity: FreeCapacity, request: WorkloadRequest, among: Iterable[NodeCapacity], short: int, more: int
) -> Iterator[Relaxation]:
    """A lower end for the range of each tuning of these nodes, or a range in place of one value: `short` watts are left then.

    GPUs that draw what their workload says, and those of `more` new replicas, give nothing.
    """
    snapshot = capacity.snapshot
    inside = [node for node in among if node.power and node.state != "lost"]
    for name in sorted({tuning for node in inside if (tuning := snapshot.stack.nodes[node.name].tuning)}):
        nodes = [node for node in inside if snapshot.stack.nodes[node.name].tuning == name]
        gpus = sum(snapshot.stack.hardware_of(node.name).gpus.count for node in nodes)
        for other, counts in capacity.counts.items():
            own = snapshot.requests[other]
            gpus -= sum(own.gpus * counts[node.name] for node in nodes if own.power is not None and own.power > node.power)
        lent = gpus - request.gpus * more
        written = snapshot.stack.tuning[name].gpu_power
        if lent <= 0 or written is None:
            continue
        lower = -(-short // lent)
        if 1000 * lower <= MOST * int(written):
            edit = Edit(path=f"tuning.{name}.gpu_power", value=span(Watts(int(written) - lower), written.most))
            yield Relaxation("node", edit, 1000 * lower // int(written), False)
