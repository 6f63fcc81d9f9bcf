"""How good is a placement in the terms of the table of goals, counted without solving?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.device import WHOLE
from swarm_iac.model.goals.words import figure
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.balance.besides import beside_value, shy
from swarm_iac.solver.balance.company import alone_value, wishes
from swarm_iac.solver.balance.nearest import near_value, nearby
from swarm_iac.solver.balance.overqualification import Overqualification
from swarm_iac.solver.balance.preferred import choosy, lacks_value
from swarm_iac.solver.exact.goals import LEVELS
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.value import size

#: What is better when it is less.
COSTS = ("moves", "near", "alone", "beside", "preferred", "overqualification", "split", "nodes")


def figures(stack: Stack, placement: Placement, moves: int = 0) -> dict[str, int]:
    """Placed GPUs and replicas by level, then moves, overqualification, split replicas, nodes in use, in this order.

    GPUs are counted in thousandths where parts of them are asked for.
    """
    snapshot = snapshot_of(stack, Placement())
    overqualification = Overqualification(snapshot)
    known = [a for a in placement.going() if a.workload in snapshot.requests and a.node in snapshot.nodes]
    found: dict[str, int] = {}
    for level in LEVELS:
        mine = [a for a in known if snapshot.requests[a.workload].priority == PRIORITIES[level]]
        gpus = sum(size(snapshot.requests[a.workload]) for a in mine)
        found |= {f"{level}_gpu_milli": gpus} if snapshot.milli else {f"{level}_gpus": gpus // WHOLE}
        found[f"{level}_replicas"] = len(mine)
    found["moves"] = moves
    counts = Counter((a.workload, a.node) for a in known)
    if nearby(snapshot):
        found["near"] = near_value(snapshot, counts)
    if wishes(snapshot):
        found["alone"] = alone_value(snapshot, counts)
    if shy(snapshot):
        found["beside"] = beside_value(snapshot, counts)
    if choosy(snapshot):
        found["preferred"] = lacks_value(snapshot, counts)
    found["overqualification"] = sum(overqualification.of(snapshot.requests[a.workload], snapshot.nodes[a.node]) for a in known)
    found["split"] = sum(bool(stack.hardware_of(a.node).split(a.cards, a.cpus)) for a in known)
    found["nodes"] = len({a.node for a in known})
    return found


def rank(found: dict[str, int]) -> tuple[int, ...]:
    """For comparing: larger is better."""
    return tuple(-value if name in COSTS else value for name, value in found.items())


def worse(best: dict[str, int], other: dict[str, int]) -> tuple[str, ...]:
    """What `other` has worse or better than `best`, most important first, for people; empty where they are equal."""
    changes = []
    for name, value in best.items():
        more = other[name] - value
        if not more:
            continue
        by = figure(name, abs(more))
        changes.append(f"{by.best} {'more' if more > 0 else 'fewer'} {by.words}")
    return tuple(changes)
