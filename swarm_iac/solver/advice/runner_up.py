"""What would it cost to put a placed workload elsewhere? Its nodes are forbidden one by one, and all is solved again."""

from __future__ import annotations

import datetime
from collections import Counter

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Replicas
from swarm_iac.solver.decide.solve import unexplained
from swarm_iac.solver.exact.figures import figures, rank, worse
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.solution import RunnerUp

#: So many of its nodes are tried; the best answer counts.
NODES = 3
_LABEL = "elsewhere"


def find_runner_up(
    stack: Stack,
    placement: Placement,
    workload: str,
    last: Placement,
    today: datetime.date | None,
    watch: Watch | None = None,
) -> RunnerUp | None:
    """The best placement in which one of the workload's nodes is closed to it; None when it stands nowhere.

    What ran in `last` and leaves its node for it is a move, its own replicas too. Once the watch is stopped, the best of
    the nodes that were tried to the end.
    """
    runs = {(a.name, a.node) for a in last.going()}
    stack, watch = placed_only(stack, placement), watch or Watch()
    here = sorted({a.node for a in placement.going() if a.workload == workload})
    base = figures(stack, placement)
    best: tuple[tuple[int, ...], RunnerUp] | None = None
    for node in here[:NODES]:
        found = unexplained(_avoiding(stack, workload, node), placement, today=today, watch=watch).placed()
        if watch.stopped:
            break
        moved = sum(1 for move in found.moves if move.target and (move.name, move.source) in runs)
        now = figures(stack, found.placement, moved)
        nodes = tuple(sorted(a.node for a in found.placement.going() if a.workload == workload))
        runner_up = RunnerUp(avoids=node, nodes=nodes, price=worse(base, now))
        if best is None or rank(now) > best[0]:
            best = rank(now), runner_up
    return best[1] if best else None


def placed_only(stack: Stack, placement: Placement, besides: str = "") -> Stack:
    """The stack with only what has a place, so that nobody gains by a workload's going; `besides` as it is."""
    counts = Counter(a.workload for a in placement.allocations)
    ended = {a.workload for a in placement.allocations if a.ended}
    workloads = {}
    for name, request in stack.workloads.items():
        if name == besides:
            workloads[name] = request
        elif request.gang is None and 0 < counts[name] < request.members:
            most = request.replicas.most if name in ended else counts[name]  # who has ended keeps its number
            replicas = Replicas(least=counts[name], most=most)
            workloads[name] = request.model_copy(update={"replicas": replicas})
        elif counts[name]:
            workloads[name] = request
    return stack.model_copy(update={"workloads": workloads})


def _avoiding(stack: Stack, workload: str, node: str) -> Stack:
    """The stack, with a label on every other node that the workload asks for."""
    label = _LABEL
    while any(label in it.labels for it in stack.nodes.values()):
        label += "-x"
    nodes = {
        name: it if name == node else it.model_copy(update={"labels": {**it.labels, label: "yes"}})
        for name, it in stack.nodes.items()
    }
    request = stack.workloads[workload]
    place = request.place.model_copy(update={"select": {**request.place.select, label: "yes"}})
    workloads = {**stack.workloads, workload: request.model_copy(update={"place": place})}
    return stack.model_copy(update={"nodes": nodes, "workloads": workloads})
