"""Why do MIG instances find no position, and a part of a GPU no card, though so much is free?"""

from __future__ import annotations

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.mig import SLICES
from swarm_iac.model.placement import Reason
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.able import listed
from swarm_iac.solver.explain.counting import GPU_RULE
from swarm_iac.solver.explain.places.of_members import for_each_member
from swarm_iac.solver.packing.mig_instances import spots
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.units import GpuCount


def format_instances(request: WorkloadRequest, count: int = 1) -> str:
    """The MIG instances of so many replicas: `2 x H100/1g.10gb`; without a model where that is left aside."""
    return f"{request.gpus * count} x {f'{request.model}/' if request.model else ''}{request.profile}"


def no_position(capacity: FreeCapacity, request: WorkloadRequest, nodes: list[NodeCapacity], those: str) -> Reason:
    """How much of the emptiest cut card is free; where that would do by its sum, who lies where each position would be."""
    cards = [(host, card, has) for host in nodes if (cut := capacity.cuts.get(host.name)) for card, has in cut.fixed.items()]
    best = max(cards, key=lambda one: (-one[2].bit_count(), one[0].name, -one[1]), default=None)
    whole = max((capacity.free[host.name][GPUS] for host in nodes), default=0)
    size = request.share * SLICES // WHOLE
    if whole > 0:
        least = f"{those}at most {pluralize(whole, 'whole card is', 'whole cards are')} free on one"
    elif best is None:
        least = f"{those}no card that may be cut is free"
    else:
        host, card, has = best
        free = SLICES - has.bit_count()
        least = f"{those}the most that is free of a card is {free}/{SLICES} of its memory, on {host.name}"
        if free >= size:
            least += f", and {_positions(host, request)} free for it: {_lying(capacity, host.name, card)}"
    more = f" {for_each_member(capacity, request)}" if request.gang else ""
    path = f"workloads.{request.name}.{MACHINE[GPUS].key}"
    return Reason(rule=GPU_RULE, text=f"needs {format_instances(request)} on one node{more}; {least}", path=path)


def _positions(host: NodeCapacity, request: WorkloadRequest) -> str:
    """As in `none of its 2 positions is`."""
    count = len(spots(host.cards, request.profile))
    return "its one position is not" if count == 1 else f"none of its {count} positions is"


def _lying(capacity: FreeCapacity, node: str, card: int) -> str:
    """Whose instances lie on the card, and where."""
    found = sorted(
        (one, name)
        for (name, there), held in capacity.held.items()
        for ones in held
        for one in ones
        if there == node and one.index == card and one.profile
    )
    starts: dict[tuple[str, str], list[str]] = {}
    for one, name in found:
        starts.setdefault((name, one.profile), []).append(f"{one.start}/{SLICES}")
    texts = [f"{name} has {profile} at {listed(at)} of GPU {card}" for (name, profile), at in starts.items()]
    return ", ".join(texts)


def no_part(capacity: FreeCapacity, request: WorkloadRequest, nodes: list[NodeCapacity], those: str) -> Reason:
    """Of a part of a GPU: how much the emptiest card has left."""
    left = {b.name: max(WHOLE * (capacity.free[b.name][GPUS] > 0), *capacity.partial(b.name).values(), 0) for b in nodes}
    best = max(left, key=lambda name: (left[name], name), default="")
    least = f"the most that is free of one is {GpuCount(left[best])} on {best}" if left.get(best) else "none has any left"
    share = f"{GpuCount(request.share)} x {request.model}" if request.model else f"{GpuCount(request.share)} of a GPU"
    each = f" {for_each_member(capacity, request)}" if request.gang else ""
    path = f"workloads.{request.name}.{MACHINE[GPUS].key}"
    return Reason(rule=GPU_RULE, text=f"needs {share} on one card{each}; {those}{least}", path=path)
