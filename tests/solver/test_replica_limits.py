"""Do limits on the number of running replicas hold at every level, and do they leave finished jobs out?"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from swarm_iac.limits import amounts, judge
from swarm_iac.model.placement import Placement
from swarm_iac.provider import spec
from swarm_iac.reconcile import Request
from swarm_iac.solver import Scale, solve, solve_keeping, why
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import COUNTED
from swarm_iac.stackfile.locks import lock
from tests.solver.fleets import stack_of

TODAY = datetime.date(2026, 6, 1)
NODES: dict[str, Any] = {"a": {}, "b": {}}
TEAMS = {"t": {"users": ["ada", "bo"], "limits": {"replicas": 3}}}


@pytest.mark.parametrize("scale", [Scale(), Scale(pairs=0, nodes=0)])
@pytest.mark.parametrize(
    ("rest", "placed"),
    [
        ({}, 6),
        ({"limits": {"user": {"replicas": 2}}}, 4),
        ({"limits": {"node": {"replicas": 2}}}, 4),
        ({"limits": {"cluster": {"replicas": 5}}}, 5),
        ({"teams": TEAMS}, 3),
        ({"teams": TEAMS, "limits": {"user": {"replicas": 1}}}, 2),
    ],
)
def test_as_many_run_as_every_level_allows(rest: dict[str, Any], placed: int, scale: Scale) -> None:
    works = {f"{user}{i}": {"user": user, "each": {"gpus": i % 2}} for user in ("ada", "bo") for i in range(3)}
    stack = stack_of(NODES, works, **rest)
    found = solve(stack, scale=scale).placement
    assert judge(stack, found) == () and len(found.allocations) == placed


def test_why_counts_the_replicas_in_use() -> None:
    works = {"one": {"user": "bo", "replicas": 2, "priority": "high"}, "g": {"gang": 2}, "w": {}}
    stack = stack_of(NODES, works, teams=TEAMS)
    found = solve(stack).placement
    assert [one.workload for one in found.unplaced] == ["g"]
    answer = why(stack, found, "g", today=TODAY)
    assert [(one.text, one.path) for one in answer.reasons[:1]] == [
        ("needs 2 replicas; team t has 0 left of 3, in use by user bo 2, user ada 1", "teams.t.limits.replicas")
    ]
    assert "teams.t.limits.replicas=5" in {str(one.edits[0]) for one in answer.fixes}


def test_what_has_finished_leaves_its_place_to_another() -> None:
    stack = stack_of(NODES, {"done": {}, "next": {}}, limits={"user": {"replicas": 1}})
    first = solve(stack).placement
    (ran,) = first.allocations
    found = solve(stack, Placement(allocations=(ran.released(),))).placement
    assert {one.workload for one in found.going()} == {"done", "next"} - {ran.workload}
    assert judge(stack, found) == ()


def test_a_lower_limit_stops_nobody() -> None:
    before = solve(stack_of(NODES, {"w": {"replicas": 3}})).placement
    stack = stack_of(NODES, {"w": {"replicas": 4}}, limits={"user": {"replicas": 2}})
    found = solve(stack, before).placement
    assert found.allocations == before.allocations
    assert found.unplaced[0].reasons[0].text == (
        "user ada holds 3 replicas and may have 2: running replicas stay; no new ones are admitted"
    )


@pytest.mark.parametrize("gang", [False, True])
def test_what_stops_under_a_lowered_limit_makes_room_in_the_same_change(gang: bool) -> None:
    def fleet(state: str, limit: int, waits: dict[str, Any]) -> Any:
        nodes = {"a": {}, "b": {"labels": {"k": "x"}, "state": state}}
        works = {"big": {"place": {"select": {"k": "x"}}, "each": {"vcpus": 4}}, "next": {"each": {"vcpus": 2}} | waits}
        return stack_of(nodes, works, limits={"user": {"vcpus": limit}})

    before = solve_keeping(fleet("ready", 8, {"replicas": 1}), Placement(), today=TODAY)[1].placement
    assert {one.workload for one in before.allocations} == {"big", "next"}
    stack, found = solve_keeping(fleet("drain", 4, {"gang": 2} if gang else {"replicas": 2}), before, today=TODAY)
    assert [one.name for one in found.placement.allocations] == ["next-0", "next-1"]
    assert not any("may have" in why.text for gone in found.placement.unplaced for why in gone.reasons)
    assert judge(stack, found.placement) == ()


def test_nothing_is_written_of_it_and_nothing_counted_where_nobody_limits_it() -> None:
    plain = stack_of(NODES, {"w": {"replicas": 2}})
    found = solve(plain).placement
    assert "running" not in lock.dump(lock.make(plain, found)) and "replicas" not in lock.dump(lock.make(plain, found))
    limited = stack_of(NODES, {"w": {"replicas": 2}}, limits={"node": {"replicas": 9}})
    place = [row.name for row in COUNTED].index("replicas")
    counted = [snapshot_of(stack, Placement()).requests["w"].usage[place] for stack in (plain, limited)]
    assert counted == [0, 1]


def test_a_state_from_before_the_limit_says_that_each_that_ran_was_a_replica() -> None:
    stack = stack_of(NODES, {"w": {"replicas": 2}}, limits={"user": {"replicas": 1}})
    ones = solve(stack_of(NODES, {"w": {"replicas": 2}})).placement
    held = {one.name: amounts(one)[:-1] for one in ones.allocations}
    sent = spec.unpack_request(spec.pack_request(Request(stack, ones, held=held)))
    assert judge(sent.stack, sent.placement, held=sent.held) == ()
