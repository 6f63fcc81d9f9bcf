"""What goes where? Fleet level by CP-SAT, device level by search, with a proof and an answer to every "why"."""

from swarm_iac.solver.explain import why
from swarm_iac.solver.solution import Explanation, Move, Solution, digest
from swarm_iac.solver.solve import solve
from swarm_iac.solver.watch import Watch

__all__ = ["Explanation", "Move", "Solution", "Watch", "digest", "solve", "why"]
