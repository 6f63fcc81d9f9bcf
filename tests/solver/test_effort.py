"""Does a solve end when its effort is used up, whatever is left to try?"""

from __future__ import annotations

import sys

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, Solution, solve
from swarm_iac.solver.exact.effort import CHANGE
from swarm_iac.solver.repair.gpu_bounds import Bounds
from tests.solver.fleets import stack_of
from tests.solver.oracle import still

MODULE = sys.modules["swarm_iac.solver.decide.solve"]
CLEAR = sys.modules["swarm_iac.solver.decide.clearing"]


def hopeless() -> tuple[Stack, Placement]:
    """Each of twelve nodes has three GPUs left, and ten workloads want four: for none of them can room be made."""
    nodes = {f"n{i:02d}": {} for i in range(12)}
    runs = {"runs": {"replicas": 12, "each": {"gpus": 5, "vcpus": 4, "memory": "8 GB"}, "place": {"spread": "node"}}}
    new = {f"new{i}": {"each": {"gpus": 4, "vcpus": 4 + i, "memory": "8 GB"}} for i in range(10)}
    last = solve(stack_of(nodes, runs)).placement
    return stack_of(nodes, runs | new, solve={"moves": 100}), last


def rounds(monkeypatch: pytest.MonkeyPatch, effort: float) -> tuple[float, Solution]:
    """What the search of a large fleet spends of so much effort, and its answer."""
    spent: list[float] = []
    inner = MODULE.attempt

    def counted(*args: object, **rest: object) -> object:
        found = inner(*args, **rest)
        spent.append(found[0].spent)
        return found

    stack, last = hopeless()
    with monkeypatch.context() as patch:
        # Else the bounds prove at once that there is nothing to look for.
        patch.setattr(MODULE, "level_bounds", lambda *args, **rest: Bounds())
        for module in (MODULE, CLEAR):
            patch.setattr(module, "attempt", counted)
        patch.setitem(CHANGE, "normal", effort)
        solution = solve(stack, last, scale=Scale(pairs=0))
    assert judge(stack, solution.placement, **still(solution.placement, last)) == ()
    return sum(spent), solution


@pytest.mark.engine
def test_a_change_of_a_large_fleet_ends_when_its_effort_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each round had an effort of its own, and a thorough solve went on for minutes."""
    whole, answer = rounds(monkeypatch, 20.0)
    part, cut = rounds(monkeypatch, whole / 2)
    assert cut.proof.parameters["rounds"] < answer.proof.parameters["rounds"]
    assert part <= 0.7 * whole
    assert rounds(monkeypatch, whole / 2) == (part, cut), "effort is counted, not timed"
