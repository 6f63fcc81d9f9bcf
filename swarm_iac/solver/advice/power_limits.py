"""How far would power limits of a rack's GPUs have to fall for one job more?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.edit import Edit
from swarm_iac.solver.advice.offer import Relaxation
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.units import Watts, span

#: No limit is lowered by more than this part of it: what a card can do below that, nobody has declared. [thousandths]
MOST = 250


def lower_limits(capacity: FreeCapacity, request: WorkloadRequest, rack: str, short: int, more: int) -> Iterator[Relaxation]:
    """A lower end for the range of each tuning in the rack, or a range in place of one value, so that `short` watts are left.

    GPUs that draw what their workload says, and those of `more` new replicas, give nothing.
    """
    snapshot = capacity.snapshot
    inside = [node for node in snapshot.nodes.values() if node.rack == rack and node.power and node.state != "lost"]
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
