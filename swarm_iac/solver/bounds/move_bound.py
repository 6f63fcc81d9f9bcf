"""How few moves could a change need, and which nodes would those change? The scene as `columns.stay` sees it.

Workloads that are alike are one kind here whatever their priority, since one is moved as well as the other; nodes with
the same capacity and the same replicas are one shape. What binds replicas of different nodes (gangs, racks, ceilings) is left
out, which can only make the bound weaker.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.columns.keeping import EPSILON, MOVE, Column, fewest_moves
from swarm_iac.solver.columns.problem import Keep, Pattern, Problem, Shape
from swarm_iac.solver.repair.fewest_moves import moved
from swarm_iac.solver.repair.kinds import free_of, kind_of, kinds_of, suited
from swarm_iac.solver.repair.replica_moves import rearranged
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import GPUS, SUPPLY
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot
from swarm_iac.solver.snapshot.suitability import open_to
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload

#: Rounds of pricing.
ROUNDS = {"quick": 10, "normal": 40, "thorough": 200}


@dataclass(frozen=True)
class Still:
    """No placement of the same replicas moves fewer than `moves`; `found` is the best that the columns give, if any."""

    moves: int
    found: Pairs | None
    rounds: int


@dataclass(frozen=True)
class _Change:
    problem: Problem
    nodes: tuple[tuple[str, ...], ...]
    number: dict[str, int]  # the kind of each workload
    wanted: list[int]  # replicas of each kind to be placed besides what could stay
    columns: list[Column]  # what nodes carry in the placement given
    stopped: int


def fewest_by_columns(
    snapshot: Snapshot, classified: Classified, counts: Pairs, effort: str, stop: TimeLimit = TimeLimit()
) -> Still:
    """The bound for every placement of as many replicas of each workload as in `counts`."""
    change = _change(snapshot, classified, counts)
    if stop.in_rounds(len(change.problem.kinds) for _ in change.problem.shapes) < 1:
        return Still(0, None, 0)  # a large fleet whose first round would take longer
    stopped = change.stopped  # they leave their nodes as well, and are no moves
    found = fewest_moves(change.problem, change.wanted, change.columns, rounds=ROUNDS[effort], stop=stop, beyond=stopped)
    least = max(0, math.ceil(found.bound - stopped - EPSILON))
    if found.moves is None or found.moves >= moved(classified, counts):
        return Still(least, None, found.rounds)
    left = [list(names) for names in change.nodes]
    carried: dict[str, Counter[int]] = {}
    for (h, pattern), times in sorted(found.plan.items()):
        for _ in range(times):
            carried[left[h].pop()] = Counter(dict(pattern))
    return Still(least, rearranged(snapshot, classified, by_workload(counts), change.number, carried), found.rounds)


def _change(snapshot: Snapshot, classified: Classified, counts: Pairs) -> _Change:
    placed, capacity = by_workload(counts), FreeCapacity(snapshot)
    groups, dims, steps = kinds_of(capacity, sorted(placed), priorities=False)
    number = {request.name: k for k, group in enumerate(groups) for request in group}
    kinds = tuple(kind_of(g, sum(placed[request.name] for request in g), dims, steps) for g in groups)
    stand: dict[str, Counter[int]] = {name: Counter() for name in snapshot.nodes}
    could: Counter[str] = Counter()
    for a in classified.stay.values():
        if placed[a.workload]:
            could[a.workload] += 1
            stand[a.node][number[a.workload]] += 1
    only: dict[str, Counter[int]] = {name: Counter() for name in snapshot.nodes}  # who may stay, on nodes closed to more of it
    for a in (*classified.stay.values(), *classified.soft.values()):
        if placed[a.workload] and not open_to(snapshot.requests[a.workload], snapshot.nodes[a.node]):
            only[a.node][number[a.workload]] += 1
    now: dict[str, Counter[int]] = {name: Counter() for name in snapshot.nodes}
    for (name, node), count in counts.items():
        now[node][number[name]] += count
    suits = suited(snapshot, [group[0] for group in groups])
    alike: dict[tuple[tuple[int, ...], int, tuple[int, ...], Pattern, Pattern], list[str]] = {}
    for name, host in snapshot.nodes.items():
        if host.state in ("ready", "cordon"):
            stood, closed = (tuple(sorted(each[name].items())) for each in (stand, only))
            fits = {*(k for k, _ in closed), *(suits(host) if host.state == "ready" else ())}
            power = host.power if host.capacity[SUPPLY] < ENDLESS else 0
            alike.setdefault((host.capacity, power, tuple(sorted(fits)), stood, closed), []).append(name)
    nodes = tuple(map(tuple, alike.values()))
    shapes = []
    for (has, _, able, stood, closed), names in alike.items():
        first = snapshot.nodes[names[0]]
        capacities = tuple(max(0, free_of(first, has, i)) // step for i, step in zip(dims, steps, strict=True))
        keeps = tuple(Keep(k, n, MOVE) for k, n in stood)
        shapes.append(Shape(len(names), has[GPUS], capacities, able, closed, keeps))
    columns = [(h, tuple(sorted(now[name].items()))) for h, names in enumerate(nodes) for name in names if now[name]]
    stands = sum(stand.values(), Counter[int]())
    return _Change(
        problem=Problem(kinds, tuple(shapes), ()),
        nodes=nodes,
        number=number,
        wanted=[kind.count - stands[k] for k, kind in enumerate(kinds)],
        columns=columns,
        stopped=sum(max(0, count - placed[name]) for name, count in could.items()),
    )
