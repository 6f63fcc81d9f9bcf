"""Do kinds that may take each other's places hold as much as each for itself, and never more than there is of them?"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from ortools.graph.python import max_flow
from ortools.sat.python import cp_model

from swarm_iac.solver.columns import whole_fleet
from swarm_iac.solver.columns.generation import generate, hosts
from swarm_iac.solver.columns.interchangeable import Interchangeable, interchangeable
from swarm_iac.solver.columns.master import Master
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Kind, Pattern, Problem, Row, Shape, wanted_rows
from swarm_iac.solver.columns.takers import Takers
from swarm_iac.solver.columns.whole_fleet import bound_of, fill_fleet


def drawn(rng: random.Random) -> Problem:
    """Few needs and many kinds of each, which differ in the shapes that suit them and in the limits that count them."""
    needs = [(cards, share, rng.choice((1, 2, 3))) for cards, share in ((1, 1000), (2, 1000), (1, 500), (1, 300), (0, 1000))]
    kinds = []
    for cards, share, vcpus in (rng.choice(needs) for _ in range(rng.randint(4, 9))):
        value = cards * share or 10
        kinds.append(Kind(value, rng.randint(1, 4), cards, share, (vcpus,), value=value))
    shapes = tuple(
        Shape(
            rng.randint(1, 3),
            rng.choice((1, 2, 4)),
            (rng.randint(2, 9),),
            tuple(k for k in range(len(kinds)) if rng.random() < 0.7),
        )
        for _ in range(rng.randint(1, 3))
    )
    limits = []
    for _ in range(rng.randint(0, 2)):
        counted = [k for k in range(len(kinds)) if rng.random() < 0.5]
        if counted:
            limits.append(Row(rng.randint(1, 6), tuple((k, rng.randint(1, 2)) for k in counted)))
    return Problem(tuple(kinds), shapes, wanted_rows(tuple(kinds)) + tuple(limits))


def most(problem: Problem) -> int:
    """What any placement gains, card by card."""
    model = cp_model.CpModel()
    placed = []
    for h, shape in enumerate(problem.shapes):
        for _ in range(shape.count):
            cards: list[list[cp_model.LinearExprT]] = [[] for _ in range(shape.cards)]
            here: list[tuple[int, cp_model.IntVar]] = []
            for k in shape.fits:
                kind = problem.kinds[k]
                count = model.new_int_var(0, kind.count, "")
                on = [model.new_int_var(0, kind.count, "") for _ in range(shape.cards)] if kind.cards else []
                for card, var in zip(cards, on, strict=False):
                    card.append(kind.share * var)
                if on or kind.cards:
                    model.add(sum(on) == kind.cards * count)
                here.append((k, count))
            for card in cards:
                model.add(sum(card) <= 1000)
            model.add(sum(problem.kinds[k].need[0] * count for k, count in here) <= shape.capacity[0])
            placed += [(h, k, count) for k, count in here]
    for row in problem.rows:
        amounts = dict(row.amounts)
        model.add(sum(amounts.get(k, 0) * count for _, k, count in placed) <= row.limit)
    model.maximize(sum(problem.kinds[k].value * count for _, k, count in placed))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


@pytest.mark.parametrize("part", range(4))
def test_a_bound_holds_and_a_fill_stays_within_every_row(part: int) -> None:
    rng = random.Random(part)
    merged = tight = 0
    for _ in range(40):
        problem = drawn(rng)
        merged += interchangeable(problem).problem is not problem
        best = most(problem)
        assert bound_of(problem, rounds=30).bound >= best - 1e-6
        filled = fill_fleet(problem, rounds=30)
        assert filled.value <= best <= filled.bound + 1e-6
        tight += filled.value == best
        counts: Counter[int] = Counter()
        for shape, nodes in zip(problem.shapes, filled.nodes, strict=True):
            assert len(nodes) == shape.count
            for node in nodes:
                assert {k for k, _ in node} <= set(shape.fits)
                counts.update(dict(node))
        for row in problem.rows:
            assert sum(amount * counts[k] for k, amount in row.amounts) <= row.limit
    assert merged > 20 and tight > 30  # it says something


def test_as_many_places_are_taken_as_a_flow_fills() -> None:
    rng = random.Random(1)
    aside = 0
    for number in range(300):
        problem = drawn(rng)
        problem = Problem(problem.kinds, problem.shapes, wanted_rows(problem.kinds))
        seen = interchangeable(problem)
        takers = Takers(seen)
        places: Counter[tuple[int, int]] = Counter()
        for _ in range(rng.randint(1, 8)):
            h = rng.randrange(len(problem.shapes))
            suited = seen.problem.shapes[h].fits
            pattern: Pattern = tuple((one, rng.randint(1, 2)) for one in suited if rng.random() < 0.5)
            takers.take(h, pattern)
            for one, count in pattern:
                places[h, one] += count
        named: Counter[tuple[int, int]] = Counter()
        for (h, nodes), times in takers.named().items():
            for kind, count in nodes:
                named[h, kind] += count * times
        for (h, kind), count in named.items():
            assert kind in problem.shapes[h].fits and count > 0
        for k, one_kind in enumerate(problem.kinds):
            assert sum(count for (_, one), count in named.items() if one == k) <= one_kind.count, number
        for one, members in enumerate(seen.classes):
            flow = max_flow.SimpleMaxFlow()
            for k in members:
                flow.add_arc_with_capacity(0, 2 + k, problem.kinds[k].count)
                for h in range(len(problem.shapes)):
                    if k in problem.shapes[h].fits:
                        flow.add_arc_with_capacity(2 + k, 100 + h, 1000)
            for h in range(len(problem.shapes)):
                flow.add_arc_with_capacity(100 + h, 1, places[h, one])
            assert flow.solve(0, 1) == flow.OPTIMAL
            taken = sum(count for (_, kind), count in named.items() if kind in members)
            assert taken == flow.optimal_flow(), (number, one)
            aside += len(members) > 1 and 0 < taken < sum(places[h, one] for h in range(len(problem.shapes)))
    assert aside > 30  # some places stay free


def test_all_places_of_a_node_or_none() -> None:
    """Two kinds need the same; the first suits both shapes, the second the first alone, and there is one of each."""
    kinds = tuple(Kind(1000, 1, 1, 1000, (1,), value=1000) for _ in range(2))
    problem = Problem(kinds, (Shape(1, 2, (9,), (0, 1)), Shape(1, 2, (9,), (0,))), wanted_rows(kinds))
    takers = Takers(interchangeable(problem))
    assert takers.take(0, ((0, 1),), whole=True)  # by the first kind
    assert not takers.take(1, ((0, 2),), whole=True)
    assert takers.take(1, ((0, 1),), whole=True)  # the first steps aside for the second
    assert takers.named() == {(0, ((1, 1),)): 1, (1, ((0, 1),)): 1}


def test_what_a_shape_carries_its_hosts_carry() -> None:
    """Also where a shape holds only so many of a kind."""
    rng = random.Random(2)
    others = 0
    for _ in range(200):
        problem = drawn(rng)
        kinds, shapes = problem.kinds, problem.shapes
        shapes = (*shapes, *(Shape(1, shape.cards, shape.capacity, shape.fits) for shape in shapes))
        shapes = tuple(
            Shape(
                shape.count, shape.cards, shape.capacity, shape.fits,
                tuple((k, rng.randint(0, 2)) for k in shape.fits if rng.random() < 0.3),
            )
            for shape in shapes
        )  # fmt: skip
        problem = Problem(kinds, shapes, problem.rows)
        for h, carrying in enumerate(hosts(shapes)):
            pattern = Pricer(problem, h).best([0.0] * len(kinds)).pattern
            for g in carrying:
                tops = Pricer(problem, g).tops
                assert all(count <= tops.get(k, 0) for k, count in pattern)
                others += g != h and bool(pattern and shapes[g].tops)
    assert others > 50


def test_a_bound_is_one_at_any_prices_and_as_good_as_with_each_kind_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    merged = 0
    for number in range(60):
        problem = drawn(rng)
        seen, best = interchangeable(problem), most(problem)
        small = seen.problem
        pricers = [Pricer(small, h) for h in range(len(small.shapes))]
        prices = tuple(rng.choice((0.0, 5.0, 300.0, 900.0)) for _ in small.rows)
        found = generate(small, Master(small), pricers, rounds=1, slack=0.0, prices=prices)
        assert found.bound >= best - 1e-6, number
        if small is not problem:
            merged += 1
            together = bound_of(problem, rounds=60).bound
            with monkeypatch.context() as each:
                alone = Interchangeable(problem, problem, tuple((k,) for k in range(len(problem.kinds))), ())
                each.setattr(whole_fleet, "interchangeable", lambda _, alone=alone: alone)
                assert together == pytest.approx(bound_of(problem, rounds=60).bound, abs=5.0), number
    assert merged > 30
