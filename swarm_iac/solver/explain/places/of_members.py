"""How many members of a gang have a place, in words?"""

from __future__ import annotations

from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.counting import reach
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest


def members_fit(capacity: FreeCapacity, request: WorkloadRequest) -> str:
    """How many have one, as in `3 of 4 members fit`."""
    every = pluralize(request.members, "member")
    return pluralize(reach(capacity, request), f"of {every} fits", f"of {every} fit")


def for_each_member(capacity: FreeCapacity, request: WorkloadRequest) -> str:
    """The same after what each of them needs, as in `for each of 4 members; 3 fit`."""
    return f"for each of {pluralize(request.members, 'member')}; {pluralize(reach(capacity, request), 'fits', 'fit')}"
