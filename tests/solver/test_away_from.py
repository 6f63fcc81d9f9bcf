"""Are workloads kept from each other whichever of them says so, and is that told at the one that does?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, why
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, still

ONE = {"each": {"gpus": 2}}


def away(*others: str, **levels: list[str]) -> dict[str, Any]:
    return {**ONE, "place": {"away_from": levels or list(others)}}


def where(placement: Placement) -> dict[str, str]:
    return {one.name: one.node for one in placement.going()}


@pytest.mark.parametrize("answer", [solve, as_large])
@pytest.mark.parametrize("first", [True, False])
def test_neither_comes_to_the_other(answer: Callable[[Stack], Solution], first: bool) -> None:
    works = {"a": away("b"), "b": ONE} if first else {"a": ONE, "b": away("a")}
    found = where(answer(stack_of({"n1": {}, "n2": {}}, works)).placement)
    assert {*found.values()} == {"n1", "n2"}
    assert len(where(answer(stack_of({"n1": {}}, works)).placement)) == 1


def test_it_costs_one_node_more() -> None:
    nodes = {"n1": {}, "n2": {}}
    without, beside = (solve(stack_of(nodes, {"a": one, "b": ONE})).placement for one in (ONE, away("b")))
    assert [len({*where(each).values()}) for each in (without, beside)] == [1, 2]


@pytest.mark.parametrize("level", ["rack", "site"])
def test_a_level_keeps_them_from_one_group(level: str) -> None:
    nodes: dict[str, dict[str, Any]] = {"n1": {level: "x"}, "n2": {level: "x"}, "n3": {level: "y"}}
    stack = stack_of(nodes, {"a": {**away(**{level: ["b"]}), "replicas": 2}, "b": ONE}, racks={"x": {}, "y": {}})
    found = where(solve(stack).placement)
    assert len(found) == 3 and (found["b-0"] == "n3") != (found["a-0"] == "n3")


def test_what_is_not_named_may_be_beside_it_and_its_own_replicas_too() -> None:
    works = {"a": {**away("b"), "replicas": 2}, "b": ONE, "c": ONE}
    found = where(solve(stack_of({"n1": {}, "n2": {}}, works)).placement)
    assert len(found) == 4 and found["a-0"] == found["a-1"] != found["b-0"]


def test_what_runs_together_is_separated_by_a_change_and_a_lock_that_keeps_it_is_stale() -> None:
    nodes = {"n1": {}, "n2": {}}
    last = solve(stack_of(nodes, {"a": ONE, "b": ONE})).placement
    assert len({*where(last).values()}) == 1
    stack = stack_of(nodes, {"a": away("b"), "b": ONE})
    assert [each.rule for each in judge(stack, last)] == ["workloads_keep_away"]
    then = solve(stack, last).placement
    assert len({*where(then).values()}) == 2 and judge(stack, then, **still(then, last)) == ()


def test_one_that_others_keep_off_is_told_who_says_so() -> None:
    works = {"a": {"priority": "high", **away("b")}, "b": ONE}
    stack = stack_of({"n1": {}}, works)
    answer = why(stack, solve(stack).placement, "b")
    texts = {reason.rule: (reason.text, reason.path) for reason in answer.reasons}
    said = "kept away from a: each node with capacity has a replica of it"
    assert texts["away_from_keeps_off"] == (said, "workloads.a.place.away_from")
    edits = {edit.path for fix in answer.fixes for edit in fix.edits}
    assert "workloads.a.place.away_from.node" in edits


def test_two_levels_hold_at_once() -> None:
    nodes = {name: {"rack": rack} for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"))}
    works = {"a": away(node=["b"], rack=["c"]), "b": ONE, "c": ONE}
    found = where(solve(stack_of(nodes, works, racks={"r1": {}, "r2": {}})).placement)
    rack = {node: one["rack"] for node, one in nodes.items()}
    assert len(found) == 3 and found["a-0"] != found["b-0"] and rack[found["a-0"]] != rack[found["c-0"]]
