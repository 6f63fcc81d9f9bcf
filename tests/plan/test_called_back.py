"""Does a plan say from which team something is called back, and for which?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.plan.show.causes import why_stopped
from swarm_iac.solver import solve
from tests.solver.fleets import stack_of

TEAMS = {"vision": {"users": ["ada"], "share": 3}, "text": {"users": ["cy"], "share": 1}, "lab": {}}
JOBS: dict[str, Any] = {
    "see": {"user": "ada", "replicas": 8, "each": {"gpus": 1}},
    "read": {"user": "cy", "replicas": 8, "each": {"gpus": 1}},
}


def test_a_plan_names_both_teams_and_what_they_hold_before_and_after() -> None:
    before = solve(stack_of({"a": {}}, {"read": JOBS["read"]}, teams=TEAMS)).placement
    stack = stack_of({"a": {}}, JOBS, teams=TEAMS, solve={"reclaim": True})
    found = why_stopped(stack, before, solve(stack, before).placement)
    assert len(found) == 6
    assert set(found.values()) == {"called back from team text (8 → 2 GPUs) for see of team vision (0 → 6 GPUs)"}


@pytest.mark.parametrize("gone", [{"b": {"state": "lost"}}, {"b": {"state": "drain"}}, {}])
def test_a_team_that_lost_its_node_has_none_until_some_are_called_back(gone: dict[str, Any]) -> None:
    """It had 4 and gets 2: beside what it lost that is more, and not fewer."""
    nodes: dict[str, Any] = {"a": {}, "b": {}}
    jobs = {"see": JOBS["see"] | {"replicas": 12}, "read": JOBS["read"] | {"replicas": 4}}
    before = solve(stack_of(nodes, jobs, teams=TEAMS, solve={"reclaim": True})).placement
    assert {one.workload for one in before.on("a")} == {"see"}
    stack = stack_of({"a": {}} | gone, jobs, teams=TEAMS, solve={"reclaim": True})
    found = why_stopped(stack, before, solve(stack, before).placement)
    told = {text for text in found.values() if "called back" in text}
    assert told == {"called back from team vision (8 → 6 GPUs) for read of team text (0 → 2 GPUs)"}


def test_what_a_higher_priority_takes_is_preempted_and_not_called_back() -> None:
    before = solve(stack_of({"a": {}}, {"read": JOBS["read"]}, teams=TEAMS)).placement
    jobs = JOBS | {"see": JOBS["see"] | {"priority": "high", "replicas": 1}}
    stack = stack_of({"a": {}}, jobs, teams=TEAMS, solve={"reclaim": True})
    assert list(why_stopped(stack, before, solve(stack, before).placement).values()) == ["preempted by see"]


def test_work_without_gpus_that_is_called_back_names_both_teams() -> None:
    """By dominant resource: what they hold is a sum of different things, which `swarm shares` shows."""
    jobs = {
        "see": JOBS["see"] | {"each": {"gpus": 1, "vcpus": 16}},
        "read": {"user": "cy", "replicas": 8, "each": {"vcpus": 16}},
    }
    rest: dict[str, Any] = {"teams": TEAMS, "solve": {"reclaim": True, "share_by": "dominant_resource"}}
    before = solve(stack_of({"a": {}}, {"read": jobs["read"]}, **rest)).placement
    stack = stack_of({"a": {}}, jobs, **rest)
    assert {*why_stopped(stack, before, solve(stack, before).placement).values()} == {
        "called back from team text for see of team vision"
    }
