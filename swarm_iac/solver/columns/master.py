"""Which mix of columns is best? The restricted master, a linear program over the columns found so far.

max  Σ_p value_p · λ_p
Σ_p uses_{r,p} · λ_p ≤ limit_r          every row         price of the row  ≥ 0
Σ_{p of h} λ_p ≤ count_h                every shape       price of a node   ≥ 0

Where kinds are classes, who takes their places is a variable, too (see `interchangeable`).

A row whose limit is negative asks for at least so much; what is missing of it costs MISSING units of value each, which
bounds its price.

Where no engine solves it, the last mix stands: it is a feasible one, and any prices ≥ 0 bound by Lagrange.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.solver.backend.linear import Linear
from swarm_iac.solver.columns.problem import Pattern, Problem, Row

#: What the largest replica that a row asks for is worth in units of value.
MISSING = 64.0


@dataclass(frozen=True, slots=True)
class Mix:
    """A solution of the master: λ by column, prices of rows and of nodes."""

    value: float
    weights: dict[tuple[int, Pattern], float]
    rows: tuple[float, ...]
    nodes: tuple[float, ...]


class Master:
    """The linear program; columns are added. `failed`: did it go unsolved at least once?"""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scale = problem.unit
        self.linear = Linear("columns", maximize=True)
        # Each row is in its own largest amount: with bits per second beside single replicas GLOP gives up as imprecise.
        self.units = [float(max((abs(a) for _, a in _amounts(row)), default=1)) or 1.0 for row in problem.rows]
        for row, unit in zip(problem.rows, self.units, strict=True):
            number = self.linear.row(most=row.limit / unit)
            if row.over:
                self.linear.variable(-row.over * unit / self.scale, {number: -1.0})
            elif row.limit < 0:
                self.linear.variable(-MISSING, {number: -1.0})
        for member in problem.members:
            self.linear.variable(0.0, {row: amount / self.units[row] for row, amount in member.uses})
        for shape in problem.shapes:
            self.linear.row(most=shape.count)
        self.by_kind: list[list[tuple[int, int]]] = [[] for _ in problem.kinds]
        self.inside: list[dict[int, list[tuple[int, int]]]] = [{} for _ in problem.shapes]  # (row, amount) by kind
        for r, row in enumerate(problem.rows):
            for kind, amount in row.amounts:
                self.by_kind[kind].append((r, amount))
            for h, amounts in row.inside:
                for kind, amount in amounts:
                    self.inside[h].setdefault(kind, []).append((r, amount))
        self.columns: dict[tuple[int, Pattern], int] = {}
        self.failed = False
        self._last = Mix(0.0, {}, (0.0,) * len(problem.rows), (0.0,) * len(problem.shapes))

    def uses(self, shape: int, pattern: Pattern) -> dict[int, int]:
        """What one node of the shape with this pattern takes of each row."""
        used: dict[int, int] = {}
        inside = self.inside[shape]
        for kind, count in pattern:
            for row, amount in (*self.by_kind[kind], *inside.get(kind, ())):
                used[row] = used.get(row, 0) + amount * count
        return used

    def add(self, shape: int, pattern: Pattern) -> bool:
        """Add a column; False when it is there already or empty."""
        if not pattern or (shape, pattern) in self.columns:
            return False
        value = self.problem.value(self.problem.shapes[shape], pattern)
        uses = {row: amount / self.units[row] for row, amount in self.uses(shape, pattern).items()}
        uses[len(self.problem.rows) + shape] = 1.0
        self.columns[shape, pattern] = self.linear.variable(value / self.scale, uses)
        return True

    def solve(self) -> Mix:
        """The best mix of the columns so far."""
        found = self.linear.solve()
        if found is None:
            self.failed = True
            return self._last
        rows = len(self.problem.rows)
        self._last = Mix(
            value=found.value * self.scale,
            weights={key: found.values[var] for key, var in self.columns.items() if found.values[var] > 1e-9},
            rows=tuple(
                max(0.0, price) * self.scale / unit for price, unit in zip(found.prices[:rows], self.units, strict=True)
            ),
            nodes=tuple(max(0.0, price) * self.scale for price in found.prices[rows:]),
        )
        return self._last

    def charges(self, rows: tuple[float, ...]) -> tuple[float, ...]:
        """What the rows that hold everywhere charge for one replica of each kind."""
        return tuple(sum(rows[row] * amount for row, amount in uses) for uses in self.by_kind)

    def charged(self, shape: int, everywhere: tuple[float, ...], rows: tuple[float, ...]) -> tuple[float, ...]:
        """What all rows charge for one replica of each kind on a node of the shape."""
        found = list(everywhere)
        for kind, uses in self.inside[shape].items():
            for row, amount in uses:
                found[kind] += rows[row] * amount
        return tuple(found)


def _amounts(row: Row) -> list[tuple[int, int]]:
    return [*row.amounts, *(pair for _, amounts in row.inside for pair in amounts)]
