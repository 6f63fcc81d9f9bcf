"""Do taints keep new work away and leave what runs, and is it told which taint does, and what would help?"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from swarm_iac.limits import judge
from swarm_iac.model.edit import Edit
from swarm_iac.model.place.taints import Taint
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, why
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.explain.lacking import lacking
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, still

RESEARCH = {"taints": {"dedicated": "research"}}
RESERVED = {"taints": {"dedicated": {"value": "research", "teams": ["research"]}}}
TEAMS = {"research": {"users": ["ada"]}, "product": {"users": ["bo"]}}
WHOLE = {"each": {"gpus": 8}}


def fleet(nodes: dict[str, dict[str, Any]], **workloads: dict[str, Any]) -> Stack:
    return stack_of(nodes, workloads, teams=TEAMS)


def where(placement: Placement) -> dict[str, str]:
    return {one.name: one.node for one in placement.going()}


@pytest.mark.parametrize("tolerate", [{}, {"dedicated": "product"}, {"fan": "*"}])
def test_new_work_that_does_not_tolerate_a_taint_stays_away(tolerate: dict[str, str]) -> None:
    stack = fleet({"n1": {}, "n2": RESEARCH}, w={"replicas": 2, "place": {"tolerate": tolerate}, **WHOLE})
    for answer in (solve(stack), as_large(stack)):
        assert where(answer.placement) == {"w-0": "n1"}


@pytest.mark.parametrize("tolerate", [{"dedicated": "research"}, {"dedicated": "*"}])
def test_what_tolerates_it_may_come(tolerate: dict[str, str]) -> None:
    stack = fleet({"n1": {}, "n2": RESEARCH}, w={"replicas": 2, "place": {"tolerate": tolerate}, **WHOLE})
    assert {*where(solve(stack).placement).values()} == {"n1", "n2"}


def test_a_reserved_taint_is_for_its_teams_alone() -> None:
    """A checked file says so at once; the solver and `limits` each know it by themselves."""
    request = {"place": {"tolerate": {"dedicated": "*"}}, **WHOLE}
    stack = fleet({"n1": RESERVED}, ours=request, theirs={"user": "bo", "priority": "high", **request})
    assert where(solve(stack).placement) == {"ours-0": "n1"}
    one = solve(stack).placement.allocations[0]
    theirs = one.model_copy(update={"name": "theirs-0", "workload": "theirs", "user": "bo"})
    found = judge(stack, Placement(allocations=(theirs,)))
    assert [each.rule for each in found] == ["taints_keep_new_work_away"]
    assert "is for research alone" in found[0].text


def test_a_team_inside_one_that_a_taint_names_may_come_too() -> None:
    teams = TEAMS | {"lab": {"users": ["di"], "parent": "research"}, "around": {"users": ["ed"]}}
    teams["research"] = {"users": ["ada"], "parent": "around"}
    request = {"place": {"tolerate": {"dedicated": "research"}}, "each": {"gpus": 2}}
    users = {"one": "ada", "two": "di", "three": "ed", "four": "bo"}
    works = {name: {"user": user, **request} for name, user in users.items()}
    stack = stack_of({"n1": RESERVED}, works, teams=teams)
    found = solve(stack).placement
    assert {one.workload for one in found.going()} == {"one", "two"} and judge(stack, found) == ()


@pytest.mark.parametrize("change", [{}, {"each": {"gpus": 4}}, {"each": {"gpus": 8, "memory": "9 GB"}}])
def test_what_runs_stays_beside_a_new_taint_also_in_another_size(change: dict[str, Any]) -> None:
    last = solve(fleet({"n1": {}, "n2": {}}, w={"replicas": 2, **WHOLE})).placement
    stack = fleet({"n1": RESEARCH, "n2": RESEARCH}, w={"replicas": 2, **WHOLE, **change})
    for answer in (solve(stack, last), as_large(stack, last)):
        assert where(answer.placement) == where(last)
        assert judge(stack, answer.placement, **still(answer.placement, last)) == ()


def test_what_has_another_user_is_new_there() -> None:
    last = solve(fleet({"n1": {}}, w=WHOLE)).placement
    stack = fleet({"n1": RESEARCH, "n2": {}}, w={"user": "bo", **WHOLE})
    assert where(solve(stack, last).placement) == {"w-0": "n2"}


def test_what_left_a_tainted_node_does_not_come_back_and_what_shrinks_leaves_it_first() -> None:
    last = solve(fleet({"n1": {}, "n2": {}}, w={"replicas": 2, **WHOLE})).placement
    fewer = solve(fleet({"n1": RESEARCH, "n2": {}}, w={"replicas": 1, **WHOLE}), last).placement
    assert [*where(fewer).values()] == ["n2"]
    again = solve(fleet({"n1": RESEARCH, "n2": {}}, w={"replicas": 2, **WHOLE}), fewer).placement
    assert [*where(again).values()] == ["n2"]


def test_the_taint_is_named_with_its_nodes_and_a_toleration_offered_where_it_helps() -> None:
    nodes = {"n1": {}, "n2": RESEARCH, "n3": RESEARCH, "n4": {"taints": {"fan": "broken"}}}
    stack = fleet(nodes, w={"replicas": 2, **WHOLE})
    placement = solve(stack).placement
    answer = why(stack, placement, "w")
    texts = {reason.rule: (reason.text, reason.path) for reason in answer.reasons}
    assert texts["taints_are_tolerated"] == (
        "taints keep it off nodes: dedicated: research on 2 of 4 nodes, fan: broken on 1 of 4 nodes",
        "workloads.w.place.tolerate",
    )
    snapshot = snapshot_of(stack, placement)
    said = lacking(capacity_of(snapshot, placement), snapshot.requests["w"])
    assert said == "4 nodes: 2 have the taint dedicated: research, 1 lacks GPUs, 1 has the taint fan: broken"
    assert placement.unplaced[0].code == "Resources"
    edits = {(edit.path, edit.value) for fix in answer.fixes for edit in fix.edits}
    assert ("workloads.w.place.tolerate.dedicated", "research") in edits
    assert ("workloads.w.place.tolerate.fan", "broken") in edits


def test_no_toleration_is_offered_that_does_not_help_or_is_not_allowed() -> None:
    stack = fleet({"n1": {}, "n2": RESERVED}, w={"user": "bo", "replicas": 2, **WHOLE})
    answer = why(stack, solve(stack).placement, "w")
    assert any("dedicated: research for research alone on 1 of 2 nodes" in reason.text for reason in answer.reasons)
    assert not [edit for fix in answer.fixes for edit in fix.edits if "tolerate" in edit.path]
    small = fleet({"n1": {}, "n2": {"hardware": "l40s", **RESEARCH}}, w={"replicas": 2, "each": {"gpus": "8 x H100"}})
    answer = why(small, solve(small).placement, "w")
    assert not [edit for fix in answer.fixes for edit in fix.edits if "tolerate" in edit.path]


def test_another_value_of_a_key_is_tolerated_by_any() -> None:
    stack = fleet({"n1": RESEARCH}, w={"place": {"tolerate": {"dedicated": "product"}}, **WHOLE})
    answer = why(stack, solve(stack).placement, "w")
    assert ("workloads.w.place.tolerate.dedicated", "*") in {(e.path, e.value) for fix in answer.fixes for e in fix.edits}


@pytest.mark.parametrize(("key", "value", "typed"), [("d", "2025", 'd="2025"'), ("d", "*", 'd="*"'), ("d", "a", "d=a")])
def test_a_fix_is_typed_so_that_it_is_read_as_it_was_meant(key: str, value: str, typed: str) -> None:
    edit = Edit(path=f"workloads.w.place.tolerate.{key}", value=value)
    assert str(edit) == f"workloads.w.place.tolerate.{typed}"
    assert yaml.safe_load(str(edit).partition("=")[2]) == value


def test_a_reservation_for_nobody_is_a_mistake_and_not_open_to_all() -> None:
    with pytest.raises(ValidationError, match="no team is named"):
        Taint.model_validate({"value": "research", "teams": []})
    assert Taint.model_validate_json(Taint(value="research").model_dump_json()) == Taint(value="research")


def test_who_has_another_user_could_not_have_stayed_beside_a_taint() -> None:
    last = solve(fleet({"n1": {}, "n2": {}}, w={"user": "bo", "each": {"gpus": 1}})).placement
    (one,) = last.allocations
    now = solve(fleet({"n1": RESERVED, "n2": {}, one.node: RESERVED}, w={"user": "ada", "each": {"gpus": 1}}), last)
    (move,) = now.moves
    assert "has capacity" not in move.why
