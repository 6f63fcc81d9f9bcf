"""Which columns are worth having, and what can no placement exceed?

First beam searches bring many columns within milliseconds each, again and again while the mix gains by them. Then exact
searches bring the best column of a shape, and bounds. Columns are priced at a mixture of the master's prices and of those with
the best bound so far (smoothing after Wentges, 1997). For prices π ≥ 0 of the rows no placement is worth more than

    Σ_r limit_r · π_r + Σ_h count_h · best_h(π)              (Lagrange; Farley's bound is a special case)

and best_h is replaced by an upper bound of itself, so the figure is a proof whatever was left unfinished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from swarm_iac.solver.backend.time_limit import COLUMN, PRICED, TimeLimit
from swarm_iac.solver.columns.master import Master, Mix
from swarm_iac.solver.columns.pricing import Priced, Pricer
from swarm_iac.solver.columns.problem import Cap, Pattern, Problem, Shape

#: Part of the best prices in the mixture.
SMOOTH = 0.65
#: A round of beam searches that gains less than this part of the mix's value is the last before an exact one, and none follow
#: once an exact round and its beam searches gain less.
GAINING = 1e-4
#: Where a whole round gains less than this part, the mix has settled, and prices come nearer to its own.
SETTLED = 3e-5
#: The part of the slack by which bounds of all shapes may be above what their nodes gain.
NEAR = 0.25
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
    columns = _Columns(problem, master, hosts(shapes))
    mix = master.solve()
    state = Generated(mix, bound, mix.rows if prices is None else prices)
    if mix.value >= known:
        return state
    mix = state.mix = _searched(columns, pricers, state, stop)
    smooth, settled = SMOOTH, mix.value
    columns.expected = [float("inf") if shape.count else -1.0 for shape in shapes]
    gaining, whole, centre, ending = True, True, float("inf"), False
    with ThreadPoolExecutor(WORKERS) as pool:  # CP-SAT works outside Python's lock; the answers come back in order
        for state.rounds in range(1, rounds + 1):
            mixed = _mixture(problem, smooth, state.prices, mix.rows)
            charges, true = master.charges(mixed), _Charged(master, mix.rows)
            total = sum(row.limit * price for row, price in zip(problem.rows, mixed, strict=True)) + _taking(problem, mixed)
            least = 0.0 if whole else PROMISE * abs(mix.value)
            added = 0
            caps: list[Cap] = []
            asked = [h for h in range(len(shapes)) if columns.expected[h] >= least]
            charged = {h: master.charged(h, charges, mixed) for h in asked}
            for h, priced in _priced(pool, pricers, charged, stop, columns.expected, NEAR * slack / max(1, len(shapes))):
                caps.append(_cap(problem, h, charged[h], priced.bound))
                total += shapes[h].count * priced.bound
                stop.spend(priced.spent + _cost(pricers[h], stop))
                columns.expected[h] = 0.0
                for pattern in (priced.pattern, *priced.others):
                    added += columns.add(h, pattern, mix, true)
            better = total < centre
            if whole and better:
                centre, state.prices, state.caps = total, mixed, tuple(caps)
                state.bound = min(state.bound, total)
                tell(state.bound)
            before = mix.value
            if added:
                mix = state.mix = master.solve()
                stop.spend(COLUMN * len(master.columns))
            if added and gaining:
                mix = state.mix = _searched(columns, pricers, state, stop)
                gaining = mix.value - before > GAINING * abs(mix.value)
            if state.bound - mix.value <= slack or ending or master.failed or mix.value >= known:
                break
            ending = stop()
            if whole and not added and not smooth:
                break
            if whole:
                still = added and (not better or mix.value - settled > SETTLED * abs(mix.value))
                smooth, settled = SMOOTH if still else 0.0 if smooth < 0.2 else smooth / 2, mix.value
            whole = ending or gaining or not added or state.rounds % EVERY == 0  # the last round gives a bound, too
    return state


def _mixture(problem: Problem, smooth: float, best: Sequence[float], now: Sequence[float]) -> tuple[float, ...]:
    """Prices between those; none is above what it costs to exceed a limit."""
    mixed = (smooth * a + (1 - smooth) * b for a, b in zip(best, now, strict=True))
    return tuple(min(price, row.over or price) for price, row in zip(mixed, problem.rows, strict=True))


def _searched(columns: _Columns, pricers: list[Pricer], state: Generated, stop: TimeLimit) -> Mix:
    """The mix with what beam searches find, until a round of them gains little."""
    problem, master, mix = columns.problem, columns.master, state.mix
    while not stop():
        mixed = _Charged(master, _mixture(problem, SMOOTH, state.prices, mix.rows))
        true, added = _Charged(master, mix.rows), 0
        for h, pricer in enumerate(pricers):
            if problem.shapes[h].count and not pricer.keeps and not stop():
                stop.spend(_cost(pricer, stop))
                for _, pattern in pricer.beam.best(mixed.on(h)).patterns:
                    added += columns.add(h, pattern, mix, true)
        if not added:
            break
        before, mix = mix.value, master.solve()
        stop.spend(COLUMN * len(master.columns))
        if mix.value - before < GAINING * abs(mix.value):
            break
    return mix


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


@dataclass
class _Columns:
    """Adds patterns to a master. `expected`: what one more column of each shape may gain."""

    problem: Problem
    master: Master
    others: list[list[int]]
    expected: list[float] = field(default_factory=list)

    def add(self, shape: int, pattern: Pattern, mix: Mix, true: _Charged) -> int:
        """The pattern on its shape and on others that carry it, where it gains at the mix's own prices; how many were new."""
        added = 0
        for other in self.others[shape]:
            now = true.on(other)
            cost = sum(now[kind] * count for kind, count in pattern)
            gain = self.problem.value(self.problem.shapes[other], pattern) - cost - mix.nodes[other]
            if gain > 1e-6 * self.problem.unit:
                if self.expected:
                    self.expected[other] = max(self.expected[other], gain * self.problem.shapes[other].count)
                added += self.master.add(other, pattern)
        return added


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
    near: float,
) -> Iterator[tuple[int, Priced]]:
    """What each shape carries best at its charges; shapes that are alike and charged alike are priced once.

    Where kinds count and there is no time for all shapes, those likely to be worth least are bounded only. A bound on all nodes
    of a shape that is above what they gain by less than `near` is as good as one that is not.
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
        if stop.stop() or h not in priced:
            return pricers[h].loose(charges[h])
        return pricers[h].best(charges[h], near / max(1, pricers[h].shape.count))

    answers = pool.map(best, firsts)
    for group, answer in zip(alike.values(), answers, strict=True):
        for h in group:
            yield h, answer
