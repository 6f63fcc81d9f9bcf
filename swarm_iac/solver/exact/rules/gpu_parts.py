"""Do the parts of GPUs on a node fit on its cards?"""

from __future__ import annotations

from dataclasses import replace

from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.packing.kept_parts import Beside, beside
from swarm_iac.solver.snapshot.layout import GPUS


def parts_fit_cards(fleet: FleetModel) -> None:
    """For every node n:  Σ_{w whole} gpus_w · x[w,n] + cards that parts open ≤ empty cards of n,  by an arc flow.

    What cards carry of a share s is Σ_{w of share s} x[w,n]. Cards that fixed parts hold start at their height; those of
    parts that may stay are separate variables, so that it is known which are kept: Σ_c keep[w,c] ≤ x[w,n].
    """
    for node in fleet.by_node:
        shares, cards = fleet.parts(node)
        if not shares:
            continue
        found = beside(fleet.model, shares, cards)
        _hold(fleet, node, shares, found)
        if cards.stand:
            # As if every card could be changed: it says nothing new, but its linear relaxation is much stronger.
            _hold(fleet, node, shares, beside(fleet.model, shares, replace(cards, stand={})))
        for name in cards.stand:
            mine = [var for (one, _), var in found.keep.items() if one == name]
            fleet.on_card[name, node] = mine
            fleet.model.add(sum(mine) <= fleet.x[name, node])


def _hold(fleet: FleetModel, node: str, shares: dict[str, int], found: Beside) -> None:
    """What the cards carry is what stands on the node, and whole GPUs have the cards that parts leave empty."""
    for share, placed in found.placed.items():
        fleet.model.add(sum(fleet.x[name, node] for name in shares if shares[name] == share) == sum(placed))
    names = [name for name in fleet.by_node[node] if not fleet.request(name).in_pieces]
    whole = [fleet.x[name, node] * fleet.request(name).need[GPUS] for name in names]
    terms = [*whole, *found.opened, *fleet.cut_cards.get(node, [])]
    fleet.model.add(cp_model.LinearExpr.sum(terms) <= max(0, fleet.task.base.free[node][GPUS]))
