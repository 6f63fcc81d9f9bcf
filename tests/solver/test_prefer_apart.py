"""Does `place.prefer_apart` keep workloads off each other where that costs nothing, and do nothing else?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.placement import Goal
from swarm_iac.solver import Solution, solve
from swarm_iac.solver.exact.figures import figures, worse
from tests.solver.oracle import as_large, as_small, check_paths
from tests.solver.test_balance import fleet
from tests.solver.test_rules import RULES, fleet_of

PATHS = pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])


def of(level: str | None = "rack", replicas: int = 2, **place: Any) -> dict[str, Any]:
    """A workload that would rather have its node, rack or site to itself."""
    return {"replicas": replicas, "each": {"gpus": 1}, "place": place | ({"prefer_apart": level} if level else {})}


def where(solution: Solution, name: str) -> set[str]:
    """The racks that a workload is in."""
    return {a.node.partition("-")[0] for a in solution.placement.going() if a.workload == name}


def goal(solution: Solution) -> Goal:
    """The goal of workloads beside others."""
    return next(one for one in solution.proof.goals if one.name == "beside")


@PATHS
@pytest.mark.parametrize(("count", "beside"), [(2, 0), (3, 0), (4, 1), (5, 2)])
def test_each_has_a_rack_to_itself_as_far_as_there_are_racks(answer: Any, count: int, beside: int) -> None:
    found = answer(fleet({f"w{i}": of() for i in range(count)}, racks=3))
    assert len(found.placement.allocations) == 2 * count, "nobody is pending for it"
    assert goal(found).value == beside >= goal(found).bound
    assert answer is as_small or goal(found).bound == beside


@PATHS
def test_nodes_count_where_it_says_nodes(answer: Any) -> None:
    found = answer(fleet({f"w{i}": of("node") for i in range(2)}, racks=1))
    assert goal(found).value == 0 and len({a.node for a in found.placement.going()}) == 2


@PATHS
def test_who_does_not_say_so_is_nobody_to_be_apart_from(answer: Any) -> None:
    found = answer(fleet({"a": of(), "b": of(None), "c": of("node")}, racks=3))
    assert "beside" not in {one.name for one in found.proof.goals}


@PATHS
def test_nobody_moves_for_it_but_in_a_rebalance(answer: Any) -> None:
    tied = {name: of(None, select={"rack": "r0"}) for name in "ab"}
    last = solve(fleet(tied)).placement
    stack = fleet({name: of() for name in "ab"})
    found = answer(stack, last)
    assert not found.moves and where(found, "a") == where(found, "b") == {"r0"} and goal(found).value == 1
    better = solve(stack, last, repair=False)
    assert not where(better, "a") & where(better, "b") and goal(better).value == 0
    price = worse(figures(stack, better.placement), figures(stack, found.placement))
    assert "1 more workload beside another one of `prefer_apart`" in price


@PATHS
def test_more_placed_comes_before_it(answer: Any) -> None:
    """Two racks of eight GPUs: five and seven, and four more of which three fit beside the first, and one beside the second."""
    works = {"a": of(replicas=5), "b": of(replicas=7), "c": of(replicas=4)}
    found = answer(fleet(works, racks=2))
    assert len(found.placement.allocations) == 16 and goal(found).value == 2 >= goal(found).bound
    assert answer is not solve or found.proof.optimal


@pytest.mark.parametrize("seed", range(6))
def test_alone_on_all_paths(seed: int) -> None:
    before, now = fleet_of(("prefer_apart",), 500 + seed)
    check_paths(before, now)


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    before, now = fleet_of(("prefer_apart", other) if other != "prefer_apart" else ("prefer_apart",), 3000)
    check_paths(before, now)
