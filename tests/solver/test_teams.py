"""Do the limits of teams, one inside the other, hold, and is it said whose they are and who uses them?"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, solve, why
from swarm_iac.solver.repair.kinds import kinds_of
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.oracle import still

NODES: dict[str, Any] = {"a": {}, "b": {}, "c": {}}
#: ada and bo are in research, cy is in vision; both teams are inside lab.
TEAMS: dict[str, Any] = {
    "research": {"users": ["ada", "bo"], "parent": "lab"},
    "vision": {"users": ["cy"], "parent": "lab"},
    "lab": {},
}
JOBS: dict[str, Any] = {
    "one": {"user": "ada", "priority": "high", "each": {"gpus": 8}},
    "two": {"user": "bo", "priority": "high", "each": {"gpus": 4}},
}
TODAY = datetime.date(2026, 6, 1)


def teams(**limits: Any) -> dict[str, Any]:
    return {name: team | ({"limits": limits[name]} if name in limits else {}) for name, team in TEAMS.items()}


def lab(more: dict[str, Any], last: Placement = Placement(), **rest: Any) -> tuple[Stack, Placement]:
    stack = stack_of(NODES, JOBS | more, **rest)
    found = solve(stack, last, today=TODAY).placement
    assert judge(stack, found, TODAY, **still(found, last)) == ()
    return stack, found


def test_what_a_team_has_in_use_is_said_with_by_whom() -> None:
    stack, found = lab({"w": {"user": "bo", "each": {"gpus": 2}}}, teams=teams(research={"gpus": 12}))
    answer = why(stack, found, "w", today=TODAY)
    assert [(one.text, one.path) for one in answer.reasons if one.rule == "team_stays_under_limits"] == [
        ("needs 2 GPUs; team research has 0 left of 12, in use by user ada 8, user bo 4", "teams.research.limits.gpus")
    ]
    assert next(one.code for one in found.unplaced) == "TeamLimit"
    assert [str(one.edits[0]) for one in answer.fixes if one.kind == "limit"] == ["teams.research.limits.gpus=14"]


def test_a_team_around_others_says_which_of_them_use_it_and_both_limits_have_to_be_raised() -> None:
    more = {"x": {"user": "cy", "priority": "high", "each": {"gpus": 4}}, "w": {"user": "bo", "each": {"gpus": 2}}}
    stack, found = lab(more, teams=teams(research={"gpus": 12}, lab={"gpus": 16}))
    answer = why(stack, found, "w", today=TODAY)
    assert [one.path for one in answer.reasons[:2]] == ["teams.research.limits.gpus", "teams.lab.limits.gpus"]
    assert answer.reasons[1].text.endswith("team lab has 0 left of 16, in use by team research 12, user cy 4"), (
        "vision has no limits"
    )
    (both,) = (one for one in answer.fixes if one.kind == "limit")
    edits = [Edit(path=f"teams.{team}.limits.gpus", value=most) for team, most in (("research", 14), ("lab", 18))]
    assert [str(one) for one in both.edits] == [str(one) for one in edits]
    for edit in edits:
        assert solve(changed(stack, edit)).placement.unplaced
    assert not solve(changed(changed(stack, edits[0]), edits[1])).placement.unplaced


def test_a_limit_of_each_team_is_named_where_it_stands() -> None:
    stack, found = lab({"w": {"user": "bo", "each": {"gpus": 2}}}, teams=TEAMS, limits={"team": {"gpus": 12}})
    answer = why(stack, found, "w", today=TODAY)
    assert {one.path for one in answer.reasons if one.rule == "team_stays_under_limits"} == {"limits.team.gpus"}
    assert [str(one.edits[0]) for one in answer.fixes if one.kind == "limit"] == ["limits.team.gpus=14"]


@pytest.mark.parametrize("scale", [Scale(), Scale(pairs=0, nodes=0)])
@pytest.mark.parametrize("most", range(0, 25, 4))
def test_both_paths_keep_them(scale: Scale, most: int) -> None:
    works = {f"w{i}": {"user": user, "replicas": 2, "each": {"gpus": 4}} for i, user in enumerate(("ada", "bo", "cy"))}
    stack = stack_of(NODES, works, teams=teams(lab={"gpus": most}, research={"gpus": 12}))
    found = solve(stack, scale=scale).placement
    assert judge(stack, found) == ()
    assert sum(4 for _ in found.allocations) == min(most, 20)


@pytest.mark.parametrize(
    "now",
    [
        {"research": {"users": ["bo"]}, "vision": {"users": ["cy", "ada"], "limits": {"gpus": 4}}},
        {"science": {"users": ["ada", "bo"], "limits": {"gpus": 4}}},
        {"research": {"users": ["ada", "bo"], "parent": "other"}, "other": {"limits": {"gpus": 4}}},
    ],
    ids=["another team", "another name", "another parent"],
)
def test_who_changes_teams_counts_in_the_new_one_at_once(now: dict[str, Any]) -> None:
    """The limit there admits nothing until enough is released, and nothing that runs is stopped."""
    before = lab({}, teams=teams(research={"gpus": 12}))[1]
    stack, found = lab({"w": {"user": "ada", "each": {"gpus": 1}}}, before, teams=now)
    assert found.allocations == before.allocations
    (gone,) = found.unplaced
    (reason,) = (one for one in gone.reasons if not one.besides)
    assert gone.code == "TeamLimit" and reason.text.endswith(
        "GPUs and may have 4: running replicas stay; no new ones are admitted"
    )
    free = stack.model_copy(update={"workloads": {key: one for key, one in stack.workloads.items() if key == "w"}})
    assert len(solve(free, found, today=TODAY).placement.allocations) == 1


def test_the_team_that_is_left_may_add_and_the_team_around_both_counts_on() -> None:
    before = lab({}, teams=teams(research={"gpus": 12}, lab={"gpus": 14}))[1]
    moved = teams(research={"gpus": 12}, lab={"gpus": 14})
    moved |= {"research": moved["research"] | {"users": ["bo"]}, "vision": moved["vision"] | {"users": ["ada", "cy"]}}
    more = {"w": {"user": "bo", "replicas": 3, "each": {"gpus": 1}}}
    _, found = lab(more, before, teams=moved)
    assert sum(one.workload == "w" for one in found.allocations) == 2, "research has 8 left, and lab 2"
    assert [one.path for one in found.unplaced[0].reasons] == ["teams.lab.limits.gpus"]


def test_an_exception_of_a_team_ends_as_that_of_a_user_does() -> None:
    limits = {"except": [{"team": "research", "gpus": 12, "until": "2026-05-31", "reason": "paper"}]}
    last = solve(stack_of(NODES, JOBS, teams=teams(research={"gpus": 4}), limits=limits)).placement
    assert len(last.allocations) == 2
    stack, found = lab({"w": {"user": "bo", "each": {"gpus": 1}}}, last, teams=teams(research={"gpus": 4}), limits=limits)
    answer = why(stack, found, "w", last=last, today=TODAY)
    assert found.allocations == last.allocations
    assert [(one.text, one.path) for one in answer.reasons] == [
        (
            "team research holds 12 GPUs and may have 4 since an exception has ended: "
            "running replicas stay; no new ones are admitted",
            "limits.except",
        )
    ]
    longer = [str(one.edits[0]) for one in answer.fixes if one.kind == "limit"]
    assert longer == ["teams.research.limits.gpus=13"], "the exception would give it no more than it holds"


def test_a_limit_of_a_team_counts_what_all_its_workloads_want() -> None:
    stack = stack_of(NODES, JOBS, teams=teams(research={"gpus": 11}, lab={"gpus": 12}))
    snapshot = without_slack(snapshot_of(stack, Placement()))
    assert {scope for scope, most in snapshot.scopes.items() if any(one < 1 << 60 for one in most)} == {"team research"}
    assert snapshot.requests["one"].chain == ("user ada", "team research", "team lab", "the cluster")


def test_users_are_alike_where_no_limit_of_theirs_or_of_their_team_binds() -> None:
    works = {f"w{i}": {"user": user, "each": {"gpus": 4}} for i, user in enumerate(("ada", "bo", "cy"))}
    for most, kinds in ((12, 1), (7, 2)):
        snapshot = without_slack(snapshot_of(stack_of(NODES, works, teams=teams(research={"gpus": most})), Placement()))
        assert len(kinds_of(FreeCapacity(snapshot), list(works))[0]) == kinds


def test_an_edit_of_a_teams_limit_is_one_of_a_stack() -> None:
    stack = stack_of(NODES, JOBS, teams=TEAMS)
    raised = changed(stack, Edit(path="teams.research.limits.gpus", value=14))
    assert raised.teams["research"].limits.limit("gpus") == 14_000
    assert changed(raised, Edit(path="teams.research.limits.gpus", value=None)).teams["research"].limits.limit("gpus") is None


@pytest.mark.parametrize("scale", [Scale(), Scale(pairs=0, nodes=0)], ids=["small", "large"])
@pytest.mark.parametrize("level", ["team", "cluster"])
def test_what_goes_to_another_user_of_a_team_over_its_limit_takes_nobodys_place(level: str, scale: Scale) -> None:
    """It starts anew. Somebody of lower priority who stopped for it would leave less than it takes above the limit."""
    works: dict[str, Any] = {
        "low": {"user": "ada", "priority": "low", "replicas": 2, "each": {"gpus": 2}},
        "other": {"user": "ada", "each": {"gpus": 2}},
        "given": {"user": "ada", "priority": "high", "each": {"gpus": 1}},
    }
    last = solve(stack_of({"a": {}}, works, teams=TEAMS)).placement
    works["given"]["user"] = "bo"
    limits = {"limits": {"cluster": {"gpus": 3}}} if level == "cluster" else {"teams": teams(lab={"gpus": 3})}
    now = stack_of({"a": {}}, works, **({"teams": TEAMS} | limits))
    solution = solve(now, last, scale=scale)
    assert judge(now, solution.placement, **still(solution.placement, last)) == ()
    assert [move.name for move in solution.moves] == ["given-0"] and solution.moves[0].forced
    assert [one.workload for one in solution.placement.unplaced] == ["given"]
