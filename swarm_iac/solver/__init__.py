"""What goes where? Fleet level by CP-SAT, device level by search, with a proof and an answer to every "why"."""

from swarm_iac.solver.advice.answer import why
from swarm_iac.solver.decide.declared import solve_declared
from swarm_iac.solver.decide.keep_size import solve_keeping
from swarm_iac.solver.decide.solve import Scale, solve
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.solution import Explanation, Fix, Move, RunnerUp, Solution, digest

__all__ = [
    "Explanation", "Fix", "Move", "RunnerUp", "Scale", "Solution", "Watch", "digest", "solve", "solve_declared",
    "solve_keeping", "why",
]  # fmt: skip
