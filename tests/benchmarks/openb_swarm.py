"""What does the solver place of a trace? Its placement, and its proven bound in thousandths of a GPU."""

from __future__ import annotations

from threading import Timer

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Watch, solve


def swarm(stack: Stack, seconds: float) -> tuple[Placement, float]:
    """What `swarm solve` answers. Its effort is counted in rounds; the clock is a guard that ends the search."""
    watch = Watch()
    guard = Timer(seconds, watch.stop)
    guard.daemon = True
    guard.start()
    solution = solve(stack, watch=watch)
    guard.cancel()
    (goal,) = [goal for goal in solution.proof.goals if "_placed_gpu" in goal.name]
    return solution.placement, goal.bound * (1 if goal.name.endswith("milli") else 1000)
