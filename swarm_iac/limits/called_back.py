"""From which team is a replica called back, and for which?"""

from __future__ import annotations

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.pluralize import pluralize
from swarm_iac.units import GpuCount


def called_back(stack: Stack, before: Placement, after: Placement, one: Allocation, names: tuple[str, ...]) -> str:
    """From which team a replica is called back, and for which; where GPUs alone are shared, with those of both then and now.
    Empty where it is not called back.

    What ran on a node that is gone, lost or drained is held by nobody until it has another place.
    """
    workload = stack.workloads[one.workload]
    others = [stack.workloads[name] for name in names]
    by_gpus = stack.solve.share_by == "gpus"
    lent = stack.fair and stack.solve.reclaim and (bool(one.gpus) or not by_gpus)
    if not lent or any(PRIORITIES[other.priority] > PRIORITIES[workload.priority] for other in others):
        return ""
    line = stack.teams_of(workload.user)[::-1]
    held = before.model_copy(update={"allocations": tuple(each for each in before.going() if _stands(stack, each))})
    found: dict[str, str] = {}
    for name, other in zip(names, others, strict=True):
        for mine, team in zip(line, stack.teams_of(other.user)[::-1], strict=False):
            if mine != team:
                gains = f"for {name} of team {team}{_change(stack, held, after, team) if by_gpus else ''}"
                lost = f"called back from team {mine}{_change(stack, held, after, mine) if by_gpus else ''}"
                found[lost] = f"{found[lost]} and {gains}" if lost in found else gains
                break
    return " and ".join(f"{lost} {gains}" for lost, gains in found.items())


def _stands(stack: Stack, one: Allocation) -> bool:
    node = stack.nodes.get(one.node)
    return node is not None and node.state not in ("drain", "lost")


def _change(stack: Stack, before: Placement, after: Placement, team: str) -> str:
    return f" ({_gpus(stack, before, team)} → {pluralize(_gpus(stack, after, team), 'GPU')})"


def _gpus(stack: Stack, placement: Placement, team: str) -> GpuCount:
    known = (one for one in placement.going() if one.workload in stack.workloads)
    mine = (one for one in known if team in stack.teams_of(stack.workloads[one.workload].user))
    return GpuCount(sum(gpu.part for one in mine for gpu in one.gpus))
