"""What do two branches that each changed a lock say together? Block by block, as far as both can be had.

Whether that keeps every rule with the merged stack file is for the caller to judge: two blocks may want one GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from swarm_iac.model.placement import Allocation, Growing, Lighter, Placement, Unplaced
from swarm_iac.stackfile.locks.lock import Lock

T = TypeVar("T")


@dataclass(frozen=True)
class MergedLock:
    """A lock, with the blocks (by name) that only the second branch changed, and those that both changed in different ways.

    Of the latter it has the first branch's version: `up` may have applied that already.
    """

    lock: Lock
    second: frozenset[str] = frozenset()
    contested: frozenset[str] = frozenset()

    def without(self, names: frozenset[str]) -> Lock:
        """The lock without these allocations."""
        placement = self.lock.placement
        ones = tuple(one for one in placement.allocations if one.name not in names)
        return Lock(
            placement.model_copy(update={"allocations": ones}),
            {name: digest for name, digest in self.lock.digests.items() if name not in names},
            self.lock.unplaced_digests,
            self.lock.growing_digests,
            self.lock.lighter_digests,
        )


def merge(base: Lock, first: Lock, second: Lock) -> MergedLock:
    """The merge of two locks that both come from `base`.

    For every block x:  x is what the branch has that changed it; what both have alike is that; else `first`'s.
    """
    taken: set[str] = set()
    contested: set[str] = set()

    def each(part: Callable[[Lock], Mapping[str, T]]) -> dict[str, T]:
        sides = [part(lock) for lock in (base, first, second)]
        found = {}
        for name in sorted({name for side in sides for name in side}):
            was, one, other = (side.get(name) for side in sides)
            if was not in (one, other) and one != other:
                contested.add(name)
            elif other != one and one == was:
                taken.add(name)
                one = other
            if one is not None:
                found[name] = one
        return found

    ones, gone, grows, light = each(_allocations), each(_unplaced), each(_growing), each(_lighter)
    goes = {one.workload for one, _ in ones.values() if not one.ended}
    grows = {name: digest for name, digest in grows.items() if name in goes}
    placement = Placement(
        allocations=tuple(one for one, _ in ones.values()),
        unplaced=tuple(one for one, _ in gone.values()),
        growing=tuple(Growing(workload=name) for name in grows),
        lighter=tuple(one for one, _ in light.values()),
    )
    digests = {name: digest for name, (_, digest) in ones.items()}
    chosen_from = {name: digest for name, (_, digest) in light.items()}
    lock = Lock(placement, digests, {name: digest for name, (_, digest) in gone.items()}, grows, chosen_from)
    return MergedLock(lock, frozenset(taken), frozenset(contested))


def _allocations(lock: Lock) -> Mapping[str, tuple[Allocation, str]]:
    return {one.name: (one, lock.digests[one.name]) for one in lock.placement.allocations}


def _unplaced(lock: Lock) -> Mapping[str, tuple[Unplaced, str]]:
    return {one.workload: (one, lock.unplaced_digests[one.workload]) for one in lock.placement.unplaced}


def _growing(lock: Lock) -> Mapping[str, str]:
    return lock.growing_digests


def _lighter(lock: Lock) -> Mapping[str, tuple[Lighter, str]]:
    return {one.workload: (one, lock.lighter_digests[one.workload]) for one in lock.placement.lighter}
