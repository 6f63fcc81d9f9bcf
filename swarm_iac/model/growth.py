"""What runs keeps its old size while there is no capacity for the new one: which size is that, and how does it read?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.base import with_value
from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.mig import MODELS, part_of
from swarm_iac.model.hardware import Gpus
from swarm_iac.model.placement import Allocation, Growing, Placement
from swarm_iac.model.resources.row import Noun
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from swarm_iac.units import GpuCount

_MEMBERS = Noun(int, "members")


def at_size(request: Workload, one: Allocation, count: int) -> Workload:
    """The request with no more of anything than what runs holds, so that nobody has more than the stack file says.

    `one`: any of the `count` replicas that run. More replicas than that are no matter of size; more members of a gang are.
    """
    for row in RESOURCES:
        if (held := row.held(one)) < row.demand(request):
            cut = row.pieces == "gpus" and (request.each.gpus.profile or any(each.profile for each in one.gpus))
            request = _with_pieces(request, one) if cut else row.lowered(request, held)
    return request if request.gang is None or request.gang <= count else request.model_copy(update={"gang": count})


def _with_pieces(request: Workload, one: Allocation) -> Workload:
    """The request for GPUs, parts or MIG instances as they are held: of instances the amount does not say which.

    Instances that no model has that it asks for are no size to keep.
    """
    first = next(iter(one.gpus), None)
    if first is None:
        return with_value(request, "each.gpus", Gpus(count=0))
    model = request.each.gpus.model
    if first.profile:
        asked = model.split("|") if model else sorted(MODELS)
        model = "|".join(each for each in asked if part_of(each, first.profile) == first.part)
        if not model:
            return request
    share = GpuCount(first.part if first.shared else WHOLE)
    update = {"count": len(one.gpus), "model": model, "profile": first.profile, "share": share}
    return with_value(request, "each.gpus", request.each.gpus.model_copy(update=update))


def held(stack: Stack, placement: Placement) -> Stack:
    """The stack as it holds now: what waits to grow asks for the size that it has."""
    if not placement.growing:
        return stack
    first, count = _running(placement)
    names = [one.workload for one in placement.growing if one.workload in first and one.workload in stack.workloads]
    smaller = {name: at_size(stack.workloads[name], first[name], count[name]) for name in names}
    return stack.model_copy(update={"workloads": {**stack.workloads, **smaller}})


def with_sizes(stack: Stack, placement: Placement) -> Placement:
    """The placement, with what each that waits to grow keeps and wants, in words. `stack`: as it is written."""
    first, count = _running(placement)
    growing = tuple(
        _with_sizes(one, stack.workloads[one.workload], first[one.workload], count[one.workload])
        for one in placement.growing
        if one.workload in first
    )
    return placement.model_copy(update={"growing": growing}) if placement.growing else placement


def _running(placement: Placement) -> tuple[dict[str, Allocation], Counter[str]]:
    """The first replica of each workload that runs, and how many there are, with those that finished."""
    first = {one.workload: one for one in reversed(placement.allocations) if not one.ended}
    return first, Counter(one.workload for one in placement.allocations)


def _with_sizes(growing: Growing, request: Workload, one: Allocation, count: int) -> Growing:
    sizes = [(_MEMBERS, count, count if request.gang is None else request.gang)]
    sizes += [(row, row.held(one), row.demand(request)) for row in RESOURCES]
    pairs = [(noun.amount(was), noun.amount(now)) for noun, was, now in sizes if was < now]
    keeps, wants = (", ".join(pair) for pair in zip(*pairs, strict=True)) if pairs else ("", "")
    return growing.model_copy(update={"keeps": keeps, "wants": wants})
