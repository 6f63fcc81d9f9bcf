"""Does `place.prefer` choose among nodes, and do nothing else?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.placement import Goal
from swarm_iac.solver import Solution, solve
from tests.solver.oracle import as_large, as_small, check_paths
from tests.solver.test_balance import filler, fleet
from tests.solver.test_rules import RULES, fleet_of

PATHS = pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
FAST = {f"r2-{i}": {"labels": {"disk": "fast"}} for i in range(2)}


def of(replicas: int, **prefer: str) -> dict[str, Any]:
    """A workload that would rather be on some nodes."""
    return {"replicas": replicas, "each": {"gpus": 1}, "place": {"prefer": prefer} if prefer else {}}


def nodes(solution: Solution) -> list[str]:
    """Where its replicas are."""
    return sorted(a.node for a in solution.placement.going() if a.workload == "w")


def goal(solution: Solution) -> Goal:
    """The goal of preferred labels."""
    return next(one for one in solution.proof.goals if one.name == "preferred")


@PATHS
@pytest.mark.parametrize(("taken", "lacking"), [(0, 0), (6, 2), (8, 4)])
def test_what_is_new_comes_to_nodes_with_the_labels_as_far_as_they_have_room(answer: Any, taken: int, lacking: int) -> None:
    works = {"w": of(4, disk="fast")} | ({"full": filler("r2", taken)} if taken else {})
    found = answer(fleet(works, changes=FAST))
    assert len(nodes(found)) == 4, "nobody is pending for it"
    assert sum(not node.startswith("r2") for node in nodes(found)) == lacking == goal(found).value
    assert goal(found).bound <= goal(found).value
    if answer is solve:
        assert found.proof.optimal


@PATHS
def test_rack_and_site_are_labels_and_each_label_counts(answer: Any) -> None:
    changes = FAST | {"r1-0": {"labels": {"disk": "fast"}}}
    found = answer(fleet({"w": of(2, disk="fast", rack="r1")}, changes=changes))
    assert nodes(found) == ["r1-0", "r1-0"] and goal(found).value == 0


@PATHS
def test_nobody_moves_for_it_but_in_a_rebalance(answer: Any) -> None:
    last = solve(fleet({"w": of(2) | {"place": {"select": {"rack": "r0"}}}}, changes=FAST)).placement
    stack = fleet({"w": of(2, disk="fast")}, changes=FAST)
    found = answer(stack, last)
    assert {node[:2] for node in nodes(found)} == {"r0"} and not found.moves and goal(found).value == 2
    assert {node[:2] for node in nodes(solve(stack, last, repair=False))} == {"r2"}


def test_a_stack_without_it_has_no_such_goal() -> None:
    assert "preferred" not in {one.name for one in solve(fleet({"w": of(2)}, changes=FAST)).proof.goals}


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    before, now = fleet_of(("prefer", other) if other != "prefer" else ("prefer",), 3000)
    check_paths(before, now)
