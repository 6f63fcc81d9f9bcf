"""Which workload that is new somewhere runs only with one that moves there?"""

from __future__ import annotations

from swarm_iac.limits.index import PlacementIndex
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack


def joins(stack: Stack, before: Placement, after: Placement, one: Allocation) -> str:
    """The first workload with a new replica near `one`, a replica of `after` that moved, to which `only_with` binds it.

    Empty where none is. New is what did not run on its node before.
    """
    bound = [
        (name, kind)
        for name, workload in stack.workloads.items()
        for kind, others in workload.place.only_with.items()
        if one.workload in others
    ]
    if not bound:
        return ""
    ran, placed = {each.name: each.node for each in before.going()}, PlacementIndex(stack, after, None, frozenset())

    def comes(name: str, kind: str) -> bool:
        new = [each for each in placed.going.get(name, ()) if ran.get(each.name) != each.node]
        return any(placed.place(each.node, kind) == placed.place(one.node, kind) for each in new)

    return next((name for name, kind in bound if comes(name, kind)), "")
