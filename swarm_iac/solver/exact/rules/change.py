"""What may a change do to what runs? Cordoned nodes are bounded in `FleetModel`: x[w,n] ≤ what was placed there."""

from __future__ import annotations

from swarm_iac.solver.exact.changes import Keeping
from swarm_iac.solver.exact.fleet_model import FleetModel


def moves_stay_in_budget(fleet: FleetModel, keeping: Keeping) -> None:
    """Σ_w ( min(stay_w, placed_w) − Σ_n kept[w,n] ) + Σ_n reassigned[n] ≤ solve.moves

    stay_w counts replicas that could stay where they are; what has to leave (drain, lost, another size) is not in it,
    and what is stopped is no move.
    """
    immovable_stay(fleet, keeping)
    if fleet.task.budget is None:
        return
    if terms := keeping.moves():
        fleet.model.add(sum(var * sign for var, sign in terms) <= fleet.task.budget)


def immovable_stay(fleet: FleetModel, keeping: Keeping) -> None:
    """For every w that is not movable:  min(stay_w, placed_w) − Σ_n kept[w,n] ≤ 0;  it may be stopped."""
    for name, stayed in keeping.stayed.items():
        if not fleet.request(name).movable:
            fleet.model.add(stayed <= sum(var for (one, _), var in keeping.kept.items() if one == name))
