"""Is a fleet answered as a lab writes it? Racks with power and uplinks, gangs, three priorities, limits, pinned cores.

Once the linear program over its three priorities spanned ten decades, GLOP gave up, and the solve ended in a traceback.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve
from swarm_iac.stackfile import load
from tests.solver.oracle import as_large, still

pytestmark = pytest.mark.engine

TODAY = datetime.date(2026, 11, 22)
FILE = Path(__file__).parent / "lab.yaml"


@pytest.fixture(scope="module")
def lab() -> Stack:
    """40 machines, 60 workloads."""
    return load(FILE, today=TODAY).stack


@pytest.fixture(scope="module")
def answer(lab: Stack) -> Solution:
    """From nothing."""
    return solve(lab, today=TODAY)


def gap(solution: Solution) -> float:
    """The part of the GPUs that could be placed at most and are not."""
    goals = [goal for goal in solution.proof.goals if goal.name.endswith("_placed_gpus")]
    return 1 - sum(goal.value for goal in goals) / sum(goal.bound for goal in goals)


@pytest.mark.parametrize("path", ["small", "large"])
def test_from_nothing_it_is_filled_close_to_its_bound(lab: Stack, answer: Solution, path: str) -> None:
    solution = answer if path == "small" else as_large(lab)
    assert judge(lab, solution.placement, TODAY) == ()
    assert gap(solution) <= 0.05
    goals = {goal.name: goal for goal in solution.proof.goals}
    assert goals["high_placed_gpus"].value == goals["high_placed_gpus"].bound


def test_the_same_answer_every_time(lab: Stack, answer: Solution) -> None:
    assert solve(lab, today=TODAY) == answer


@pytest.mark.parametrize("node", ["h-05", "l-03", "c-02"])
def test_a_drained_node_moves_what_stands_there_and_nobody_without_need(lab: Stack, answer: Solution, node: str) -> None:
    drained = lab.nodes[node].model_copy(update={"state": "drain"})
    stack = lab.model_copy(update={"nodes": lab.nodes | {node: drained}})
    solution = solve(stack, answer.placement, today=TODAY)
    assert judge(stack, solution.placement, TODAY, **still(solution.placement, answer.placement)) == ()
    moved = [move for move in solution.moves if move.target and not move.forced]
    assert len(moved) <= stack.solve.moves
    assert not solution.placement.on(node)


def test_nothing_changes_where_nothing_changed(lab: Stack, answer: Solution) -> None:
    again = solve(lab, answer.placement, today=TODAY)
    assert again.placement.allocations == answer.placement.allocations
    assert again.moves == ()


def test_an_empty_last_placement_is_from_nothing(lab: Stack, answer: Solution) -> None:
    assert solve(lab, Placement(), today=TODAY).placement == answer.placement
