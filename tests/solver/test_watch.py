"""Does whoever watches see the goals improve, change nothing, and keep the best so far?"""

from __future__ import annotations

import random
import time

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Goal, Placement
from swarm_iac.solver import Scale, Watch, solve
from swarm_iac.solver.backend.cpsat import cp_model, ended_by, one_worker, run
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.watch import goals_of
from tests.solver.fleets import some_fleet


@pytest.mark.parametrize("seed", range(3))
def test_watching_changes_nothing_and_ends_with_what_the_proof_says(seed: int) -> None:
    stack = some_fleet(8, 30, seed, solve={"effort": "quick"})
    told: list[Goal] = []
    watched = solve(stack, watch=Watch(told.extend))
    assert watched == solve(stack)
    assert len(told) > len(watched.proof.goals), "something improved on the way"
    assert {goal.name: goal for goal in told} == {goal.name: goal for goal in watched.proof.goals}


@pytest.mark.parametrize("gpus", [9, 12], ids=["some GPUs are open", "none are"])
def test_no_more_replicas_are_promised_than_there_are(gpus: int) -> None:
    """Of 94 at this priority four ran, with 3 GPUs each. What bounds GPUs alone is a sum with any number of replicas."""
    base = 1 + 94
    aim = Aim("normal_stay", [], 0, 1, best=12 * base + 4, base=base)
    of_gpus, of_replicas = goals_of(aim, gpus * base + 3, 12 * base + 94)
    assert (of_gpus.value, of_gpus.bound) == (gpus, 12)
    assert (of_replicas.value, of_replicas.bound) == (3, 4)


def test_no_goal_told_is_ever_beyond_its_bound() -> None:
    told: list[Goal] = []
    solve(some_fleet(8, 30, 2, solve={"effort": "quick"}), watch=Watch(told.extend))
    for goal in told:
        if goal.name in ("moves", "shifts", "overqualification", "nodes"):
            assert goal.value >= goal.bound
        else:
            assert goal.value <= goal.bound


@pytest.mark.parametrize("after", [0, 1, 3, 8])
def test_a_stopped_search_keeps_the_best_so_far_and_its_proof_says_so(after: int) -> None:
    stack = some_fleet(8, 30, 4)
    told: list[tuple[Goal, ...]] = []

    def tell(goals: tuple[Goal, ...]) -> None:
        told.append(goals)
        if len(told) > after:
            watch.stop()

    watch = Watch(tell)
    cut = solve(stack, watch=watch)
    assert judge(stack, cut.placement) == ()
    assert cut.placement.allocations
    assert cut.proof.parameters["cut"] == "by hand"
    assert not cut.proof.optimal
    assert "cut" not in solve(stack).proof.parameters


@pytest.mark.parametrize("large", [False, True], ids=["exact", "large"])
@pytest.mark.parametrize("change", [False, True], ids=["from nothing", "change"])
def test_a_search_that_is_stopped_before_it_begins_still_answers(large: bool, change: bool) -> None:
    """Ctrl-C while the stack is still being read; what runs goes on as it was."""
    before, stack = some_fleet(8, 20, 4), some_fleet(8, 30, 4)
    last = solve(before).placement if change else Placement()
    watch = Watch()
    watch.stop()
    cut = solve(stack, last, watch=watch, scale=Scale(pairs=0, nodes=0) if large else Scale())
    assert judge(stack, cut.placement) == ()
    assert len(cut.placement.allocations) >= max(1, len(last.allocations))
    assert cut.moves == ()
    assert cut.proof.parameters["cut"] == "by hand"


@pytest.mark.parametrize("change", [False, True], ids=["from nothing", "change"])
def test_whenever_a_large_fleet_is_stopped_it_answers_without_what_nobody_waits_for(change: bool) -> None:
    """At the beginning of each of its phases: what runs goes on, no bound is below what the whole search reached."""
    drawn = some_fleet(8, 40, 4)
    changed = {"priority": "normal"}  # else those that run might stop
    works = {
        name: one.model_copy(update=changed | {"place": one.place.model_copy(update={"near": "rack"})})
        for name, one in sorted(drawn.workloads.items())
    }
    stack = drawn.model_copy(update={"workloads": works})
    few = dict(list(works.items())[:20])
    last = solve(stack.model_copy(update={"workloads": few})).placement if change else Placement()
    scale, phases = Scale(pairs=0, nodes=0), list[str]()
    watch = Watch()
    watch.phase = phases.append
    whole = solve(stack, last, watch=watch, scale=scale)
    assert whole.placement.unplaced and len(phases) > 4
    assert change or "improving the placement" in phases
    reached = next(goal.value for goal in whole.proof.goals if "placed_gpu" in goal.name)
    assert phases.pop().startswith("finding the reasons")
    for phase in phases:
        watch, begun = Watch(), list[str]()

        def begins(text: str, watch: Watch = watch, phase: str = phase, begun: list[str] = begun) -> None:
            if watch.stopped:
                begun.append(text)
            elif text == phase:
                watch.stop()

        watch.phase = begins
        cut = solve(stack, last, watch=watch, scale=scale)
        assert "improving the placement" not in begun, phase
        assert judge(stack, cut.placement) == () and cut.proof.parameters["cut"] == "by hand", phase
        assert {a.name for a in last.allocations} <= {a.name for a in cut.placement.allocations}, phase
        goals = {goal.name: goal for goal in cut.proof.goals}
        assert next(goal.bound for goal in cut.proof.goals if "placed_gpu" in goal.name) >= reached, phase
        assert goals["near"].bound <= next(goal.value for goal in whole.proof.goals if goal.name == "near"), phase
        assert {reason.rule for one in cut.placement.unplaced for reason in one.reasons} == {"effort"}, phase


def test_a_search_without_goals_ends_soon_after_somebody_says_so() -> None:
    """One that nothing is told of, such as whole columns of those that stay."""
    rng, model = random.Random(0), cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(400)]
    for _ in range(40):
        model.add(sum(var * rng.randint(1, 1000) for var in x) <= 60_000)
    model.maximize(sum(var * rng.randint(400, 600) for var in x))
    begin = time.monotonic()
    solver = one_worker(1000.0)
    with ended_by(solver.stop_search, lambda: time.monotonic() - begin > 0.5):
        run(solver, model)
    assert 0.5 < time.monotonic() - begin < 2.0
