"""Which running allocations does a placement move or stop, and why?"""

from __future__ import annotations

import math

from swarm_iac.limits import joins
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import held_of
from swarm_iac.solver.explain.team_shares import called_back
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified
from swarm_iac.solver.solution import Move


def moves_with_causes(snapshot: Snapshot, classified: Classified, placement: Placement) -> tuple[Move, ...]:
    """Running allocations, still wanted, that leave their node, or the card that they hold a part of."""
    now: dict[str, Allocation] = placement.by_name()
    highest = _highest(snapshot, placement)
    moves = []
    for found in snapshot.running.values():
        for was in found:
            target = now[was.name].node if was.name in now else ""
            if target != was.node or _other_card(snapshot, was, now[was.name]):
                forced = was.name not in classified.stay
                moves.append(
                    Move(
                        name=was.name,
                        source=was.node,
                        target=target,
                        forced=forced,
                        why=_why(snapshot, placement, was, target, forced, highest),
                    )
                )
    return tuple(sorted(moves, key=lambda move: move.name))


def _other_card(snapshot: Snapshot, was: Allocation, now: Allocation) -> bool:
    """Does a part of a GPU stay on its node, on another card, or an instance elsewhere? It restarts as one that moves does."""
    request = snapshot.requests[was.workload]
    if request.profile:
        return was.node == now.node and was.gpus != now.gpus
    return request.shared and was.node == now.node and bool({*was.cards} and {*now.cards} - {*was.cards})


def _left(snapshot: Snapshot, gang: str) -> str:
    """A node that a member of the gang cannot stay on, whatever else is there; empty if there is none."""
    nodes = (a.node for a in snapshot.running.get(gang, ()))
    return next((node for node in nodes if node not in snapshot.nodes or snapshot.nodes[node].state in ("drain", "lost")), "")


def _why(snapshot: Snapshot, placement: Placement, was: Allocation, target: str, forced: bool, highest: float) -> str:
    host = snapshot.nodes.get(was.node)
    if host is None:
        return f"{was.node} is no longer in the stack"
    if host.state in ("drain", "lost"):
        return f"{was.node} is in state {host.state}"
    if was.user not in (None, user := snapshot.requests[was.workload].user):
        return f"it is of {user} now"
    if forced:
        gone = _left(snapshot, was.workload) if snapshot.requests[was.workload].gang else ""
        return f"its gang has to leave {gone}" if gone else f"it does not fit {was.node} any more"
    return _why_moved(snapshot, placement, was) if target else _why_stopped(snapshot, placement, was, highest)


def _why_moved(snapshot: Snapshot, placement: Placement, was: Allocation) -> str:
    now = placement.by_name()[was.name]
    if now.node == was.node:
        cut = snapshot.requests[was.workload].profile
        what = "position on a GPU, since MIG instances" if cut else "GPU, since parts of GPUs"
        return f"changes its {what} fit there in no other way"
    joined = joins(snapshot.stack, Placement(allocations=snapshot.last), placement, now)
    return f"comes to {joined}, which runs only with it" if joined else "frees capacity for others"


def _why_stopped(snapshot: Snapshot, placement: Placement, was: Allocation, highest: float) -> str:
    request = snapshot.requests[was.workload]
    if request.gang and request.members > len(snapshot.running[was.workload]):
        return f"its gang has {request.members} members now, and not all have a place"
    if lent := called_back(snapshot, Placement(allocations=snapshot.last), placement, was):
        return lent
    if highest > request.priority:
        return "stops for a higher priority"
    if snapshot.shares is not None and snapshot.stack.solve.reclaim:
        return "stops for others of its priority, by what teams are due"
    return "stops for others of its priority that hold more"


def _highest(snapshot: Snapshot, placement: Placement) -> float:
    """The highest priority of those that were not where they are, or held something else."""
    before = {a.name: a for a in snapshot.last}
    return max(
        (
            snapshot.requests[one.workload].priority
            for one in placement.going()
            if (was := before.get(one.name)) is None or was.node != one.node or held_of(was) != held_of(one)
        ),
        default=-math.inf,
    )
