"""What does a CP-SAT model of linear rows gain at most, if nothing in it had to be whole?

    max c·x  under  l ≤ A·x ≤ u,  0 ≤ x ≤ top      ≤      Σ_i max(l_i·y_i, u_i·y_i) + Σ_j top_j · max(0, c_j − (A'y)_j)

for any prices y (weak duality). GLOP's are the best ones, and the right side is summed here, so that a price that is a little
wrong, or one from an engine that gave up, costs some of the bound and never makes it false.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
from ortools.math_opt import model_pb2, sparse_containers_pb2
from ortools.math_opt.python import mathopt
from ortools.util.python.solve_interrupter import SolveInterrupter

from swarm_iac.solver.backend.cpsat import cp_model, ended_by
from swarm_iac.solver.backend.linear import report
from swarm_iac.solver.backend.time_limit import never

#: Beyond it CP-SAT means that there is no such limit.
_FREE = 2**61
#: Of the sums of all terms, what may be lost in adding them up.
_ROUNDED = 1e-9
#: With fewer variables it takes no time in which somebody could end it.
_LONG = 2000


def linear_bound(model: cp_model.CpModel, stop: Callable[[], bool] = never) -> float | None:
    """An upper bound on what the model maximizes, or None where there are no prices, or `stop` ends it.

    Its variables are at least 0 and bounded, and its constraints linear; others are left out, which bounds as well.
    """
    proto = model.proto
    top = np.array([list(var.domain)[-1] for var in proto.variables], dtype=float)
    gain = np.zeros(len(top))
    sign = proto.objective.scaling_factor or 1.0
    for var, amount in zip(proto.objective.vars, proto.objective.coeffs, strict=True):
        gain[var] += amount * sign
    row: list[int] = []
    column: list[int] = []
    amounts: list[float] = []
    least: list[float] = []
    most: list[float] = []
    for constraint in proto.constraints:
        if stop():
            return None
        if not constraint.has_linear():
            continue
        domain = list(constraint.linear.domain)
        uses = sorted(zip(constraint.linear.vars, constraint.linear.coeffs, strict=True))
        row += [len(least)] * len(uses)
        column += [var for var, _ in uses]
        amounts += [float(amount) for _, amount in uses]
        least.append(float(domain[0]) if domain[0] > -_FREE else -np.inf)
        most.append(float(domain[-1]) if domain[-1] < _FREE else np.inf)
    rows = np.array(row, dtype=np.int64), np.array(column, dtype=np.int64), np.array(amounts)
    prices = _prices(gain, top, rows, np.array(least), np.array(most), stop)
    return None if prices is None else _dual_value(prices, gain, top, rows, np.array(least), np.array(most))


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # row, column, amount: sorted by row, then by column


def _prices(
    gain: np.ndarray, top: np.ndarray, rows: Rows, least: np.ndarray, most: np.ndarray, stop: Callable[[], bool]
) -> np.ndarray | None:
    linear = model_pb2.ModelProto(
        variables=model_pb2.VariablesProto(
            ids=range(len(top)), lower_bounds=np.zeros(len(top)), upper_bounds=top, integers=[False] * len(top)
        ),
        objective=model_pb2.ObjectiveProto(
            maximize=True,
            linear_coefficients=sparse_containers_pb2.SparseDoubleVectorProto(ids=np.flatnonzero(gain), values=gain[gain != 0]),
        ),
        linear_constraints=model_pb2.LinearConstraintsProto(ids=range(len(least)), lower_bounds=least, upper_bounds=most),
        linear_constraint_matrix=sparse_containers_pb2.SparseDoubleMatrixProto(
            row_ids=rows[0], column_ids=rows[1], coefficients=rows[2]
        ),
    )
    try:
        asked, params = mathopt.Model.from_model_proto(linear), mathopt.SolveParameters(random_seed=7)
        interrupter = SolveInterrupter()
        with ended_by(interrupter.interrupt, stop) if len(top) > _LONG else nullcontext():
            result = mathopt.solve(asked, mathopt.SolverType.GLOP, params=params, interrupter=interrupter)
        if stop():
            return None
        if not result.has_dual_feasible_solution():
            report(f"GLOP on a relaxation: {result.termination.reason.name.lower()}")
            return None
        prices = result.dual_values()
    except Exception as error:  # OR-Tools' own wrapper fails while it raises, see backend/linear.py
        report(f"GLOP on a relaxation: {type(error).__name__}")
        return None
    found = np.array([price for _, price in sorted((var.id, price) for var, price in prices.items())])
    return found if len(found) == len(least) and np.isfinite(found).all() else None


def _dual_value(
    prices: np.ndarray, gain: np.ndarray, top: np.ndarray, rows: Rows, least: np.ndarray, most: np.ndarray
) -> float | None:
    limit = np.where(prices > 0, most, least)
    prices = np.where(np.isfinite(limit), prices, 0.0)  # a limit that is not there has no price
    limit = np.where(prices != 0, limit, 0.0)
    row, column, amounts = rows
    priced = prices[row] * amounts
    paid = np.bincount(column, weights=priced, minlength=len(top))
    size = np.abs(prices * limit).sum() + (top * (np.abs(gain) + np.bincount(column, np.abs(priced), len(top)))).sum()
    return float((prices * limit).sum() + (top * np.maximum(0.0, gain - paid)).sum() + _ROUNDED * size)
