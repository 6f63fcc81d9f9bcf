"""Is the curve of a rebalance what its moves would do: within the budget, never worse with more, allowed by the judge?"""

from __future__ import annotations

import itertools

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Watch, solve
from swarm_iac.solver.advice.move_curve import Point, budgets, curve, gained, share
from swarm_iac.solver.exact.figures import rank
from tests.solver.crowded import crowded
from tests.solver.fleets import some_fleet, stack_of


def fragmented() -> tuple[Stack, Placement]:
    """Two nodes with 3 + 3 of 8 GPUs taken, a third with 1 + 1: room for 8 in all, and on no node."""
    homes = {"w0": "0", "w1": "0", "w2": "1", "w3": "1", "v0": "2", "v1": "2"}
    nodes = {f"n{i}": {"labels": {"n": str(i)}} for i in range(3)}
    requests = {name: {"each": {"gpus": 3 if name[0] == "w" else 1}} for name in homes}
    pinned = {name: {**request, "place": {"select": {"n": homes[name]}}} for name, request in requests.items()}
    return stack_of(nodes, requests | {"big": {"each": {"gpus": 8}}}), solve(stack_of(nodes, pinned)).placement


@pytest.mark.parametrize("seed", range(12))
def test_more_moves_are_never_worse_and_no_point_exceeds_its_budget(seed: int) -> None:
    before, stack = crowded(seed)
    last = solve(before).placement
    points = curve(stack, last, None)
    assert [one.budget for one in points] == list(budgets(points[-1].budget))
    for one, more in itertools.pairwise(points):
        assert rank(one.values) <= rank(more.values)
    for one in points:
        assert one.moves <= one.budget
        where = {a.name: a.node for a in last.allocations}
        kept = frozenset(a.name for a in one.solution.placement.allocations if where.get(a.name) == a.node)
        assert judge(stack, one.solution.placement, kept=kept) == ()


@pytest.mark.parametrize("seed", range(4))
def test_the_last_point_is_the_rebalance_of_all(seed: int) -> None:
    stack = some_fleet(5, 12, seed, solve={"effort": "quick"})
    nodes = {
        name: node.model_copy(update={"state": "drain"}) if name == "n-0001" else node for name, node in stack.nodes.items()
    }
    last = solve(stack.model_copy(update={"nodes": nodes})).placement
    points = curve(stack, last, None)
    free = solve(stack, last, repair=False)
    count = sum(1 for move in free.moves if move.target and not move.forced)
    assert points[-1].budget == count
    assert len({a.node for a in points[-1].solution.placement.allocations}) <= len({a.node for a in free.placement.allocations})


def test_two_moves_cure_what_no_single_move_does() -> None:
    stack, last = fragmented()
    assert [one.values["normal_gpus"] for one in curve(stack, last, None)][:3] == [14, 14, 22]


@pytest.mark.parametrize("after", range(1, 5))
def test_ended_early_it_keeps_the_points_that_were_solved_to_their_end(after: int) -> None:
    stack, last = fragmented()
    whole = curve(stack, last, None)
    watch, heard, tried = Watch(), list[tuple[Point, ...]](), list[str]()

    def tell(text: str) -> None:
        tried.append(text)
        if len(tried) == after:
            watch.stop()

    points = curve(stack, last, None, tell, heard.append, watch)
    assert len(tried) == after
    assert points == (heard[-1] if heard else ())
    known = [one.values for one in whole]
    assert [one.values for one in points][: after - 2] == known[: max(0, after - 2)]
    assert all(one.values in known for one in points) and bool(points) == (after > 2)


def test_budgets_are_every_number_and_then_grow_by_half() -> None:
    assert budgets(0) == (0,)
    assert budgets(4) == (0, 1, 2, 3, 4)
    found = budgets(100)
    assert found[:13] == tuple(range(13)) and found[-1] == 100
    assert all(later <= 1.5 * earlier for earlier, later in itertools.pairwise(found[4:]))


def test_share_of_the_gain_runs_from_nothing_to_all() -> None:
    halves = {name: {"each": {"gpus": 4}, "place": {"select": {"h": h}}} for name, h in (("x", "1"), ("y", "2"))}
    nodes = {"a": {"labels": {"h": "1"}}, "b": {"labels": {"h": "2"}}}
    last = solve(stack_of(nodes, halves)).placement
    points = curve(stack_of(nodes, {name: {"each": {"gpus": 4}} for name in halves}), last, None)
    assert gained(points) == ("nodes",)
    assert [share(points, i, "nodes") for i in range(len(points))] == [0.0, 1.0]
    assert [one.values["nodes"] for one in points] == [2, 1]
