"""No price makes the linear bound lower than what a model can gain, and good prices make it what its linear program gains."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from swarm_iac.solver.backend import linear_relaxation
from swarm_iac.solver.backend.cpsat import cp_model, one_worker
from swarm_iac.solver.backend.linear_relaxation import linear_bound


def drawn(seed: int) -> cp_model.CpModel:
    """A few variables under rows of both kinds, all with an answer: what is asked at least is below one drawn point."""
    chance = random.Random(seed)
    model = cp_model.CpModel()
    tops = [chance.randint(0, 9) for _ in range(chance.randint(1, 6))]
    x = [model.new_int_var(0, top, "") for top in tops]
    point = [chance.randint(0, top) for top in tops]
    for _ in range(chance.randint(1, 6)):
        amounts = [chance.choice((0, 1, 2, 5, -1, 4000)) for _ in x]
        there = sum(a * p for a, p in zip(amounts, point, strict=True))
        load = cp_model.LinearExpr.weighted_sum(x, amounts)
        if any(amounts):
            model.add(load <= there + chance.randint(0, 3)) if chance.random() < 0.7 else model.add(load >= there)
    model.maximize(cp_model.LinearExpr.weighted_sum(x, [chance.choice((0, 1, 250, 8000)) for _ in x]))
    return model


def gained(model: cp_model.CpModel) -> float:
    solver = one_worker()
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


@pytest.mark.parametrize("seed", range(150))
def test_no_answer_gains_more(seed: int) -> None:
    model = drawn(seed)
    bound = linear_bound(model)
    assert bound is not None and bound >= gained(model)


def test_it_is_the_optimum_of_the_linear_program() -> None:
    model = cp_model.CpModel()
    x, y = model.new_int_var(0, 5, ""), model.new_int_var(0, 5, "")
    model.add(2 * x + 3 * y <= 7)
    model.add(x + y >= 1)
    model.maximize(3 * x + 4 * y)
    assert linear_bound(model) == pytest.approx(10.5)  # x = 3.5


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_prices_say_it_stays_a_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is wrong costs some of the bound, and never makes it false."""
    chance = np.random.default_rng(seed)
    monkeypatch.setattr(
        linear_relaxation, "_prices", lambda gain, top, rows, least, most, stop: chance.normal(0, 50, len(least))
    )
    model = drawn(seed)
    bound = linear_bound(model)
    assert bound is not None and bound >= gained(model)


def test_without_prices_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object, **named: object) -> None:
        raise AttributeError("what OR-Tools' wrapper raises of an engine that failed")

    monkeypatch.setattr(linear_relaxation.mathopt, "solve", fails)
    assert linear_bound(drawn(1)) is None


def test_a_large_one_ends_when_somebody_stops_it() -> None:
    chance, model = random.Random(1), cp_model.CpModel()
    x = [model.new_int_var(0, 50, "") for _ in range(12_000)]
    for _ in range(700):
        some = chance.sample(x, 400)
        model.add(cp_model.LinearExpr.weighted_sum(some, [chance.randint(1, 90) for _ in some]) <= 5000)
    model.maximize(cp_model.LinearExpr.weighted_sum(x, [chance.randint(1, 99) for _ in x]))
    begin = time.monotonic()
    assert linear_bound(model) is not None
    whole = time.monotonic() - begin
    rows = len(model.proto.constraints)
    for before in (rows // 2, rows):  # while it is written down; as soon as it is solved
        begin, asked = time.monotonic(), iter([False] * before)
        assert linear_bound(model, lambda asked=asked: next(asked, True)) is None
        assert time.monotonic() - begin < whole / 2
