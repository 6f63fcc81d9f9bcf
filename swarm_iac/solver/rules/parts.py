"""Do the parts of GPUs on a node fit on its cards?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.solver.board import Board
from swarm_iac.solver.columns.cards import flow
from swarm_iac.solver.scene import GPUS, WHOLE


def parts_fit_cards(board: Board) -> None:
    """For every node n:  Σ_{w whole} gpus_w · x[w,n] + cards that parts open ≤ empty cards of n,  by an arc flow.

    What arcs carry of a share s is Σ_{w of share s} x[w,n]; cards that are held in part already start at their height.
    """
    base = board.task.base
    for node, names in board.by_bin.items():
        shared = [name for name in names if board.ask(name).shared]
        if not shared:
            continue
        empty = max(0, base.free[node][GPUS])
        cards = Counter({0: empty}) + Counter(WHOLE - left for left in base.partial(node).values())
        arcs = flow(board.model, [board.ask(name).share for name in shared], cards)
        for share in sorted({board.ask(name).share for name in shared}):
            placed = sum(arc for (size, _), arc in arcs.items() if size == share)
            board.model.add(sum(board.x[name, node] for name in shared if board.ask(name).share == share) == placed)
        whole = sum(board.x[name, node] * board.ask(name).need[GPUS] for name in names if not board.ask(name).shared)
        board.model.add(whole + sum(arc for (_, height), arc in arcs.items() if not height) <= empty)
