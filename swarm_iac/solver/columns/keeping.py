"""How few replicas have to leave their node so that others find a place? A linear program over columns, and its bound.

On nodes of shape h stand the replicas B_h (the shape's `keeps`); `wanted_k` more of kind k are to be placed. A column is
what one node carries instead, x; it costs m(x) = Σ_k max(0, B_hk − x_k) moves and brings d_k(x) = x_k − B_hk.

    min  Σ_{h,x} m(x) · λ_{h,x} + Σ_k box_k · s_k
    Σ_{h,x} d_k(x) · λ_{h,x} + s_k ≥ wanted_k     every kind k          price π_k, 0 ≤ π_k ≤ box_k
    Σ_x λ_{h,x} ≤ count_h                         every shape h         price μ_h ≥ 0

For any π no placement of all that is wanted has fewer moves than

    Σ_k wanted_k · π_k − Σ_h count_h · max_x ( Σ_k π_k · d_k(x) − m(x) )      (Lagrange)

and the maximum is replaced by an upper bound of itself. Most prices are 0, since most kinds fit without a move;
where nothing could pay, a fractional knapsack in one resource shows it without solving anything. The box keeps prices
small, so that they settle early; where something is left to s it grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, ended_by, one_worker, run, solved
from swarm_iac.solver.backend.linear import Linear
from swarm_iac.solver.backend.time_limit import PRICED, TimeLimit
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Pattern, Problem

#: One move in the units of the pricing problem.
MOVE = 1000
#: Box on the price of one replica, in moves: so much, and so much for each GPU. It grows by so much, so often at most.
BOX, PER_GPU, GROW, GROWTHS = 2.0, 1.0, 3.0, 4
#: Part of the best prices so far in those that are tried (smoothing after Wentges, 1997).
SMOOTH = 0.5
#: Less than this part of a move is nothing.
EPSILON = 1e-5
#: What is wanted is taken so much less in the program: the price of what nobody lacks is 0 then, in place of anything.
PERTURB = 1e-4
#: Bound and value count as equal within this part of a move.
SLACK = 0.02
#: Deterministic time of choosing whole columns, and where the search was ended early.
EFFORT, HURRY = 4.0, 0.5
#: Shapes that are priced at the same time, each by a solver of one worker; the answer does not depend on it.
WORKERS = 2

Column = tuple[int, Pattern]


@dataclass
class Stay:
    """`bound` on every placement of all; whole columns with the fewest `moves`, None where the columns lack some."""

    bound: float = 0.0
    moves: int | None = None
    plan: dict[Column, int] = field(default_factory=dict)
    rounds: int = 0


class _Program:
    """The linear program; columns are added, the box may grow."""

    def __init__(self, problem: Problem, wanted: Sequence[int]) -> None:
        self.problem = problem
        self.stand = [{keep.kind: keep.count for keep in shape.keeps} for shape in problem.shapes]
        self.linear = Linear("stay", maximize=False)
        self.cover = [self.linear.row(least=count - PERTURB) for count in wanted]
        self.nodes = [self.linear.row(most=shape.count) for shape in problem.shapes]
        self.box = [BOX + PER_GPU * kind.cards for kind in problem.kinds]
        self.short = [self.linear.variable(top, {row: 1.0}) for row, top in zip(self.cover, self.box, strict=True)]
        self.columns: dict[Column, int] = {}
        self.failed = False
        self._last = _Mix(0.0, [], (0.0,) * len(problem.kinds), (0.0,) * len(problem.shapes))

    def moves(self, shape: int, pattern: Pattern) -> int:
        """What has to leave a node that carries the pattern."""
        now = dict(pattern)
        return sum(max(0, count - now.get(kind, 0)) for kind, count in self.stand[shape].items())

    def brought(self, shape: int, pattern: Pattern) -> dict[int, int]:
        """Replicas of each kind beyond those placed there."""
        now, stood = dict(pattern), self.stand[shape]
        return {k: d for k in {*now, *stood} if (d := now.get(k, 0) - stood.get(k, 0))}

    def add(self, shape: int, pattern: Pattern) -> bool:
        """Add a column; False if it is there already or equals the current placement."""
        brought = self.brought(shape, pattern)
        if not brought or (shape, pattern) in self.columns:
            return False
        uses = {self.cover[kind]: float(count) for kind, count in sorted(brought.items())} | {self.nodes[shape]: 1.0}
        self.columns[shape, pattern] = self.linear.variable(float(self.moves(shape, pattern)), uses)
        return True

    def solve(self) -> _Mix:
        """The best mix of the columns so far; the last one where no engine solves the program."""
        found = self.linear.solve()
        if found is None:
            self.failed = True
            return self._last
        self._last = _Mix(
            value=found.value,
            short=[k for k, var in enumerate(self.short) if found.values[var] > 1e-7],
            prices=tuple(max(0.0, found.prices[row]) for row in self.cover),
            nodes=tuple(max(0.0, -found.prices[node]) for node in self.nodes),
        )
        return self._last

    def grow(self, kinds: list[int]) -> None:
        """A larger box for these kinds."""
        for k in kinds:
            self.box[k] *= GROW
            self.linear.cost(self.short[k], self.box[k])


@dataclass(frozen=True)
class _Mix:
    value: float
    short: list[int] = field(default_factory=list)
    prices: tuple[float, ...] = ()
    nodes: tuple[float, ...] = ()


def fewest_moves(
    problem: Problem,
    wanted: Sequence[int],
    columns: Sequence[Column],
    *,
    rounds: int,
    stop: TimeLimit = TimeLimit(),
    beyond: int = 0,
) -> Stay:
    """The bound after so many rounds of pricing, starting from columns that some placement has. Kinds are worth 0 here.

    `beyond`: only a bound above so many is of use, and no plan of whole columns. It ends once none can come.
    """
    program = _Program(problem, wanted)
    for shape, pattern in columns:
        program.add(shape, pattern)
    pricers = [Pricer(problem, h) for h in range(len(problem.shapes))]
    mix = program.solve()
    best, centre, smooth, growths = 0.0, mix.prices, SMOOTH, 0
    state = Stay()
    with ThreadPoolExecutor(WORKERS) as pool:  # CP-SAT works outside Python's lock; the answers come back in order
        for state.rounds in range(1, rounds + 1):
            if beyond and not mix.short and mix.value <= beyond + EPSILON:
                break  # no bound is above what the program has, whose box can grow only where something is short
            prices = [smooth * a + (1 - smooth) * b for a, b in zip(centre, mix.prices, strict=True)]
            priced = list(pool.map(lambda pricer, now=prices: _priced(pricer, now, stop), pricers))
            bound = sum(a * b for a, b in zip(wanted, prices, strict=True))
            added = 0
            for h, (pattern, most, spent) in enumerate(priced):
                stop.spend(spent)
                bound -= problem.shapes[h].count * most
                brought = program.brought(h, pattern)
                gain = sum(mix.prices[k] * d for k, d in brought.items()) - program.moves(h, pattern) - mix.nodes[h]
                if gain > EPSILON:
                    added += program.add(h, pattern)
            if bound > best:
                best, centre = bound, tuple(prices)
            state.bound = best
            if added:
                mix, smooth = program.solve(), SMOOTH
            close = mix.value - best <= SLACK or math.ceil(best - EPSILON) >= mix.value - EPSILON
            if stop() or program.failed:
                break
            if (close or (not added and not smooth)) and mix.short and growths < GROWTHS:
                growths += 1
                program.grow(mix.short)
                mix = program.solve()
            elif close or (not added and not smooth):
                break
            elif not added:
                smooth = 0.0 if smooth < 0.2 else smooth / 2
    if not beyond:
        state.moves, state.plan = _whole(program, wanted, stop)
    return state


def _whole(program: _Program, wanted: Sequence[int], stop: TimeLimit) -> tuple[int | None, dict[Column, int]]:
    """The fewest moves with a whole number of nodes for each column found."""
    shapes = program.problem.shapes
    model = cp_model.CpModel()
    nodes = {column: model.new_int_var(0, shapes[column[0]].count, "") for column in program.columns}
    covers: list[list[tuple[cp_model.IntVar, int]]] = [[] for _ in wanted]
    by_shape: dict[int, list[cp_model.IntVar]] = {}
    for (h, pattern), var in nodes.items():
        by_shape.setdefault(h, []).append(var)
        for kind, count in program.brought(h, pattern).items():
            covers[kind].append((var, count))
    for terms, least in zip(covers, wanted, strict=True):
        if terms or least > 0:
            model.add(sum(var * count for var, count in terms) >= least)
    for h, found in by_shape.items():
        model.add(sum(found) <= shapes[h].count)
    model.minimize(sum(var * program.moves(*column) for column, var in nodes.items()))
    hurry = stop.stop()
    solver = one_worker(HURRY if hurry else min(EFFORT, max(HURRY, stop.left)))
    with ended_by(solver.stop_search, (lambda: False) if hurry else stop.stop):
        status = run(solver, model)
    if not solved(status):
        return None, {}
    return round(solver.objective_value), {column: n for column, var in nodes.items() if (n := solver.value(var))}


def _priced(pricer: Pricer, prices: Sequence[float], stop: Callable[[], bool]) -> tuple[Pattern, float, float]:
    """A pattern of a shape that gains much at these prices of replicas, in moves; a bound on what any gains; the effort."""
    keeps = {keep.kind: keep.count for keep in pricer.shape.keeps}
    stood = sum(count * (1 + prices[k]) for k, count in keeps.items())
    most = _ceiling(pricer, prices, keeps) - stood
    if most <= EPSILON or stop():
        return tuple(sorted(keeps.items())), max(0.0, most), 0.0
    found = pricer.best([-price * MOVE for price in prices])
    return found.pattern, max(0.0, found.bound / MOVE - stood), found.spent + PRICED


def _ceiling(pricer: Pricer, prices: Sequence[float], keeps: dict[int, int]) -> float:
    """What a node could be worth at most, each resource taken alone and replicas as divisible."""
    kinds, shape = pricer.problem.kinds, pricer.shape
    items = [(1 + prices[k], k, min(count, pricer.tops.get(k, 0))) for k, count in keeps.items()]
    items += [(prices[k], k, top) for k, top in pricer.tops.items() if prices[k] > 0]
    best = math.inf
    for i, capacity in enumerate((shape.cards * WHOLE, *shape.capacity)):
        needs = [kinds[k].cards * kinds[k].share if not i else kinds[k].need[i - 1] for _, k, _ in items]
        total, left = 0.0, float(capacity)
        for need, (value, _, top) in sorted(zip(needs, items, strict=True), key=lambda one: one[0] / one[1][0]):
            take = min(top, left / need) if need else top
            total += take * value
            left -= take * need
            if left <= 0:
                break
        best = min(best, total)
    return best
