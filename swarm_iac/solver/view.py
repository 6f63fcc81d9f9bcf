"""How does a scene look to column generation? Workloads that are alike become a kind, nodes that are alike a shape.

Only workloads whose replicas do not depend on each other across nodes, and that no rack bounds, are seen; what else
stands somewhere is already taken from the nodes. What is not placed here any more bounds nothing: the rows of the
problem are the replicas wanted, and the ceilings of users and of the cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.solver.columns.problem import Kind, Problem, Row, Shape, wanted_rows
from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import suits_but_state
from swarm_iac.solver.scene import CEILINGS, EGRESS, ENDLESS, GPUS, INGRESS, NODE_DIMS, Ask, Bin, Scene
from swarm_iac.solver.task import Pairs
from swarm_iac.solver.worth import worth


def simple(scene: Scene, ask: Ask) -> bool:
    """Do its replicas stand each for itself?"""
    if (ask.gang and ask.members > 1) or (ask.within and ask.members > 1) or ask.spread == "rack":
        return False
    tight = [any(rack[i] < ENDLESS for rack in scene.racks.values()) for i in range(3)]
    power = ask.power is not None and ask.gpus > 0
    return not ((tight[0] and ask.need[EGRESS]) or (tight[1] and ask.need[INGRESS]) or (tight[2] and power))


@dataclass(frozen=True)
class View:
    """A problem, and whom its numbers mean: workloads of each kind, nodes of each shape."""

    problem: Problem
    asks: tuple[tuple[str, ...], ...]
    bins: tuple[tuple[str, ...], ...]


def view(room: Room, names: list[str]) -> View:
    """The workloads `names` on ready nodes, with what is left of everything in `room`."""
    groups, dims, steps = kinds_of(room, names)
    kinds = tuple(
        kind_of(group, worth(group[0]), sum(ask.members - room.counts[ask.name].total() for ask in group), dims, steps)
        for group in groups
    )
    problem, bins = problem_of(room, groups, kinds, dims, steps)
    return View(problem, tuple(tuple(ask.name for ask in group) for group in groups), bins)


def problem_of(
    room: Room, groups: list[list[Ask]], kinds: tuple[Kind, ...], dims: list[int], steps: list[int]
) -> tuple[Problem, tuple[tuple[str, ...], ...]]:
    """The problem of placing these kinds on ready nodes, and the nodes of each shape."""
    bins, shapes = _shapes(room, [group[0] for group in groups], dims, steps)
    limited = _limited(room, [ask.name for group in groups for ask in group])
    return Problem(kinds, shapes, wanted_rows(kinds) + _ceilings(room, groups, limited)), bins


def _limited(room: Room, names: list[str]) -> set[str]:
    """Users with a ceiling."""
    users = {room.scene.asks[name].user for name in names}
    return {user for user in users if any(value < ENDLESS // 2 for value in room.users[user])}


def kinds_of(room: Room, names: list[str], *, priorities: bool = True) -> tuple[list[list[Ask]], list[int], list[int]]:
    """Workloads that are alike, of one priority or of all; the dimensions that bound them; the step in each of these."""
    asks = [room.scene.asks[name] for name in names]
    limited = _limited(room, names)
    by_kind: dict[tuple[object, ...], list[Ask]] = {}
    for ask in asks:
        alike = (
            -ask.priority if priorities else 0, ask.need, ask.usage, ask.share, ask.model, ask.gpu_memory, ask.select,
            ask.user if ask.user in limited else "", ask.name if ask.spread else "",
        )  # fmt: skip
        by_kind.setdefault(alike, []).append(ask)
    groups = list(by_kind.values())
    dims = [i for i in range(1, len(NODE_DIMS)) if any(group[0].need[i] for group in groups)]
    dims = [i for i in dims if any(free[i] < ENDLESS // 2 for free in room.free.values())]
    return groups, dims, [math.gcd(*(group[0].need[i] for group in groups)) for i in dims]


def kind_of(group: list[Ask], worth: int, count: int, dims: list[int], steps: list[int]) -> Kind:
    """The kind that a group of workloads is."""
    one = group[0]
    need = tuple(one.need[i] // step for i, step in zip(dims, steps, strict=True))
    return Kind(worth, count, one.gpus, one.share, need, apart=one.spread == "node")


def _shapes(
    room: Room, asks: list[Ask], dims: list[int], steps: list[int]
) -> tuple[tuple[tuple[str, ...], ...], tuple[Shape, ...]]:
    fits = suited(asks)
    by_shape: dict[tuple[int, tuple[int, ...], tuple[int, ...]], list[Bin]] = {}
    for bin_ in room.scene.bins.values():
        if bin_.state == "ready":
            free = room.free[bin_.name]
            rooms = tuple(max(0, free[i]) // step for i, step in zip(dims, steps, strict=True))
            by_shape.setdefault((max(0, free[GPUS]), rooms, fits(bin_)), []).append(bin_)
    shapes = tuple(Shape(len(alike), cards, rooms, fitting) for (cards, rooms, fitting), alike in by_shape.items())
    return tuple(tuple(bin_.name for bin_ in alike) for alike in by_shape.values()), shapes


def suited(asks: list[Ask]) -> Callable[[Bin], tuple[int, ...]]:
    """Which of the workloads suit a node, its state aside? Worked out once for nodes that are alike."""
    keys = sorted({key for ask in asks for key, _ in ask.select})
    known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def fits(bin_: Bin) -> tuple[int, ...]:
        like = (bin_.model, bin_.gpu_memory, tuple(bin_.labels.get(key) for key in keys))
        if like not in known:
            known[like] = tuple(k for k, ask in enumerate(asks) if suits_but_state(ask, bin_))
        return known[like]

    return fits


def _ceilings(room: Room, groups: list[list[Ask]], limited: set[str]) -> tuple[Row, ...]:
    rows = []
    for i in range(len(CEILINGS)):
        for user in sorted(limited):
            mine = tuple((k, group[0].usage[i]) for k, group in enumerate(groups) if group[0].user == user)
            rows.append((room.users[user][i], mine))
        rows.append((room.cluster[i], tuple((k, group[0].usage[i]) for k, group in enumerate(groups))))
    kept = [(limit, tuple((k, use) for k, use in uses if use)) for limit, uses in rows]
    return tuple(Row(max(0, limit), uses) for limit, uses in kept if uses and limit < ENDLESS // 2)


def named(seen: View, room: Room, counts: dict[str, Counter[int]]) -> Pairs:
    """Replicas of workloads on nodes, from counts of kinds on nodes: kinds are handed out in the order of names."""
    left = {name: room.scene.asks[name].members - room.counts[name].total() for names in seen.asks for name in names}
    pairs: Pairs = Counter()
    for node in sorted(counts):
        for kind, count in sorted(counts[node].items()):
            rest = count
            for name in seen.asks[kind]:
                take = min(rest, left[name])
                if take:
                    pairs[name, node] += take
                    left[name] -= take
                    rest -= take
                if not rest:
                    break
    return pairs
