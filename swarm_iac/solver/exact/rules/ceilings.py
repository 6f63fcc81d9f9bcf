"""Does everything together stay under the ceilings of users and of the cluster?"""

from __future__ import annotations

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.snapshot.snapshot import CEILINGS


def user_stays_under_limits(board: Board) -> None:
    """For every user u and resource r:  Σ_{w of u, n} r_w · x[w,n] ≤ limit_u.r (an exception's, where u has one)"""
    for user in sorted({board.ask(name).user for name in board.by_ask}):
        mine = [name for name in board.by_ask if board.ask(name).user == user]
        for i in range(len(CEILINGS)):
            terms = [(var, board.ask(name).usage[i]) for name in mine for var in board.of(name)]
            board.at_most(terms, board.task.base.users[user][i])


def cluster_stays_under_limits(board: Board) -> None:
    """For every resource r:  Σ_{w,n} r_w · x[w,n] ≤ limits.cluster.r"""
    for i in range(len(CEILINGS)):
        terms = [(var, board.ask(name).usage[i]) for name in board.by_ask for var in board.of(name)]
        board.at_most(terms, board.task.base.cluster[i])
