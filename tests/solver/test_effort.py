"""Does a solve end when its effort is used up, whatever is left to try?"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, Solution, solve
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.bounds.gpu_bounds import Bounds
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.attempt import attempt
from swarm_iac.solver.exact.effort import FREED
from swarm_iac.solver.exact.search import stricter
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Task, classify, full_task
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of
from tests.solver.oracle import still

LARGE = sys.modules["swarm_iac.solver.decide.large"]
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
    inner = CLEAR.attempt

    def counted(*args: object, **rest: object) -> object:
        found = inner(*args, **rest)
        spent.append(found[0].spent)
        return found

    stack, last = hopeless()
    with monkeypatch.context() as patch:
        # Else the bounds prove at once that there is nothing to look for.
        patch.setattr(LARGE, "level_bounds", lambda *args, **rest: Bounds())
        patch.setattr(CLEAR, "attempt", counted)
        patch.setitem(FREED, "normal", effort)
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


def crowded_task(seed: int) -> tuple[Snapshot, Task]:
    before, now = crowded(seed)
    snapshot = snapshot_of(now, solve(before).placement)
    return snapshot, full_task(snapshot, classify(snapshot))


@pytest.mark.parametrize("seed", range(8))
def test_what_was_proven_beside_another_placement_counts_until_a_goal_is_worse(seed: int) -> None:
    """A bound holds beside what the goals before it reached: where one of these is worse, more may be possible."""
    snapshot, task = crowded_task(seed)
    whole = attempt(snapshot, task, possible(snapshot), None, True, Watch())[0].scores
    assert all(value == bound for _, value, bound in whole), "small enough to be proven"
    without = attempt(snapshot, task, possible(snapshot), Counter(), True, Watch(), measured=True)[0].scores
    worse = False
    for (aim, value, bound), (_, _, counted), (_, best, _) in zip(stricter(without, whole), without, whole, strict=True):
        assert bound == (counted if worse else best), aim.name
        worse = worse or aim.sense * value < aim.sense * best
    assert worse


class Searches(Watch):
    """Which goals are searched for?"""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def solve(self, aim: Aim, solver: cp_model.CpSolver, model: cp_model.CpModel, *, proves: bool) -> cp_model.CpSolverStatus:
        self.names.append(aim.name)
        return super().solve(aim, solver, model, proves=proves)


@pytest.mark.parametrize(("seed", "stops"), [(1, False), (2, False), (3, False), (7, True)])
def test_what_would_stop_is_searched_for_when_all_other_effort_is_used_up(seed: int, stops: bool) -> None:
    """And nothing else is, unless something stops: then it matters who takes its place, and who moves for that."""
    snapshot, task = crowded_task(seed)
    most, watch = possible(snapshot), Searches()
    whole, counts, _ = attempt(snapshot, task, most, None, True, Watch())
    new = Counter({pair: count for pair, count in counts.items() if pair[0] not in snapshot.running})
    scores = attempt(snapshot, task, most, new, True, watch, left=0.0, keeping=30.0)[0].scores
    on_runs = tuple(aim.name for aim, _, _ in whole.scores if aim.runs)
    assert [value for aim, value, _ in scores if aim.runs] == [value for aim, value, _ in whole.scores if aim.runs]
    assert any(aim.runs and value < aim.best for aim, value, _ in scores) == stops
    assert any(not name.startswith(on_runs) for name in watch.names) == stops
    assert watch.names and attempt(snapshot, task, most, new, True, watch, left=0.0)[1] == new


def test_where_nothing_more_is_placed_nothing_is_tidied_if_only_gains_are_asked_for() -> None:
    snapshot, task = crowded_task(1)
    most = possible(snapshot)

    def tidied(start: Counter[tuple[str, str]], *, gaining: bool) -> bool:
        watch = Searches()
        found = attempt(snapshot, task, most, start, True, watch, gaining=gaining)[0]
        others = {aim.name for aim, _, _ in found.scores if aim.places is None and not aim.due}
        return not others.isdisjoint(watch.names)

    best = attempt(snapshot, task, most, None, True, Watch())[1]
    assert tidied(Counter(), gaining=True), "much is placed"
    assert tidied(best, gaining=False) and not tidied(best, gaining=True)


def test_what_the_teams_around_hold_at_most_is_not_proven_again_of_those_inside() -> None:
    """No node holds two of the jobs, so teams hold less than they are due, which a search alone shows."""
    inside = {"one": "east", "two": "east", "three": "west", "four": "west"}
    teams: dict[str, Any] = {team: {"parent": outer, "users": [f"user-{team}"]} for team, outer in inside.items()}
    teams |= {outer: {"share": 1, "users": []} for outer in ("east", "west")}
    each = {"gpus": 5, "vcpus": 4, "memory": "8 GB"}
    workloads = {team: {"user": f"user-{team}", "replicas": 4, "each": each} for team in inside}
    nodes: dict[str, Any] = {f"n{i}": {} for i in range(4)}
    last = solve(stack_of(nodes, {team: one | {"replicas": 1} for team, one in workloads.items()}, teams=teams)).placement
    watch = Searches()
    solution = solve(stack_of(nodes, workloads, teams=teams), last, watch=watch)
    proven = {goal.name: (goal.value, goal.bound) for goal in solution.proof.goals}
    assert proven["normal_share"] == proven["normal_share_2"] == (20, 20)
    assert "normal_share" in watch.names and "normal_share_2" not in watch.names
