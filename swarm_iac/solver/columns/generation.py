"""Which columns are worth having, and what can no placement exceed?

Columns are priced at a mixture of the master's prices and of those with the best bound so far (smoothing after
Wentges, 1997). For prices π ≥ 0 of the rows no placement is worth more than

    Σ_r limit_r · π_r + Σ_h count_h · best_h(π)              (Lagrange; Farley's bound is a special case)

and best_h is replaced by an upper bound of itself, so the figure is a proof whatever was left unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from swarm_iac.solver.backend.time_limit import COLUMN, PRICED, TimeLimit
from swarm_iac.solver.columns.master import Master, Mix
from swarm_iac.solver.columns.pricing import Priced, Pricer
from swarm_iac.solver.columns.problem import Cap, Problem, Shape

#: Part of the best prices in the mixture.
SMOOTH = 0.5
#: Shapes that promise less than this part of the mix's value wait for the next whole round.
PROMISE = 1e-3
#: Shapes that are priced at the same time, each by a solver of one worker; the answer does not depend on it.
WORKERS = 2
#: Every so many rounds prices all shapes.
EVERY = 4


def hosts(shapes: tuple[Shape, ...]) -> list[list[int]]:
    """For each shape itself and those whose nodes can carry whatever one of its own can."""
    if not shapes:
        return []
    capacities = np.array([(shape.cards, *shape.capacity) for shape in shapes], dtype=np.int64)
    open_ = np.array([shape.count > 0 for shape in shapes], dtype=bool)
    fits, tops = [frozenset(shape.fits) for shape in shapes], [dict(shape.tops) for shape in shapes]

    def carries(g: int, h: int) -> bool:
        return g == h or (fits[h] <= fits[g] and all(tops[h].get(kind, top + 1) <= top for kind, top in tops[g].items()))

    larger = ((capacities >= capacity).all(axis=1) & open_ for capacity in capacities)
    return [[g for g in sorted({h, *np.flatnonzero(found).tolist()}) if carries(g, h)] for h, found in enumerate(larger)]


@dataclass
class Generated:
    """Where column generation stands: the last mix, the bound, and the prices that gave it."""

    mix: Mix
    bound: float
    prices: tuple[float, ...]
    rounds: int = 0
    caps: tuple[Cap, ...] = ()  # what nodes of each shape carry at most, at the prices of the bound


def generate(
    problem: Problem,
    master: Master,
    pricers: list[Pricer],
    *,
    rounds: int,
    slack: float,
    prices: tuple[float, ...] | None = None,
    bound: float = float("inf"),
    stop: TimeLimit = TimeLimit(),
    tell: Callable[[float], None] = lambda bound: None,
    known: float = float("inf"),
) -> Generated:
    """Add columns until mix and bound are within `slack` of each other, nothing is found, or the rounds are used up.

    A round prices the shapes that were worth most last time; every EVERY-th round, and whenever those find nothing,
    prices all and gives a bound, which is reported. Where the mix reaches `known`, another bound, none from here is lower:
    nothing more is priced.
    """
    shapes = problem.shapes
    others = hosts(shapes)
    mix = master.solve()
    state = Generated(mix, bound, mix.rows if prices is None else prices)
    if mix.value >= known:
        return state
    smooth = SMOOTH
    expected = [float("inf") if shape.count else -1.0 for shape in shapes]
    whole, centre, ending = True, float("inf"), False
    with ThreadPoolExecutor(WORKERS) as pool:  # CP-SAT works outside Python's lock; the answers come back in order
        for state.rounds in range(1, rounds + 1):
            mixed = tuple(smooth * best + (1 - smooth) * now for best, now in zip(state.prices, mix.rows, strict=True))
            mixed = tuple(min(at, row.over or at) for at, row in zip(mixed, problem.rows, strict=True))
            charges, true = master.charges(mixed), _Charged(master, mix.rows)
            total = sum(row.limit * price for row, price in zip(problem.rows, mixed, strict=True)) + _taking(problem, mixed)
            least = 0.0 if whole else PROMISE * abs(mix.value)
            added = 0
            caps: list[Cap] = []
            asked = [h for h in range(len(shapes)) if expected[h] >= least]
            charged = {h: master.charged(h, charges, mixed) for h in asked}
            for h, priced in _priced(pool, pricers, charged, stop, expected):
                caps.append(_cap(problem, h, charged[h], priced.bound))
                total += shapes[h].count * priced.bound
                stop.spend(priced.spent + _cost(pricers[h], stop))
                expected[h] = 0.0
                for other in others[h]:
                    now = true.on(other)
                    cost = sum(now[kind] * count for kind, count in priced.pattern)
                    gain = problem.value(shapes[other], priced.pattern) - cost - mix.nodes[other]
                    if gain > 1e-6 * problem.unit:
                        expected[other] = max(expected[other], gain * shapes[other].count)
                        added += master.add(other, priced.pattern)
            if whole and total < centre:
                centre, state.prices, state.caps = total, mixed, tuple(caps)
                state.bound = min(state.bound, total)
                tell(state.bound)
            state.mix = mix = master.solve() if added else mix
            stop.spend(COLUMN * len(master.columns))
            if state.bound - mix.value <= slack or ending or master.failed or mix.value >= known:
                break
            ending = stop()
            if whole and not added:
                if not smooth:
                    break
                smooth = 0.0 if smooth < 0.2 else smooth / 2
            elif added:
                smooth = SMOOTH
            whole = ending or not added or state.rounds % EVERY == 0  # the last round gives a bound, too
    return state


def _taking(problem: Problem, prices: tuple[float, ...]) -> float:
    """What members gain at most by taking places at these prices: nothing, where the program's own are exact."""
    most: dict[int, float] = {}
    for member in problem.members:
        gain = -sum(prices[row] * amount for row, amount in member.uses)
        most[member.kind] = max(most.get(member.kind, 0.0), gain * member.most)
    return sum(most.values())


