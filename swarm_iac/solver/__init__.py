"""What goes where? Fleet level by CP-SAT, device level by search, with a proof and an answer to every "why"."""

from swarm_iac.solver.answer import why
from swarm_iac.solver.growth import solve_keeping
from swarm_iac.solver.solution import Explanation, Mend, Move, Second, Solution, digest
from swarm_iac.solver.solve import solve
from swarm_iac.solver.watch import Watch

__all__ = ["Explanation", "Mend", "Move", "Second", "Solution", "Watch", "digest", "solve", "solve_keeping", "why"]
