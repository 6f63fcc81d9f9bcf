"""What must never happen to a placement, on mixed random fleets?"""

from __future__ import annotations

from collections import Counter

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve, why
from tests.solver.fleets import some_fleet, stack_of


@pytest.mark.parametrize("seed", range(6))
def test_placement_never_breaks_a_limit(seed: int) -> None:
    stack = some_fleet(8, 24, seed, solve={"effort": "quick"}, limits={"user": {"gpus": 6}, "node": {"vcpus": 40}})
    assert judge(stack, solve(stack).placement) == ()


@pytest.mark.parametrize("seed", range(4))
def test_solving_twice_never_changes_anything(seed: int) -> None:
    stack = some_fleet(6, 14, seed)
    first = solve(stack)
    assert solve(stack) == first
    again = solve(stack, first.placement)
    assert again.placement == first.placement
    assert again.moves == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_drained_node_never_keeps_and_a_cordoned_one_never_gets(seed: int) -> None:
    stack = some_fleet(6, 14, seed, solve={"effort": "quick"})
    last = solve(stack).placement
    nodes = dict(stack.nodes)
    nodes["n-0001"] = nodes["n-0001"].model_copy(update={"state": "drain"})
    nodes["n-0002"] = nodes["n-0002"].model_copy(update={"state": "cordon"})
    now = solve(stack.model_copy(update={"nodes": nodes}), last)
    assert now.placement.on("n-0001") == ()
    assert {a.name for a in now.placement.on("n-0002")} <= {a.name for a in last.on("n-0002")}
    assert all(move.forced for move in now.moves if move.source == "n-0001")
    assert sum(1 for move in now.moves if not move.forced and move.target) <= stack.solve.moves


def test_a_gang_is_never_partial() -> None:
    stack = stack_of({"a": {}, "b": {}}, {"big": {"gang": 3, "each": {"gpus": 8}}, "one": {"each": {"gpus": 8}}})
    placed = Counter(a.workload for a in solve(stack).placement.allocations)
    assert placed == {"one": 1}


def test_nobody_is_ever_evicted_for_an_equal() -> None:
    small = {"replicas": 3, "each": {"gpus": 2}}
    last = solve(stack_of({"a": {}}, {"small": small})).placement
    for priority, evicted in (("normal", False), ("high", True)):
        stack = stack_of({"a": {}}, {"small": small, "big": {"each": {"gpus": 8}, "priority": priority}})
        assert any(a.workload == "big" for a in solve(stack, last).placement.allocations) is evicted


def test_moves_never_exceed_the_budget() -> None:
    halves = {w: {"each": {"gpus": 4}, "place": {"select": {"h": h}}} for w, h in (("x", "1"), ("y", "2"))}
    nodes = {"a": {"labels": {"h": "1"}}, "b": {"labels": {"h": "2"}}}
    last = solve(stack_of(nodes, halves)).placement
    free = {name: {"each": {"gpus": 4}} for name in halves}
    for budget, placed in ((0, 2), (1, 3)):
        stack = stack_of(nodes, free | {"big": {"each": {"gpus": 8}}}, solve={"moves": budget})
        found = solve(stack, last)
        assert len(found.placement.allocations) == placed
        assert len(found.moves) == budget


def test_kept_replicas_keep_their_devices() -> None:
    request = {"replicas": 2, "each": {"gpus": 2, "vcpus": 4, "pinned": True}}
    last = solve(stack_of({"a": {}}, {"w": request})).placement
    now = solve(stack_of({"a": {}}, {"w": request, "v": {"each": {"gpus": 4, "vcpus": 8, "pinned": True}}}), last).placement
    assert {a.name: a for a in last.allocations}.items() <= now.by_name().items()
    (new,) = (a for a in now.allocations if a.workload == "v")
    assert (new.cards, new.numa, new.cpus[0]) == ((4, 5, 6, 7), (1,), 64)


def test_why_names_the_smallest_conflict_with_figures() -> None:
    stack = stack_of(
        {"a": {"hardware": "l40s"}, "b": {"state": "drain"}},
        {
            "w": {"each": {"gpus": "4 x H100"}},
            "v": {"each": {"gpus": 2}},
            "u": {"user": "bo", "each": {"gpus": 2}},
        },
        limits={"except": [{"user": "bo", "gpus": 1, "until": "2030-01-01", "reason": "test"}]},
    )
    placement = solve(stack).placement
    by_name = {one.workload: one.reasons for one in placement.unplaced}
    plain = [reason for reason in by_name["w"] if not reason.besides]
    assert [r.rule for r in plain] == ["gpu_model_matches", "node_is_ready"] and plain[1].path == "nodes.b.state"
    assert [(r.rule, r.path) for r in by_name["u"]] == [("user_stays_under_limits", "limits.except[0].gpus")]
    assert why(stack, placement, "v").missing == 0
    assert solve(stack_of({}, {})).placement == Placement()
