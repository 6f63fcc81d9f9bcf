"""Which mix of columns is best? The restricted master, a linear program over the columns found so far (GLOP).

max  Σ_p value_p · λ_p
Σ_p uses_{r,p} · λ_p ≤ limit_r          every row         price of the row  ≥ 0
Σ_{p of h} λ_p ≤ count_h                every shape       price of a node   ≥ 0
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.math_opt.python import mathopt

from swarm_iac.solver.columns.problem import Pattern, Problem


@dataclass(frozen=True, slots=True)
class Mix:
    """A solution of the master: λ by column, prices of rows and of nodes."""

    value: float
    weights: dict[tuple[int, Pattern], float]
    rows: tuple[float, ...]
    nodes: tuple[float, ...]


class Master:
    """The linear program; columns are added, limits and counts may shrink."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.scale = problem.unit
        self.model = mathopt.Model(name="columns")
        self.model.objective.is_maximize = True
        # Each row is in its own largest amount: with bits per second beside single replicas GLOP gives up as imprecise.
        self.units = [float(max((amount for _, amount in row.amounts), default=1)) or 1.0 for row in problem.rows]
        self.rows = [
            self.model.add_linear_constraint(ub=row.limit / unit) for row, unit in zip(problem.rows, self.units, strict=True)
        ]
        self.nodes = [self.model.add_linear_constraint(ub=shape.count) for shape in problem.shapes]
        self.by_kind: list[list[tuple[int, int]]] = [[] for _ in problem.kinds]
        for r, row in enumerate(problem.rows):
            for kind, amount in row.amounts:
                self.by_kind[kind].append((r, amount))
        self.columns: dict[tuple[int, Pattern], mathopt.Variable] = {}
        self.solver = mathopt.IncrementalSolver(self.model, mathopt.SolverType.GLOP)
        self.parameters = mathopt.SolveParameters(random_seed=7)

    def uses(self, pattern: Pattern) -> dict[int, int]:
        """What one node with this pattern takes of each row."""
        used: dict[int, int] = {}
        for kind, count in pattern:
            for row, amount in self.by_kind[kind]:
                used[row] = used.get(row, 0) + amount * count
        return used

    def add(self, shape: int, pattern: Pattern) -> bool:
        """Add a column; False when it is there already or empty."""
        if not pattern or (shape, pattern) in self.columns:
            return False
        var = self.model.add_variable(lb=0.0)
        self.columns[shape, pattern] = var
        value = self.problem.value(self.problem.shapes[shape], pattern)
        self.model.objective.set_linear_coefficient(var, value / self.scale)
        self.nodes[shape].set_coefficient(var, 1.0)
        for row, amount in self.uses(pattern).items():
            self.rows[row].set_coefficient(var, amount / self.units[row])
        return True

    def solve(self) -> Mix:
        """The best mix of the columns so far."""
        result = self.solver.solve(params=self.parameters)
        values, duals = result.variable_values(), result.dual_values()
        return Mix(
            value=result.objective_value() * self.scale,
            weights={key: values[var] for key, var in self.columns.items() if values[var] > 1e-9},
            rows=tuple(max(0.0, duals[row]) * self.scale / unit for row, unit in zip(self.rows, self.units, strict=True)),
            nodes=tuple(max(0.0, duals[node]) * self.scale for node in self.nodes),
        )

    def prices(self, rows: tuple[float, ...]) -> list[float]:
        """What the rows charge for one replica of each kind."""
        return [sum(rows[row] * amount for row, amount in uses) for uses in self.by_kind]
