"""Does what is placed on a node fit it?

Written with open[n] on the right-hand side where the node is still empty: the same integers, a tighter relaxation.
"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.snapshot.layout import Budget


def node_budget_holds(board: Board, budget: Budget) -> None:
    """For every node n:  Σ_w r_w · x[w,n] ≤ r_n,  r of its machine or under limits.node   [the unit of r]

    gpus_w is 0 for parts of a GPU, which `parts_fit_cards` counts; cores_w is ⌊vcpus_w⌋ where w is pinned, else 0; a limit on
    bandwidth holds each way.
    """
    for node, names in board.by_bin.items():
        terms = [(board.x[name, node], board.ask(name).need[budget.place]) for name in names]
        factor = None if board.task.base.load[node] else board.open[node]
        board.at_most(terms, board.task.base.free[node][budget.place], factor)
