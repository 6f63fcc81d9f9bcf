"""Does what says `movable: false` stay where it runs, and is that told where it is in the way?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, why
from swarm_iac.solver.advice.move_curve import curve
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large

HALF = {"each": {"gpus": 4}}
FIRM = {**HALF, "movable": False}


def where(placement: Placement) -> dict[str, str]:
    return {one.name: one.node for one in placement.going()}


def scattered(**a: Any) -> tuple[Stack, Placement]:
    """Two halves of two machines, and a third one that fits where the first leaves; only a move makes room for a whole one."""
    full = stack_of({"n1": {}, "n2": {}}, {"a": a, "b": {**HALF}, "fill": {"replicas": 2, **HALF, "place": {"spread": "node"}}})
    last = solve(full).placement
    nodes = where(last)
    assert nodes["a-0"] != nodes["b-0"]
    return stack_of({"n1": {}, "n2": {}}, {"a": a, "b": {**HALF}, "new": {"each": {"gpus": 8}}}), last


def test_a_change_moves_what_may_be_moved() -> None:
    stack, last = scattered(**HALF)
    assert where(solve(stack, last).placement).keys() == {"a-0", "b-0", "new-0"}


@pytest.mark.parametrize("answer", [solve, as_large])
def test_a_change_moves_another_in_place_of_what_is_not_movable(answer: Any) -> None:
    stack, last = scattered(**FIRM)
    found = where(answer(stack, last).placement)
    assert found.keys() == {"a-0", "b-0", "new-0"} and found["a-0"] == where(last)["a-0"]


def both_firm() -> tuple[Stack, Placement]:
    stack, last = scattered(**FIRM)
    return changed(stack, Edit(path="workloads.b.movable", value=False)), last


@pytest.mark.parametrize("answer", [solve, as_large])
def test_where_all_that_helps_is_not_movable_the_new_one_waits_and_the_reason_says_so(answer: Any) -> None:
    stack, last = both_firm()
    found = answer(stack, last).placement
    assert where(found) == {name: node for name, node in where(last).items() if not name.startswith("fill")}
    reasons = {reason.rule: (reason.text, reason.path) for reason in found.unplaced[0].reasons}
    assert reasons["immovable_stay"] == (
        "b holds enough for it, and is not moved (`movable: false`)",
        "workloads.b.movable",
    )


def test_why_names_who_is_not_moved_and_offers_what_a_solve_confirms() -> None:
    stack, last = both_firm()
    answer = why(stack, solve(stack, last).placement, "new", last=last)
    assert [reason.text for reason in answer.reasons if "not moved (`movable: false`)" in reason.text]
    fixes = {edit.path: fix for fix in answer.fixes for edit in fix.edits}
    assert {"workloads.a.movable", "workloads.b.movable"} <= fixes.keys()
    assert [move.name for move in fixes["workloads.a.movable"].moves if move.target] == ["a-0"]


def test_a_rebalance_leaves_it() -> None:
    stack, last = both_firm()
    now = solve(stack, last).placement
    assert where(solve(stack, now, repair=False).placement) == where(now)
    assert {point.moves for point in curve(stack, now, None)} == {0}


def test_a_drain_and_its_own_change_move_it() -> None:
    nodes = {"n1": {}, "n2": {}}
    last = solve(stack_of(nodes, {"a": FIRM})).placement
    home = where(last)["a-0"]
    drained = stack_of({name: {"state": "drain"} if name == home else {} for name in nodes}, {"a": FIRM})
    assert where(solve(drained, last).placement)["a-0"] != home
    sent = stack_of(nodes | {"n3": {"labels": {"zone": "a"}}}, {"a": {**FIRM, "place": {"select": {"zone": "a"}}}})
    assert where(solve(sent, last).placement) == {"a-0": "n3"}


def test_a_higher_priority_stops_it_and_the_next_change_places_it_elsewhere() -> None:
    low = {"each": {"gpus": 8}, "priority": "low", "movable": False}
    nodes = {"n1": {"labels": {"zone": "a"}}, "n2": {"labels": {"zone": "b"}}}
    last = solve(stack_of({"n1": nodes["n1"]}, {"a": low})).placement
    high = {"each": {"gpus": 8}, "priority": "high", "place": {"select": {"zone": "a"}}}
    stack = stack_of(nodes, {"a": low, "new": high})
    then = solve(stack, last).placement
    assert where(then) == {"new-0": "n1"}
    assert then.unplaced[0].code == "Moves"
    assert "lost its slot to a higher priority, and is not moved" in then.unplaced[0].reasons[0].text
    assert where(solve(stack, then).placement) == {"new-0": "n1", "a-0": "n2"}


def test_a_gang_that_is_not_movable_stays_whole() -> None:
    gang = {"gang": 2, "each": {"gpus": 4}, "movable": False}
    last = solve(stack_of({"n1": {}}, {"g": gang})).placement
    stack = stack_of({"n1": {}, "n2": {"hardware": "l40s"}}, {"g": gang, "new": {"each": {"gpus": "8 x H100"}}})
    assert where(solve(stack, last).placement) == where(last)


def test_who_does_not_run_yet_or_has_nowhere_to_go_is_not_said_to_be_in_the_way() -> None:
    """A limit that is full is not made larger by a move."""
    works = {"w": {"priority": "high", "movable": False, "each": {"gpus": 1}}, "v": {"each": {"gpus": 1}}}
    stack = stack_of({"n1": {}, "n2": {}}, works, limits={"cluster": {"replicas": 1}})
    first = solve(stack).placement
    for last in (Placement(), first):
        (pending,) = solve(stack, last).placement.unplaced
        assert pending.workload == "v" and {one.rule for one in pending.reasons}.isdisjoint({"immovable_stay"})
