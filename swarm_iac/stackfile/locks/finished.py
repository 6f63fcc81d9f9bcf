"""Which jobs have ended by a lock, and are they still those that the stack file asks for?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.service.variants import applied, with_preferred
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.locks.digests import Decided
from swarm_iac.stackfile.locks.lock import Lock


def with_ends(lock: Lock, names: Iterable[str], stack: Stack) -> Lock:
    """The lock in which these allocations have finished: they keep their files, and release the rest."""
    over, run = {one.name for one in lock.placement.going()} & frozenset(names), Decided(applied(stack, lock.placement)).run
    if not over:
        return lock
    ones = tuple(one.released() if one.name in over else one for one in lock.placement.allocations)
    digests = {one.name: run(one.workload) for one in ones if one.name in over}
    goes = {one.workload for one in ones if not one.ended}
    growing = tuple(one for one in lock.placement.growing if one.workload in goes)
    placement = lock.placement.model_copy(update={"allocations": ones, "growing": growing})
    waits = {name: one for name, one in lock.growing_digests.items() if name in goes}
    return replace(lock, placement=placement, digests={**lock.digests, **digests}, growing_digests=waits)


def of_now(lock: Lock, stack: Stack) -> Placement:
    """The placement without ends of what is no longer requested: another command is another job, with no place yet."""
    return _of(lock.placement, lock.digests, stack)


def of_other(placement: Placement, before: Stack, after: Stack) -> Placement:
    """The same of a placement whose ends are those of the stack `before`, for another one."""
    run = Decided(applied(before, placement)).run
    ends = (one for one in placement.allocations if one.ended and one.workload in before.workloads)
    return _of(placement, {one.name: run(one.workload) for one in ends}, after)


def _of(placement: Placement, digests: Mapping[str, str], stack: Stack) -> Placement:
    run = Decided(applied(stack, placement)).run
    placement = with_preferred(stack, placement)

    def stands(one: Allocation) -> bool:
        return one.workload in stack.workloads and digests.get(one.name) == run(one.workload)

    if all(stands(one) for one in placement.allocations if one.ended):
        return placement
    ones = tuple(one for one in placement.allocations if not one.ended or stands(one))
    return placement.model_copy(update={"allocations": ones})
