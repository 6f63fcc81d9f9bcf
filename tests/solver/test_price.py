"""Is a bound on what one node carries a bound, also where there is no time to look?"""

from __future__ import annotations

import random

from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Keep, Kind, Problem, Shape


def drawn(rng: random.Random) -> Problem:
    """Kinds with and without GPUs, parts of GPUs among them, on a node that may have nothing of a resource."""
    kinds = tuple(
        Kind(
            worth=0,
            count=rng.randint(1, 6),
            cards=(cards := rng.choice((0, 0, 1, 2, 4))),
            share=rng.choice((1000, 1000, 500, 300)) if cards == 1 else 1000,
            need=tuple(rng.choice((0, 0, 1, 3, 7)) for _ in range(3)),
            most=rng.choice((0, 0, 1)),
            value=rng.choice((1, 5, 40, 300)),
        )
        for _ in range(rng.randint(1, 7))
    )
    keeps = tuple(Keep(k, rng.randint(1, 3), rng.choice((1, 50))) for k in range(len(kinds)) if rng.random() < 0.3)
    capacity = tuple(rng.choice((0, 4, 15, 30)) for _ in range(3))
    shape = Shape(1, rng.choice((0, 1, 4, 8)), capacity, tuple(range(len(kinds))), keeps=keeps)
    return Problem(kinds, (shape,), ())


def test_the_bound_without_a_search_is_never_below_what_a_search_finds() -> None:
    rng = random.Random(1)
    telling = 0
    for number in range(400):
        problem = drawn(rng)
        pricer = Pricer(problem, 0)
        prices = [rng.choice((0.0, 0.0, 2.5, 60.0)) for _ in problem.kinds]
        best, loose = pricer.best(prices), pricer.loose(prices)
        carried = problem.value(problem.shapes[0], best.pattern) - sum(prices[k] * count for k, count in best.pattern)
        assert loose.bound >= carried - 1e-6, (number, problem, prices, best.pattern)
        assert best.bound >= carried - 1e-6, (number, problem, prices, best.pattern)
        telling += carried > 0 and loose.bound < 1.5 * carried
    assert telling > 100  # it says something
