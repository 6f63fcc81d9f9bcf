"""How is CP-SAT asked, so that the same model gives the same answer, an interrupt reaches its handler, and nothing raises?

Every CP-SAT solve of the product goes through `run`. A solver that fails says UNKNOWN, whose next step each caller has:
the hint, the greedy placement, the bound by counting.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType

if "pandas" in sys.modules:
    from ortools.sat.python import cp_model
else:
    # CP-SAT's Python interface loads pandas for calls on Series, which are not used here: half of its time to load.
    placeholder = ModuleType("pandas")
    placeholder.Index = placeholder.Series = type("Unused", (), {})  # type: ignore[attr-defined]
    sys.modules["pandas"] = placeholder
    try:
        from ortools.sat.python import cp_model
    finally:
        del sys.modules["pandas"]

__all__ = [
    "SEED",
    "cp_model",
    "end",
    "ended_by",
    "improver",
    "known_bound",
    "one_worker",
    "remember",
    "remembered",
    "run",
    "run_together",
    "solved",
    "spent",
]

SEED = 7
#: How often somebody looks whether a search is to end. [s]
_LOOK = 0.1
#: What the binding raises for exceptions of C++. Of 3,000 solves of drawn fleets one, of a sound model, ended in an
#: IndexError: a lookup past the end of a map.
RAISED = (RuntimeError, ValueError, OverflowError, IndexError, MemoryError)
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


def improver(effort: float) -> cp_model.CpSolver:
    """One that proves nothing: it decides a part of the hint again, then another part (large neighbourhood search).

    As deterministic: parts take turns by deterministic time, and what another solver finds meanwhile does not reach it.
    """
    solver = one_worker(effort)
    solver.parameters.interleave_search = True
    solver.parameters.use_lns_only = True
    return solver


def run_together(
    solvers: Sequence[cp_model.CpSolver],
    model: cp_model.CpModel,
    callback: cp_model.CpSolverSolutionCallback | None = None,
) -> list[cp_model.CpSolverStatus]:
    """The statuses of these solves at the same time, a core each; `callback` is the first one's.

    Where that proves its answer the others are ended, and are UNKNOWN: how far they came is chance then.
    """
    first, *others = solvers
    if not others:
        return [run(first, model, callback)]
    with ThreadPoolExecutor(len(others), "solves beside") as pool:
        beside = [pool.submit(run, one, model) for one in others]
        status = run(first, model, callback)
        if status == cp_model.OPTIMAL:
            for one in others:
                end(one)
        found = [one.result() for one in beside]
    return [status, *(cp_model.UNKNOWN if status == cp_model.OPTIMAL else one for one in found)]


def end(solver: cp_model.CpSolver) -> None:
    """End its solve, also one that has not begun."""
    solver.parameters.max_deterministic_time = 0
    solver.stop_search()


def run(
    solver: cp_model.CpSolver, model: cp_model.CpModel, callback: cp_model.CpSolverSolutionCallback | None = None
) -> cp_model.CpSolverStatus:
    """The status of one solve; UNKNOWN where CP-SAT refuses the model or fails."""
    try:
        status = solver.solve(model, callback)
    except RAISED:
        return cp_model.UNKNOWN
    return cp_model.UNKNOWN if status == cp_model.MODEL_INVALID else status


@contextmanager
def ended_by(end: Callable[[], None], stop: Callable[[], bool]) -> Iterator[None]:
    """Calls `end` soon after `stop` says so, while what is within goes on: it is to end a search."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(_LOOK):
            if stop():
                end()

    thread = threading.Thread(target=look, name="ends a search", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def remember(solver: cp_model.CpSolver, solutions: int) -> None:
    """Let it report so many of the solutions on its way besides the best."""
    solver.parameters.fill_additional_solutions_in_response = True
    solver.parameters.solution_pool_size = solutions


def remembered(solver: cp_model.CpSolver) -> list[list[int]]:
    """The values of all variables, in the best solution first, and in the others that were asked for."""
    found = solver.response_proto
    best = list(found.solution)
    return [best, *(values for one in found.additional_solutions if (values := list(one.values)) != best)]


def solved(status: cp_model.CpSolverStatus) -> bool:
    """Does the solver hold values?"""
    return status in (cp_model.OPTIMAL, cp_model.FEASIBLE)


def spent(solver: cp_model.CpSolver) -> float:
    """The deterministic time of the last solve; 0 where there is no response."""
    try:
        return float(solver.response_proto.deterministic_time)
    except (RuntimeError, AttributeError):
        return 0.0


def known_bound(solver: cp_model.CpSolver, status: cp_model.CpSolverStatus) -> float | None:
    """The bound on the objective, or None where the solve ended before it had one: in presolve it reads 0.

    A model that has a placement and is called infeasible proves nothing.
    """
    if status == cp_model.INFEASIBLE:
        return None
    try:
        bound = float(solver.best_objective_bound)
    except (RuntimeError, AttributeError):  # there is no response at all
        return None
    if solved(status):
        return bound
    return bound if bound and math.isfinite(bound) and abs(bound) < UNBOUNDED else None
