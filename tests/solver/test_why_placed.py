"""Is it true for whose sake something moved, and what the second best place would cost?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.edit import changed
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, solve_keeping, why
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of
from tests.solver.test_cases import standing

FLEETS = 200


def put_back(placement: Placement, last: Placement, name: str) -> Placement:
    """The placement, with one allocation where it stood last, on its old devices."""
    was = last.by_name()[name]
    return placement.model_copy(update={"allocations": tuple(was if a.name == name else a for a in placement.allocations)})


@pytest.mark.engine
def test_whoever_made_room_would_be_in_the_way_of_those_it_names() -> None:
    seen = {"frees_capacity": 0, "node_is_ready": 0}
    for seed in range(FLEETS):
        before, stack = crowded(seed)
        last = solve(before).placement
        found = solve(stack, last)
        names = {a.name for a in found.placement.allocations}
        for name in sorted({move.name.rpartition("-")[0] for move in found.moves}):
            for reason in why(stack, found.placement, name, last=last).moved:
                mover = reason.text.split(":")[0]
                seen[reason.rule] = seen.get(reason.rule, 0) + 1
                if reason.rule == "node_is_ready":
                    assert stack.nodes[last.by_name()[mover].node].state in ("drain", "lost")
                if reason.rule == "frees_capacity" and mover in names:
                    back = put_back(found.placement, last, mover)
                    assert judge(stack, back, kept=frozenset(names)), f"seed {seed}: {reason.text}, and it could have stayed"
                    without = [a for a in back.allocations if a.workload != reason.path.split(".")[1]]
                    assert len(judge(stack, Placement(allocations=tuple(without)), kept=frozenset(names))) < len(
                        judge(stack, back, kept=frozenset(names))
                    )
    assert seen["frees_capacity"] >= 3 and seen["node_is_ready"] >= 3, seen


def test_who_changes_his_gpu_is_told_for_whose_sake() -> None:
    each = {"vcpus": 1, "memory": "1 GB"}
    half = {"replicas": 2, "each": each | {"gpus": {"count": 1, "share": 0.5}}}
    three = {"each": each | {"gpus": 3}}
    stack = stack_of({"n0": {"hardware": "l40s"}}, {"half": half, "three": three}, solve={"moves": 1})
    last = standing(stack, {"half": ["n0", "n0"]})
    found = solve(stack, last)
    (move,) = found.moves
    assert (move.source, move.target) == ("n0", "n0")
    (reason,) = why(stack, found.placement, "half", last=last).moved
    assert reason.text == f"{move.name}: another GPU of n0, because of three-0"


@pytest.mark.engine
def test_the_second_best_avoids_the_node_and_never_gains_a_place() -> None:
    homeless = 0
    for seed in range(FLEETS):
        before, stack = crowded(seed)
        placement = solve(stack, solve(before).placement).placement
        for name in sorted({a.workload for a in placement.allocations})[:1]:
            answer = why(stack, placement, name)
            if answer.missing:
                continue
            runner_up = answer.runner_up
            assert runner_up is not None
            assert runner_up.avoids not in runner_up.nodes
            assert not any("more" in part and "placed" in part for part in runner_up.price[:1]), f"seed {seed}: {runner_up}"
            homeless += not runner_up.nodes
    assert homeless >= 10


def two_sites() -> tuple[Stack, Placement]:
    stack = stack_of({"a": {}, "b": {"hardware": "l40s"}}, {"w": {"each": {"gpus": 2}}, "v": {"each": {"gpus": "6 x H100"}}})
    return stack, solve(stack).placement


def test_the_price_of_the_second_best_is_told_in_the_goals_that_differ() -> None:
    stack, placement = two_sites()
    runner_up = why(stack, placement, "w").runner_up
    assert runner_up is not None
    assert (runner_up.avoids, runner_up.nodes) == ("b", ("a",))
    assert runner_up.price == (
        "1 more move of a running replica",
        "1 more step of larger GPUs than needed",
        "1 fewer node in use",
    )


def test_an_exception_that_has_ended_is_named_and_its_extension_mends() -> None:
    request = {"user": "bo", "replicas": 2, "each": {"gpus": 4}}
    limits = {"user": {"gpus": 2}, "except": [{"user": "bo", "gpus": 8, "until": "2026-05-31", "reason": "paper"}]}
    today = datetime.date(2026, 6, 1)
    last = solve(stack_of({"a": {}}, {"w": request | {"replicas": 1}}, limits=limits)).placement
    stack = stack_of({"a": {}}, {"w": request}, limits=limits)
    placement = solve(stack, last, today=today).placement
    answer = why(stack, placement, "w", last=last, today=today)
    assert (answer.placed, answer.missing) == (1, 1)
    assert [one.path for one in answer.reasons] == ["limits.except"]
    fixed = [str(fix.edits[0]) for fix in answer.fixes if fix.kind == "limit"]
    assert fixed == ["limits.except[0].until=2026-07-01", "limits.user.gpus=8"]
    after = solve(changed(stack, answer.fixes[0].edits[0]), last, today=today).placement
    assert len(after.allocations) == 2


def test_who_gets_a_part_of_a_gpu_where_it_ran_has_not_moved() -> None:
    """It had no GPU before: the answer ended in an IndexError."""
    before = solve(stack_of({"n": {}}, {"w": {"each": {"vcpus": 1}}})).placement
    now = stack_of({"n": {}}, {"w": {"each": {"vcpus": 1, "gpus": 0.5}}})
    placement = solve(now, before).placement
    assert why(now, placement, "w", last=before).moved == ()


def test_why_and_solve_give_the_same_reason_to_who_may_not_move() -> None:
    """One looked at what ran, the other at what was decided."""
    hardware = {"a": {"gpus": "4 x H100", "vcpus": 32, "memory": "256 GB"}}
    runs = {"w": {"priority": "low", "replicas": 2, "each": {"gpus": 2}}}
    before = solve(stack_of({"n4": {"hardware": "a"}}, runs, hardware=hardware)).placement
    nodes = {"n4": {"hardware": "a", "labels": {"z": "a"}}, "n5": {"hardware": "a"}}
    works = runs | {"x": {"each": {"gpus": 4}, "place": {"select": {"z": "a"}}}}
    now = stack_of(nodes, works, hardware=hardware, solve={"moves": 0})
    placement = solve(now, before).placement
    (pending,) = placement.unplaced
    assert pending.reasons[0].rule == "moves_stay_in_budget"
    assert why(now, placement, "w", last=before).reasons == pending.reasons


@pytest.mark.parametrize(("was", "now"), [(1, 0.5), (0.5, 0.25), (0.5, 0.7), (2, 0.5)])
def test_who_keeps_its_card_in_another_size_has_not_moved(was: float, now: float) -> None:
    before = solve(stack_of({"n": {}}, {"w": {"each": {"gpus": was}}})).placement
    after = stack_of({"n": {}}, {"w": {"each": {"gpus": now}}})
    solution = solve(after, before)
    assert solution.moves == () and why(after, solution.placement, "w", last=before).moved == ()


def test_a_gang_that_stops_since_it_grew_stops_for_nobody() -> None:
    stacks = [stack_of({"n": {}}, {"w": {"gang": count, "on_grow": "stop", "each": {"gpus": 4}}}) for count in (2, 3)]
    before = solve(stacks[0]).placement
    solution = solve(stacks[1], before)
    assert {move.why for move in solution.moves} == {"its gang has 3 members now, and not all have a place"}
    moved = why(stacks[1], solution.placement, "w", last=before).moved
    assert {one.rule for one in moved} == {"gang_is_whole_or_absent"}


@pytest.mark.parametrize(("moves", "node"), [(0, "n1"), (1, "n1"), (2, "n2")])
def test_a_gang_that_grows_moves_within_the_budget(moves: int, node: str) -> None:
    """Its members run on while it grows, so to place all of them on another node is a move of each."""
    hardware = {f"h{count}": {"gpus": f"{count} x H100", "vcpus": 64, "memory": "512 GB"} for count in (4, 8)}
    nodes = {"n1": {"hardware": "h4"}, "n2": {"hardware": "h8"}}
    works = {count: {"w": {"gang": count, "each": {"gpus": 2}, "place": {"within": "node"}}} for count in (2, 3)}
    before = solve(stack_of({"n1": nodes["n1"]}, works[2], hardware=hardware)).placement
    _, solution = solve_keeping(stack_of(nodes, works[3], hardware=hardware, solve={"moves": moves}), before)
    assert {one.node for one in solution.placement.going()} == {node}
