"""How is a linear program solved, whatever its first solver says?

In this order, until one gives an optimal basis with its prices:

1  GLOP, going on from its last basis
2  GLOP from nothing, by the dual simplex, with scaling and without presolve
3  HiGHS
4  the last answer, as it was: its prices still make a valid Lagrangian bound, whatever they are

Each engine that gives no answer is reported to the listener, so that a proof can name it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ortools.math_opt.python import mathopt

#: Values of variables and prices of rows, each in the order in which they were added.
Vector = tuple[float, ...]

_HEARD: ContextVar[list[str] | None] = ContextVar("engines that gave no answer", default=None)


@contextmanager
def listening() -> Iterator[list[str]]:
    """The engines that give no answer while the body runs, and how each ended, in the order in which they were asked."""
    heard: list[str] = []
    before = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(before)


def report(what: str) -> None:
    """Tell the listener, if any, of an engine that gave no answer and how it ended."""
    heard = _HEARD.get()
    if heard is not None:
        heard.append(what)


@dataclass(frozen=True, slots=True)
class Optimum:
    """An optimal basis. Prices are those of MathOpt: what the objective gains when a row's limit grows by one."""

    value: float
    values: Vector
    prices: Vector


class Linear:
    """A linear program whose variables are added one by one."""

    def __init__(self, name: str, *, maximize: bool) -> None:
        self.model = mathopt.Model(name=name)
        self.model.objective.is_maximize = maximize
        self.rows: list[mathopt.LinearConstraint] = []
        self.variables: list[mathopt.Variable] = []
        self.failures: list[str] = []  # engines that gave no answer, in the order in which they were asked
        self._solver: mathopt.IncrementalSolver | None = None

    def row(self, *, least: float = -math.inf, most: float = math.inf) -> int:
        """A new row; returns its number."""
        self.rows.append(self.model.add_linear_constraint(lb=least, ub=most))
        return len(self.rows) - 1

    def limit(self, row: int, *, most: float) -> None:
        """Another upper end of a row."""
        self.rows[row].upper_bound = most

    def variable(self, cost: float, uses: dict[int, float]) -> int:
        """A new variable ≥ 0 with its coefficient in each row; returns its number."""
        var = self.model.add_variable(lb=0.0)
        self.model.objective.set_linear_coefficient(var, cost)
        for row, amount in uses.items():
            self.rows[row].set_coefficient(var, amount)
        self.variables.append(var)
        return len(self.variables) - 1

    def cost(self, variable: int, cost: float) -> None:
        """Another coefficient in the objective."""
        self.model.objective.set_linear_coefficient(self.variables[variable], cost)

    def solve(self) -> Optimum | None:
        """An optimal basis, or None where no engine finds one."""
        for name, engine in (("GLOP", self._again), ("GLOP from nothing", self._from_nothing), ("HiGHS", self._other)):
            try:
                found = self._optimum(engine())
            except Exception as error:
                found = type(error).__name__
            if isinstance(found, Optimum):
                return found
            self._failed(f"{name}: {found}")
            self._solver = None  # its basis is not to be trusted
        return None

    def _failed(self, what: str) -> None:
        self.failures.append(what)
        report(what)

    def _again(self) -> mathopt.SolveResult:
        if self._solver is None:
            self._solver = mathopt.IncrementalSolver(self.model, mathopt.SolverType.GLOP)
        return self._solver.solve(params=mathopt.SolveParameters(random_seed=7))

    def _from_nothing(self) -> mathopt.SolveResult:
        off, on = mathopt.Emphasis.OFF, mathopt.Emphasis.VERY_HIGH
        dual = mathopt.LPAlgorithm.DUAL_SIMPLEX
        parameters = mathopt.SolveParameters(random_seed=7, lp_algorithm=dual, presolve=off, scaling=on)
        return mathopt.solve(self.model, mathopt.SolverType.GLOP, params=parameters)

    def _other(self) -> mathopt.SolveResult:
        return mathopt.solve(
            self.model, mathopt.SolverType.HIGHS, params=mathopt.SolveParameters(random_seed=7)
        )  # it refuses to be told of threads

    def _optimum(self, result: mathopt.SolveResult) -> Optimum | str:
        """What was found, or how it ended in place of an optimum."""
        if result.termination.reason != mathopt.TerminationReason.OPTIMAL:
            return str(result.termination.reason.name).lower()
        if not result.has_dual_feasible_solution():
            return "no prices"
        values, prices = result.variable_values(), result.dual_values()
        found = Optimum(
            result.objective_value(), tuple(values[var] for var in self.variables), tuple(prices[row] for row in self.rows)
        )
        return found if all(map(math.isfinite, (found.value, *found.values, *found.prices))) else "no numbers"
