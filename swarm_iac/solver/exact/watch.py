"""Who looks on while it is solved, and may end it early? Goal by goal: value, bound, and whether to go on.

A watch changes nothing about an answer that it does not stop: CP-SAT runs the same search with and without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from swarm_iac.model.placement import Goal
from swarm_iac.solver.backend.cpsat import cp_model, end, run_together
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.goals import UNTOLD


class Watch:
    """`tell` is called with the goals as they stand whenever one of them improves, `phase` with what is being done now.

    `stop` may come from any thread.
    """

    def __init__(
        self,
        tell: Callable[[tuple[Goal, ...]], None] = lambda goals: None,
        phase: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.tell = tell
        self.phase = phase
        self.stopped = False
        self._lock = Lock()
        self._solvers: Sequence[cp_model.CpSolver] = ()

    def stop(self) -> None:
        """End the search; the best placement so far becomes the answer."""
        with self._lock:
            self.stopped = True
            for solver in self._solvers:
                end(solver)

    def ended(self) -> bool:
        """Was it stopped? For long work that asks in between."""
        return self.stopped

    def solve(
        self, aim: Aim, solvers: Sequence[cp_model.CpSolver], model: cp_model.CpModel, *, proves: bool
    ) -> list[cp_model.CpSolverStatus]:
        """What `run_together` gives. How far the first one is, `tell` hears on the way.

        `proves`: does a bound of this model bound every placement?
        """
        improvements = _Improvements(self, aim, proves)
        solvers[0].best_bound_callback = improvements.bound
        with self._lock:
            if self.stopped:
                for one in solvers:
                    end(one)
            self._solvers = solvers
        try:
            return run_together(solvers, model, improvements)
        finally:
            with self._lock:
                self._solvers = ()

    def reached(self, aim: Aim, value: int, bound: int) -> None:
        """A goal is settled."""
        if goals := goals_of(aim, value, bound):
            self.tell(goals)


class _Improvements(cp_model.CpSolverSolutionCallback):
    """Tells of every better solution and every better bound of one goal."""

    def __init__(self, watch: Watch, aim: Aim, proves: bool) -> None:
        super().__init__()
        self._watch, self._aim, self._proves = watch, aim, proves
        self._value: int | None = None
        self._bound = aim.best

    def on_solution_callback(self) -> None:
        """Called by CP-SAT."""
        self._value = self._aim.constant + round(self.objective_value)
        self.bound(self.best_objective_bound)
        if self._watch.stopped:
            self.stop_search()

    def bound(self, proven: float) -> None:
        """The stronger of the bound by counting and the proven one."""
        if self._proves:
            better = min if self._aim.sense > 0 else max
            self._bound = better(self._bound, self._aim.constant + round(proven))
        if self._value is not None:
            self._watch.reached(self._aim, self._value, self._bound)


def goals_of(aim: Aim, value: int, bound: int) -> tuple[Goal, ...]:
    """A goal of the table as it is reported: worth in GPUs and replicas; nothing for ties and for what nobody asked."""
    if aim.name in UNTOLD or (aim.base and not value and not bound) or (aim.name == "kept" and value == bound):
        return ()
    if not aim.base:
        return (Goal(name=aim.name, value=value, bound=bound),)
    gpus, best = value // aim.base, bound // aim.base
    counted = aim.best % aim.base  # of any number of GPUs nobody has more replicas
    replicas = min(counted, bound % aim.base) if gpus == best else counted
    return (
        Goal(name=f"{aim.name}_{aim.unit}", value=gpus, bound=best),
        Goal(name=f"{aim.name}_replicas", value=value % aim.base, bound=replicas),
    )
