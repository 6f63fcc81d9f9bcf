"""How is CP-SAT asked, so that the same model gives the same answer, and an interrupt reaches whoever watches?"""

from __future__ import annotations

import math

from ortools.sat.python import cp_model

SEED = 7
#: What CP-SAT says of an objective that nothing bounds.
UNBOUNDED = 2.0**62


def one_worker(effort: float | None = None) -> cp_model.CpSolver:
    """A solver with one worker, a fixed seed and, if given, so much deterministic time.

    It leaves SIGINT alone. CP-SAT would else take the signal for itself during each solve and leave the default behind,
    which ends the process: the handler of the command line would be gone after the first solve.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = SEED
    solver.parameters.catch_sigint_signal = False
    if effort is not None:
        solver.parameters.max_deterministic_time = effort
    return solver


def known_bound(solver: cp_model.CpSolver, status: cp_model.CpSolverStatus) -> float | None:
    """The bound on the objective, or None where the solve ended before it had one: in presolve it reads 0."""
    bound = float(solver.best_objective_bound)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return bound
    return bound if bound and math.isfinite(bound) and abs(bound) < UNBOUNDED else None
