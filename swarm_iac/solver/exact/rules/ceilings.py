"""Does everything together stay under the ceilings of users and of the cluster?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.snapshot.layout import COUNTED


def ceilings_hold(board: Board) -> None:
    """For every user u, for the cluster, and for every resource r:  Σ_{w of u, n} r_w · x[w,n] ≤ limit_u.r

    Of a user who has an exception, limit_u is the exception's.
    """
    for names, left in _ceilings(board):
        for i in range(len(COUNTED)):
            board.at_most([(var, board.ask(name).usage[i]) for name in names for var in board.of(name)], left[i])


def _ceilings(board: Board) -> Iterator[tuple[Sequence[str], list[int]]]:
    """Workloads that share a ceiling, and what is left of it."""
    names = list(board.by_ask)
    for user in sorted({board.ask(name).user for name in names}):
        yield [name for name in names if board.ask(name).user == user], board.task.base.users[user]
    yield names, board.task.base.cluster
