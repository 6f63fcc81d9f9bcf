"""Does emptying a few nodes and filling them again lose nothing, keep every rule, and find what one pass leaves?"""

from __future__ import annotations

import contextlib
import random

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.ruin_recreate import improved, value
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import by_workload, classify, repair_task
from tests.benchmarks.fleets.draw_workloads import filled

#: Deterministic time: about a hundred rounds.
LEFT = 0.2
SEEDS = range(140_000, 140_012)


def tried(seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The value of a drawn fleet before and after; asserts what must hold for each."""
    drawn = filled(seed, random.Random(seed).randint(5, 30))
    stack = drawn.stack()
    snapshot = snapshot_of(stack, Placement(), drawn.today)
    classified = classify(snapshot)
    counts = greedy(repair_task(snapshot, classified))
    found = improved(snapshot, counts, LEFT, lambda: False)
    assert found == improved(snapshot, counts, LEFT, lambda: False), "the same fleet, the same answer"
    assert improved(snapshot, counts, LEFT, lambda: True) == counts, "who is told to stop stops"
    placed = by_workload(found)
    for name, request in snapshot.requests.items():
        assert placed[name] <= request.members
        assert not request.gang or placed[name] in (0, request.members), "a gang is whole or not there"
    placement = Placement(allocations=tuple(sorted(assemble(snapshot, classified, found), key=lambda a: a.name)))
    assert not judge(stack, placement, drawn.today)
    return value(snapshot, counts), value(snapshot, found)


def test_no_rule_is_broken_and_nothing_is_lost_and_more_is_found() -> None:
    pairs = [tried(seed) for seed in SEEDS]
    assert all(after >= before for before, after in pairs)
    assert sum(after > before for before, after in pairs) >= 3


@pytest.mark.slow
def test_the_same_of_hundreds() -> None:
    pairs = []
    for seed in range(140_100, 140_300):
        with contextlib.suppress(StackFileError):  # what is drawn may ask for more than a limit of its own
            pairs.append(tried(seed))
    assert len(pairs) > 190
    assert all(after >= before for before, after in pairs)
