"""Do the parts of GPUs on a node fit on its cards?"""

from __future__ import annotations

from dataclasses import replace

from swarm_iac.solver.exact.fleet_model import Board
from swarm_iac.solver.packing.kept_parts import Beside, beside
from swarm_iac.solver.snapshot.layout import GPUS


def parts_fit_cards(board: Board) -> None:
    """For every node n:  Σ_{w whole} gpus_w · x[w,n] + cards that parts open ≤ empty cards of n,  by an arc flow.

    What cards carry of a share s is Σ_{w of share s} x[w,n]. Cards that fixed parts hold start at their height; those of
    parts that may stay are told apart, so that it is known who keeps his: Σ_c keep[w,c] ≤ x[w,n].
    """
    for node in board.by_bin:
        shares, cards = board.parts(node)
        if not shares:
            continue
        found = beside(board.model, shares, cards)
        _hold(board, node, shares, found)
        if cards.stand:
            # As if every card could be changed: it says nothing new, but its linear relaxation is much stronger.
            _hold(board, node, shares, beside(board.model, shares, replace(cards, stand={})))
        for name in cards.stand:
            mine = [var for (one, _), var in found.keep.items() if one == name]
            board.on_card[name, node] = mine
            board.model.add(sum(mine) <= board.x[name, node])


def _hold(board: Board, node: str, shares: dict[str, int], found: Beside) -> None:
    """What the cards carry is what stands on the node, and whole GPUs have the cards that parts leave empty."""
    for share, placed in found.placed.items():
        board.model.add(sum(board.x[name, node] for name in shares if shares[name] == share) == sum(placed))
    names = [name for name in board.by_bin[node] if name not in shares]
    whole = sum(board.x[name, node] * board.ask(name).need[GPUS] for name in names)
    board.model.add(whole + sum(found.opened) <= max(0, board.task.base.free[node][GPUS]))
