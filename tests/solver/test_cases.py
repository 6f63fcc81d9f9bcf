"""Does the solver do in named situations what a person would? Each case is a file in cases/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.device import gpu
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small

CASES = sorted(Path(__file__).with_name("cases").glob("*.yaml"))


def standing(stack: Stack, stands: dict[str, list[str]]) -> Placement:
    """What stands before: replicas in order on the nodes named, on the lowest GPUs that are free there."""
    next_gpu: Counter[str] = Counter()
    found = []
    for name, nodes in stands.items():
        workload = stack.workloads[name]
        for index, node in enumerate(nodes):
            cards = range(next_gpu[node], next_gpu[node] + workload.each.gpus.count)
            gpus = tuple(gpu(card, workload.each.gpus.share) for card in cards)
            next_gpu[node] += len(gpus)
            label, each = f"{name}-{index}", workload.each
            found.append(
                Allocation(name=label, workload=name, index=index, node=node, gpus=gpus, vcpus=each.vcpus, memory=each.memory)
            )
    return Placement(allocations=tuple(found))


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case(file: Path, answer: Callable[[Stack, Placement], Solution]) -> None:
    """On each path: all at once, a few nodes at a time, and the latter where the former had no time."""
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    stack = stack_of(case["nodes"], case["workloads"], racks=case.get("racks", {}), solve=case["solve"])
    last = standing(stack, case["stands"])
    solution = answer(stack, last)
    now, before = solution.placement.by_name(), last.by_name()
    kept = frozenset(name for name, a in now.items() if name in before and before[name].node == a.node)
    expect = case["expect"]
    assert judge(stack, solution.placement, kept=kept) == ()
    assert {a.workload for a in now.values()} == set(expect["placed"])
    assert sum(1 for move in solution.moves if move.target) == expect["moves"]
    assert [move.name for move in solution.moves if not move.target] == expect["stops"]
    told = {one.workload: [reason.rule for reason in one.reasons] for one in solution.placement.unplaced}
    for name, rules in expect.get("rules", {}).items():
        assert set(told[name]) == set(rules)
