"""What does the solver answer within some seconds? Its effort is counted; the clock is a guard that ends the search."""

from __future__ import annotations

from threading import Timer

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, Watch, solve

#: Part of the time after which the guard ends the search; the rest is for finishing what is there.
GUARD = 0.7


def guarded(stack: Stack, last: Placement, seconds: float) -> Solution:
    """What `swarm solve` answers when it is told to end in time."""
    watch = Watch()
    guard = Timer(GUARD * seconds, watch.stop)
    guard.daemon = True
    guard.start()
    solution = solve(stack, last, watch=watch)
    guard.cancel()
    return solution


def swarm(stack: Stack, seconds: float) -> tuple[Placement, float]:
    """The placement of an empty fleet, and the proven bound in thousandths of a GPU."""
    solution = guarded(stack, Placement(), seconds)
    (goal,) = [goal for goal in solution.proof.goals if "_placed_gpu" in goal.name]
    return solution.placement, goal.bound * (1 if goal.name.endswith("milli") else 1000)
