"""Are two searches at the same time as sure as one? The same answer under any load, and an end soon after it is asked for."""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Iterator
from unittest import mock

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Goal
from swarm_iac.model.stack import Solve, Stack
from swarm_iac.solver import Solution, Watch, solve
from swarm_iac.solver.backend.cpsat import cp_model, end, improver, one_worker, run, run_together, solved
from swarm_iac.solver.exact import search
from tests.benchmarks.fleets.draw_where import more
from tests.benchmarks.fleets.draw_workloads import filled

#: Far longer than a test may take.
ENDLESS = 1000.0


def hard(seed: int = 0) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    """A knapsack that nobody proves in a minute, with a hint that is poor."""
    rng, model = random.Random(seed), cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(400)]
    for _ in range(40):
        model.add(sum(var * rng.randint(1, 1000) for var in x) <= 60_000)
    model.maximize(sum(var * rng.randint(400, 600) for var in x))
    for var in x:
        model.add_hint(var, 0)
    return model, x


def easy() -> cp_model.CpModel:
    model = cp_model.CpModel()
    x, y = model.new_int_var(0, 9, ""), model.new_int_var(0, 9, "")
    model.add(x + 2 * y <= 10)
    model.maximize(2 * x + 3 * y)
    return model


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads that take the processor from a search."""
    done = threading.Event()

    def turn() -> None:
        while not done.is_set():
            run(one_worker(0.2), hard(1)[0])

    threads = [threading.Thread(target=turn) for _ in range(3)]
    for one in threads:
        one.start()
    yield
    done.set()
    for one in threads:
        one.join()


def found_by(model: cp_model.CpModel, x: list[cp_model.IntVar]) -> list[list[int]]:
    solvers = [one_worker(0.3), improver(0.3)]
    statuses = run_together(solvers, model)
    assert all(map(solved, statuses))
    return [[solver.value(var) for var in x] for solver in solvers]


def test_each_finds_what_it_finds_alone_however_busy_the_machine_is(request: pytest.FixtureRequest) -> None:
    model, x = hard()
    alone = []
    for solver in (one_worker(0.3), improver(0.3)):
        run(solver, model)
        alone.append([solver.value(var) for var in x])
    assert found_by(model, x) == alone
    request.getfixturevalue("busy")
    assert found_by(model, x) == alone


def test_where_the_first_proves_its_answer_nobody_waits_for_the_other() -> None:
    begin = time.monotonic()
    first, other = one_worker(ENDLESS), improver(ENDLESS)
    assert run_together([first, other], easy()) == [cp_model.OPTIMAL, cp_model.UNKNOWN]
    assert first.objective_value == 19 and time.monotonic() - begin < 5


@pytest.mark.parametrize("first_too", [False, True], ids=["the other one", "both"])
def test_a_search_that_is_ended_before_it_begins_ends_at_once(first_too: bool) -> None:
    begin = time.monotonic()
    first, other = one_worker(ENDLESS if first_too else 0.2), improver(ENDLESS)
    end(other)
    if first_too:
        end(first)
    run_together([first, other], hard()[0])
    assert time.monotonic() - begin < 5


def crowded(effort: str) -> tuple[Stack, datetime.date]:
    """28 machines with 25 workloads, mostly gangs, of which one search does not prove which fit."""
    drawn = more(filled(530306, 28), 530306)
    return drawn.stack().model_copy(update={"solve": Solve(effort=effort)}), drawn.today


class Asked:
    """Counts the improvers that are asked for; each raises `error`, if one is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None = None) -> None:
        self.times, real = 0, search.improver

        def made(effort: float) -> cp_model.CpSolver:
            self.times += 1
            solver = real(effort)
            if error is not None:
                monkeypatch.setattr(solver, "solve", mock.Mock(side_effect=error("no answer")))
            return solver

        monkeypatch.setattr(search, "improver", made)


def test_one_that_improves_finds_what_one_that_proves_does_not_and_costs_only_that_where_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same proof without it, and no traceback."""
    stack, today = crowded("normal")
    both = solve(stack, today=today)
    assert judge(stack, both.placement, today=today) == ()
    assert all(goal.value == goal.bound for goal in _placed(both)), "whom it has no place for has none"
    asked = Asked(monkeypatch, IndexError)
    failed = solve(stack, today=today)
    assert asked.times and judge(stack, failed.placement, today=today) == ()
    with monkeypatch.context() as patched:
        patched.setattr(search, "improver", lambda effort: one_worker(0.0))
        alone = solve(stack, today=today)
    assert failed == alone
    assert [goal.value for goal in _placed(alone)] < [goal.value for goal in _placed(both)]


def _placed(solution: Solution) -> list[Goal]:
    return [goal for goal in solution.proof.goals if "_placed_gpu" in goal.name]


def test_ctrl_c_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """While neither would end by itself."""
    asked = Asked(monkeypatch)
    (stack, today), watch = crowded("thorough"), Watch()
    timer = threading.Timer(6.0, watch.stop)
    begin = time.monotonic()
    timer.start()
    cut = solve(stack, today=today, watch=watch)
    assert asked.times and 6.0 < time.monotonic() - begin < 10.0
    assert judge(stack, cut.placement, today=today) == () and cut.proof.parameters["cut"] == "by hand"
