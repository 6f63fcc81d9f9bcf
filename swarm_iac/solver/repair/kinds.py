"""How does a scene look to column generation? Workloads that are alike become a kind, nodes that are alike a shape.

What binds replicas of different nodes is relaxed: members of a gang and what stays within or apart by rack count each for
itself, and racks that are alike share one budget. So what no mix exceeds, no placement does; and with the budgets summed
the linear program is as strong as with each of them, since racks that are alike may be mixed alike. What else stands
somewhere is already taken from the nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swarm_iac.solver.columns.problem import Kind, Problem, Row, Shape, wanted_rows
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import COUNTED, GPUS, NODE, RACK, UPLINK
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin
from swarm_iac.solver.snapshot.suitability import suits_but_state
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.solver.snapshot.value import size, worth

#: One GPU of a priority for so many of the next lower one, in a linear program: three levels within two decades.
STEP = 10
#: What a replica without a GPU gains: with no lower priority to hold back a hundredth of a GPU, else so much of one.
WITHOUT, BEFORE_OTHERS = 10, 200


def simple(ask: Ask) -> bool:
    """Do its replicas stand each for itself, but for what racks and ceilings hold? Columns know no NUMA nodes."""
    return not ask.single and not (ask.members > 1 and (ask.gang or ask.within or ask.spread == "rack"))


@dataclass(frozen=True)
class View:
    """A problem, and what its numbers mean: workloads of each kind, nodes of each shape."""

    problem: Problem
    asks: tuple[tuple[str, ...], ...]
    bins: tuple[tuple[str, ...], ...]


def view(room: Room, names: list[str]) -> View:
    """The workloads `names` on ready nodes, with what is left of everything in `room`."""
    groups, dims, steps = kinds_of(room, names)
    least = min((group[0].priority for group in groups), default=0)
    kinds = tuple(
        kind_of(
            group,
            sum(ask.members - room.counts[ask.name].total() for ask in group),
            dims,
            steps,
            worth=worth(group[0]),
            value=_value(group[0], least),
        )
        for group in groups
    )
    problem, bins = problem_of(room, groups, kinds, dims, steps)
    return View(problem, tuple(tuple(ask.name for ask in group) for group in groups), bins)


def _value(ask: Ask, least: int) -> int:
    """What a replica gains: GPUs of a level before those of the next, as far as three decades reach."""
    plain = WITHOUT if ask.priority == least else BEFORE_OTHERS
    return int(STEP ** (ask.priority - least)) * (size(ask) or plain)


def problem_of(
    room: Room, groups: list[list[Ask]], kinds: tuple[Kind, ...], dims: list[int], steps: list[int]
) -> tuple[Problem, tuple[tuple[str, ...], ...]]:
    """The problem of placing these kinds on ready nodes, and the nodes of each shape."""
    asks = [group[0] for group in groups]
    classes = _classes(room, asks)
    bins, shapes = _shapes(room, asks, dims, steps, classes)
    limited = _limited(room, [ask.name for group in groups for ask in group])
    rows = wanted_rows(kinds) + _ceilings(room, groups, limited) + _racks(room, asks, bins, classes)
    return Problem(kinds, shapes, rows), bins


def _limited(room: Room, names: Iterable[str]) -> set[str]:
    """Users with a ceiling that may bind."""
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
            ask.user if ask.user in limited else "", bool(ask.spread), ask.power, ask.single,
        )  # fmt: skip
        by_kind.setdefault(alike, []).append(ask)
    groups = list(by_kind.values())
    dims = _telling(room, [group[0].need for group in groups])
    return groups, dims, [math.gcd(*(group[0].need[i] for group in groups)) for i in dims]


def _telling(room: Room, needs: list[tuple[int, ...]]) -> list[int]:
    """The dimensions besides GPUs that may bind on some node, and are not implied by another one."""
    used = [i for i in range(len(NODE)) if i != GPUS and any(need[i] for need in needs)]
    rooms = {tuple(free) for free in room.free.values()}
    used = [i for i in used if any(free[i] < ENDLESS // 2 for free in rooms)]
    kept: list[int] = []
    for i in used:
        others = [GPUS, *kept]
        implied = any(all(need[i] <= need[j] for need in needs) and all(free[i] >= free[j] for free in rooms) for j in others)
        if not implied:
            kept.append(i)
    return kept


def kind_of(group: list[Ask], count: int, dims: list[int], steps: list[int], *, worth: int = 0, value: int = 0) -> Kind:
    """The kind that a group of workloads is. Of those that are spread, a node holds one each."""
    one = group[0]
    need = tuple(one.need[i] // step for i, step in zip(dims, steps, strict=True))
    return Kind(worth, count, one.gpus, one.share, need, most=len(group) if one.spread else 0, value=value)


def _classes(room: Room, asks: list[Ask]) -> dict[str, int]:
    """A number for each rack whose budget may bind; the same for racks with the same budget and the same nodes."""
    wanted = [*(any(ask.need[i] for ask in asks) for i in UPLINK), any(map(_draws, asks))]
    binding = {
        name: tuple(value if wanted[i] else ENDLESS for i, value in enumerate(values)) for name, values in room.racks.items()
    }
    binding = {name: values for name, values in binding.items() if any(value < ENDLESS // 2 for value in values)}
    inside: dict[str, list[tuple[object, ...]]] = {name: [] for name in binding}
    for bin_ in room.scene.bins.values():
        if bin_.rack in inside and bin_.state == "ready":
            inside[bin_.rack].append((room.scene.alike[bin_.name], bin_.power, *room.free[bin_.name]))
    known: dict[object, int] = {}
    return {
        name: known.setdefault((values, tuple(sorted(Counter(inside[name]).items(), key=str))), len(known))
        for name, values in binding.items()
    }


def _draws(ask: Ask) -> bool:
    return ask.power is not None and ask.gpus > 0


def _shapes(
    room: Room, asks: list[Ask], dims: list[int], steps: list[int], classes: dict[str, int]
) -> tuple[tuple[tuple[str, ...], ...], tuple[Shape, ...]]:
    fits = suited(asks)
    by_shape: dict[tuple[object, ...], list[Bin]] = {}
    found: list[Shape] = []
    for bin_ in room.scene.bins.values():
        if bin_.state == "ready":
            free = room.free[bin_.name]
            rooms = tuple(max(0, free[i]) // step for i, step in zip(dims, steps, strict=True))
            rack = classes.get(bin_.rack or "", -1)
            key = (max(0, free[GPUS]), rooms, fits(bin_), rack, bin_.power if rack >= 0 else 0)
            if key not in by_shape:
                found.append(Shape(0, max(0, free[GPUS]), rooms, fits(bin_)))
            by_shape.setdefault(key, []).append(bin_)
    shapes = tuple(
        Shape(len(alike), one.cards, one.room, one.fits) for one, alike in zip(found, by_shape.values(), strict=True)
    )
    return tuple(tuple(bin_.name for bin_ in alike) for alike in by_shape.values()), shapes


def suited(asks: list[Ask]) -> Callable[[Bin], tuple[int, ...]]:
    """Which of the workloads suit a node, its state aside? Worked out once for nodes that are alike."""
    keys = sorted({key for ask in asks for key, _ in ask.select})
    known: dict[tuple[object, ...], tuple[int, ...]] = {}

    def fits(bin_: Bin) -> tuple[int, ...]:
        like = (
            bin_.model,
            bin_.gpu_memory,
            bin_.numa,
            tuple(bin_.labels.get(key) for key in keys),
        )
        if like not in known:
            known[like] = tuple(k for k, ask in enumerate(asks) if suits_but_state(ask, bin_))
        return known[like]

    return fits


def _ceilings(room: Room, groups: list[list[Ask]], limited: set[str]) -> tuple[Row, ...]:
    rows = []
    for i in range(len(COUNTED)):
        for user in sorted(limited):
            mine = tuple((k, group[0].usage[i]) for k, group in enumerate(groups) if group[0].user == user)
            rows.append((room.users[user][i], mine))
        rows.append((room.cluster[i], tuple((k, group[0].usage[i]) for k, group in enumerate(groups))))
    kept = [(limit, tuple((k, use) for k, use in uses if use)) for limit, uses in rows]
    return tuple(Row(max(0, limit), uses) for limit, uses in kept if uses and limit < ENDLESS // 2)


def _racks(room: Room, asks: list[Ask], bins: tuple[tuple[str, ...], ...], classes: dict[str, int]) -> tuple[Row, ...]:
    """For racks that are alike, and each of RACK:  Σ_{w, n} use_w · x[w,n] ≤ Σ_r budget_r"""
    rows = []
    for number in sorted(set(classes.values())):
        racks = [rack for rack, one in classes.items() if one == number]
        firsts = [room.scene.bins[names[0]] for names in bins]
        shapes = [h for h, bin_ in enumerate(firsts) if bin_.rack is not None and classes.get(bin_.rack) == number]
        for i in range(len(RACK)):
            limit = sum(max(0, room.racks[rack][i]) for rack in racks)
            amounts = {h: tuple((k, use) for k, a in enumerate(asks) if (use := firsts[h].of_rack(a)[i])) for h in shapes}
            inside = tuple((h, found) for h, found in amounts.items() if found)
            if inside and limit < ENDLESS // 2:
                rows.append(Row(limit, (), inside))
    return tuple(rows)


def named(seen: View, room: Room, counts: dict[str, Counter[int]]) -> Pairs:
    """Replicas of workloads on nodes, from counts of kinds on nodes.

    Kinds are handed out in the order of names; of those that are spread each node gets the ones with the most left.
    """
    left = {name: room.scene.asks[name].members - room.counts[name].total() for names in seen.asks for name in names}
    pairs: Pairs = Counter()
    for node in sorted(counts):
        for kind, count in sorted(counts[node].items()):
            names = seen.asks[kind]
            if room.scene.asks[names[0]].spread:
                for name in sorted(names, key=lambda name: -left[name])[:count]:
                    if left[name]:
                        pairs[name, node] += 1
                        left[name] -= 1
                continue
            rest = count
            for name in names:
                take = min(rest, left[name])
                if take:
                    pairs[name, node] += take
                    left[name] -= take
                    rest -= take
                if not rest:
                    break
    return pairs
