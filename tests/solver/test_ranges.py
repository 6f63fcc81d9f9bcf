"""Does an upper end never move anything? The same fleet with and without ceilings has the same placement, locks and reasons."""

from __future__ import annotations

import random

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.base import value_at, with_value
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import RANGES
from swarm_iac.solver import solve
from swarm_iac.stackfile.locks.digests import Decided
from tests.solver.crowded import crowded


def with_ceilings(stack: Stack, seed: int) -> Stack:
    """The same, and each request may use as much as it likes of what others leave idle."""
    rng, works = random.Random(seed), {}
    for name, one in stack.workloads.items():
        more = one
        for section, keys in RANGES.items():
            for key in keys:
                if (value := getattr(value_at(one, section), key)) is not None:
                    ranged = value.between(int(value), int(value) * rng.choice([1, 2, 9]))
                    more = with_value(more, f"{section}.{key}", ranged)
        works[name] = more
    return stack.model_copy(update={"workloads": works})


@pytest.mark.parametrize("seed", range(30))
def test_ceilings_change_no_placement_no_digest_and_no_reason(seed: int) -> None:
    before, stack = crowded(seed)
    open_before, open_now = with_ceilings(before, seed), with_ceilings(stack, seed + 1)
    last = solve(before).placement
    found, again = solve(stack, last).placement, solve(open_now, solve(open_before).placement).placement
    assert again == found
    plain, ranged = Decided(stack), Decided(open_now)
    assert [plain.of(one) for one in found.allocations] == [ranged.of(one) for one in again.allocations]
    assert judge(open_now, again) == judge(stack, found)


def test_the_judge_counts_the_guarantee_and_not_the_ceiling() -> None:
    """Who claims its ceiling as its own holds more than it asks for."""
    for seed in range(9):
        stack = with_ceilings(crowded(seed)[1], seed)
        found = solve(stack).placement
        lent = [a for a in found.allocations if stack.workloads[a.workload].each.vcpus.open]
        if lent:
            break
    one = lent[0]
    more = one.model_copy(update={"vcpus": stack.workloads[one.workload].each.vcpus.most})
    rest = tuple(a for a in found.allocations if a.name != one.name)
    broken = judge(stack, Placement(allocations=(*rest, more), unplaced=found.unplaced))
    assert "sizes_equal_request" in {each.rule for each in broken}