def _cap(problem: Problem, shape: int, charged: tuple[float, ...], best: float) -> Cap:
    gains = tuple(kind.value - charge for kind, charge in zip(problem.kinds, charged, strict=True))
    return Cap(shape, gains, problem.shapes[shape].count * best)


class _Charged:
    """What the rows charge for one replica of each kind, at the prices of one round; each shape is looked up once."""

    def __init__(self, master: Master, rows: tuple[float, ...]) -> None:
        self.master, self.rows, self.everywhere = master, rows, master.charges(rows)
        self.known: dict[int, tuple[float, ...]] = {}

    def on(self, shape: int) -> tuple[float, ...]:
        """On a node of the shape."""
        if shape not in self.known:
            self.known[shape] = self.master.charged(shape, self.everywhere, self.rows)
        return self.known[shape]


def _cost(pricer: Pricer, stop: TimeLimit) -> float:
    """Deterministic time of writing one pricing problem down."""
    return PRICED + stop.kind * len(pricer.tops)


def _priced(
    pool: ThreadPoolExecutor,
    pricers: list[Pricer],
    charges: dict[int, tuple[float, ...]],
    stop: TimeLimit,
    expected: list[float],
) -> Iterator[tuple[int, Priced]]:
    """What each shape carries best at its charges; shapes that are alike and charged alike are priced once.

    Where kinds count and there is no time for all shapes, those likely to be worth least are bounded only.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for h, at in charges.items():
        shape = pricers[h].shape
        alike.setdefault((shape.cards, shape.capacity, shape.fits, shape.tops, shape.keeps, at), []).append(h)
    firsts = [group[0] for group in alike.values()]

    priced = set(firsts)
    if stop.kind:
        order = sorted(firsts, key=lambda h: (-expected[h], h))
        priced = set(order[: stop.affords(_cost(pricers[h], stop) for h in order)])

    def best(h: int) -> Priced:
        return pricers[h].loose(charges[h]) if stop.stop() or h not in priced else pricers[h].best(charges[h])

    answers = pool.map(best, firsts)
    for group, answer in zip(alike.values(), answers, strict=True):
        for h in group:
            yield h, answer
