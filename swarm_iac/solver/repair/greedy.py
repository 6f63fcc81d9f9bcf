"""What would a careful person do in one pass? Best-fit decreasing: the warm start of every solve.

Workloads by priority, then those that run, then the largest; each first where it stands, then on the fullest node
that fits. The answer keeps every rule, the move budget included, so it is feasible for the model as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import GPUS, MEMORY, VCPUS
from swarm_iac.solver.snapshot.node_slots import Ints, Slots
from swarm_iac.solver.snapshot.snapshot import Ask, Bin, Scene
from swarm_iac.solver.snapshot.suitability import may_stay, suits
from swarm_iac.solver.snapshot.tasks import Pairs, Task, by_workload

#: Who comes first of one priority: less is sooner.
Order = Callable[[Ask], float]
#: Orders that are tried where nothing runs: large replicas, large gangs, whatever needs little else for its GPUs, small gangs.
ORDERS: tuple[Order, ...] = (
    lambda ask: -ask.gpus,
    lambda ask: -ask.gpus * (ask.members if ask.gang else 1),
    lambda ask: ask.need[VCPUS] / (ask.gpus * ask.share) if ask.gpus else 1e9,
    lambda ask: ask.need[MEMORY] / (ask.gpus * ask.share) if ask.gpus else 1e18,
    lambda ask: (ask.members if ask.gang else 0) - ask.gpus / 1000,
)
#: So many workloads are placed whatever `stop` says: an answer that was cut short is not empty.
FIRST = 200


def misfit(scene: Scene, ask: Ask, bin_: Bin) -> int:
    """How much finer the node is than what was asked for.

    0 when nothing is wasted: the model was named, or the node has no GPUs and none are asked for. Else, for a
    workload without GPUs on a node with some, or of any model: 1 + the number of models with less memory.
    """
    if ask.model is not None or bin_.model is None:
        return 0
    if not ask.gpus:
        return 1
    lesser = {b.model for b in scene.bins.values() if ask.gpu_memory <= b.gpu_memory < bin_.gpu_memory}
    return len(lesser - {None})


class Misfits:
    """`misfit` by kind of workload and node, worked out once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.known: dict[tuple[bool, str | None, int, str | None, int], int] = {}
        self.rows: dict[tuple[bool, str | None, int], Ints] = {}
        self.labelled: dict[tuple[tuple[str, str], ...], Ints] = {}

    def of(self, ask: Ask, bin_: Bin) -> int:
        """`misfit(scene, ask, bin_)`."""
        key = (bool(ask.gpus), ask.model, ask.gpu_memory, bin_.model, bin_.gpu_memory)
        if key not in self.known:
            self.known[key] = misfit(self.scene, ask, bin_)
        return self.known[key]

    def all(self, ask: Ask, bins: list[Bin], kinds: Ints) -> Ints:
        """The same for every node; `kinds` numbers nodes that are alike."""
        key = (bool(ask.gpus), ask.model, ask.gpu_memory)
        if key not in self.rows:
            cost = np.zeros(int(kinds.max(initial=-1)) + 1, dtype=np.int64)
            for kind, bin_ in {int(kind): bin_ for kind, bin_ in zip(kinds, bins, strict=True)}.items():
                cost[kind] = self.of(ask, bin_)
            self.rows[key] = cost[kinds]
        return self.rows[key]

    def reserved(self, ask: Ask, bins: list[Bin], kinds: Ints) -> Ints:
        """For every node how many labels it has that others ask for, and this workload does not: theirs is to come first."""
        if ask.select not in self.labelled:
            asked = {pair for other in self.scene.asks.values() for pair in other.select} - set(ask.select)
            count = np.zeros(int(kinds.max(initial=-1)) + 1, dtype=np.int64)
            for kind, bin_ in {int(kind): bin_ for kind, bin_ in zip(kinds, bins, strict=True)}.items():
                count[kind] = sum(bin_.labels.get(key) == value for key, value in asked)
            self.labelled[ask.select] = count[kinds]
        return self.labelled[ask.select]


def greedy(task: Task, stop: Callable[[], bool] = lambda: False, order: Order = lambda ask: -ask.gpus) -> Pairs:
    """Replicas of the free workloads by (workload, node). `stop` ends it with what is placed so far.

    `order` decides who comes first of one priority; what runs comes before.
    """
    scene, slots, misfits = task.scene, Slots(task.base.copy()), Misfits(task.scene)
    chosen: Pairs = Counter()
    budget = task.budget
    asks = sorted(
        (scene.asks[name] for name in task.free),
        key=lambda a: (-a.priority, not task.running[a.name], order(a), -a.need[MEMORY], -a.need[VCPUS], a.name),
    )
    homes = _homes(task)
    full: set[tuple[object, ...]] = set()  # what found no place: room only shrinks, so its like finds none either
    for done, ask in enumerate(asks):
        if done >= FIRST and stop():
            break
        like = (ask.need, ask.usage, ask.share, ask.model, ask.gpu_memory, ask.select, ask.power, ask.user, ask.single)
        if like in full and ask.name not in homes:
            continue
        picked, moved = _best(task, slots, ask, homes.get(ask.name, []), misfits, budget)
        if not picked and task.pairs is None and not (ask.gang or ask.within or ask.spread):
            full.add(like)
        for (_, node), count in picked.items():
            back = slots.put_back(ask, scene.bins[node], count, task.own_cards(ask.name, node))
            slots.take(ask, scene.bins[node], count - back)
        chosen.update(picked)
        budget = None if budget is None else budget - moved
    return chosen


def _homes(task: Task) -> dict[str, list[str]]:
    """The nodes on which free replicas stood and may stay, by workload."""
    found: dict[str, set[str]] = {}
    for name, node in (*task.stay, *task.soft):
        if task.home(name, node):
            found.setdefault(name, set()).add(node)
    return {name: sorted(nodes) for name, nodes in found.items()}


def _best(task: Task, slots: Slots, ask: Ask, homes: list[str], misfits: Misfits, budget: int | None) -> tuple[Pairs, int]:
    """The most replicas that one group of nodes takes, with the fewest moves, which are given as well; `slots` is as before."""
    best: Pairs = Counter()
    fewest = 0
    for nodes in _groups(task, slots, ask, homes):
        picked = _fill(task, slots, ask, nodes, misfits, budget)
        moved = _moved(task, ask, picked)
        for (_, node), count in picked.items():
            slots.take(ask, task.scene.bins[node], -count)
        if (ask.gang and picked.total() < task.free[ask.name]) or (budget is not None and moved > budget):
            continue
        if (picked.total(), -moved) > (best.total(), -fewest):
            best, fewest = picked, moved
        if best.total() == task.free[ask.name] and not fewest:
            break
    return best, fewest


def refill(task: Task, counts: Pairs, pairs: frozenset[tuple[str, str]]) -> Pairs:
    """Add what still fits beside `counts`, on `pairs` only, for workloads of which nothing could stay anywhere."""
    held = {name for (name, _), count in (task.stay + task.soft).items() if count}
    done = by_workload(counts)
    free = {n: left for n, k in task.free.items() if n not in held and (left := k - done[n]) > 0}
    room = _room_beside(task, counts)
    return counts + greedy(Task(task.scene, room, free, running=task.running, budget=task.budget, pairs=pairs))


def completed(task: Task, counts: Pairs, names: frozenset[str], pairs: frozenset[tuple[str, str]], moves: int) -> Pairs:
    """Add all that fits of the workloads `names`, of which nothing is in `counts`, on `pairs` only: each first where it stands.

    `counts` has made so many of the budget's `moves`.
    """
    beside = Task(
        scene=task.scene,
        base=_room_beside(task, counts),
        free={name: count for name, count in task.free.items() if name in names},
        stay=Counter({pair: count for pair, count in task.stay.items() if pair[0] in names}),
        soft=Counter({pair: count for pair, count in task.soft.items() if pair[0] in names}),
        running=task.running,
        budget=None if task.budget is None else max(0, task.budget - moves),
        nodes=task.nodes,
        pairs=pairs,
        cards={node: {n: on for n, on in cards.items() if n in names} for node, cards in task.cards.items()},
    )
    return counts + greedy(beside)


def _room_beside(task: Task, counts: Pairs) -> Room:
    """What is left beside `counts`; parts of GPUs keep their cards as far as they may."""
    room = task.base.copy()
    rest: Pairs = Counter()
    for (name, node), count in counts.items():
        back = room.put_back(task.scene.asks[name], task.scene.bins[node], count, task.own_cards(name, node))
        rest[name, node] = count - back
    for (name, node), count in sorted(rest.items(), key=lambda one: -task.scene.asks[one[0][0]].share):
        room.take(task.scene.asks[name], task.scene.bins[node], count)
    return room


def _moved(task: Task, ask: Ask, picked: Pairs) -> int:
    stayed = sum(min(count, task.stay[pair]) for pair, count in picked.items())
    stayable = sum(count for (name, _), count in task.stay.items() if name == ask.name) if task.stay else 0
    return min(stayable, picked.total()) - stayed


def candidates(task: Task, ask: Ask) -> list[Bin]:
    """Nodes where a free replica of `ask` could stand, in the order of their names."""
    found = []
    for bin_ in task.scene.bins.values():
        if task.nodes is not None and bin_.name not in task.nodes and not task.home(ask.name, bin_.name):
            continue
        if task.pairs is not None and (ask.name, bin_.name) not in task.pairs:
            continue
        if suits(ask, bin_) or (task.home(ask.name, bin_.name) and may_stay(ask, bin_)):
            found.append(bin_)
    return found


@dataclass(frozen=True)
class _Nodes:
    """Where a workload may stand: the nodes that are its home, and rows of others with how much each could take."""

    homes: list[Bin]
    rows: Ints
    caps: Ints


def _groups(task: Task, slots: Slots, ask: Ask, homes: list[str]) -> list[_Nodes]:
    """All candidates at once, or by node or rack for `within`: where it stands first, then where the least is left."""
    scene = task.scene
    at_home = [bin_ for node in homes if may_stay(ask, bin_ := scene.bins[node]) and _asked(task, ask, node)]
    caps = slots.caps(ask)
    if task.nodes is not None:
        among = np.zeros(len(slots.bins), dtype=np.bool_)
        among[[slots.index[node] for node in {*task.nodes, *homes} if node in slots.index]] = True
        caps = np.where(among, caps, 0)
    rows = np.flatnonzero(caps)
    if task.pairs is not None:
        rows = np.array([row for row in rows if _asked(task, ask, slots.bins[row].name)], dtype=np.int64)
    if not ask.within:
        return [_Nodes(at_home, rows, caps)]
    groups = slots.groups(ask.within)
    fits = np.bincount(groups[rows], weights=caps[rows].astype(np.float64), minlength=int(groups.max(initial=-1)) + 1)
    stood: Counter[int] = Counter()
    for bin_ in at_home:
        stood[int(groups[slots.index[bin_.name]])] += task.home(ask.name, bin_.name)
    least = task.free[ask.name] if ask.gang else 1
    order = sorted(
        (group for group in {*map(int, groups[rows]), *stood} if stood[group] or fits[group] >= least),
        key=lambda group: (-stood[group], fits[group] < task.free[ask.name], fits[group], group),
    )
    return [
        _Nodes([b for b in at_home if int(groups[slots.index[b.name]]) == group], rows[groups[rows] == group], caps)
        for group in order
    ]


def _asked(task: Task, ask: Ask, node: str) -> bool:
    return task.pairs is None or (ask.name, node) in task.pairs


def _fill(task: Task, slots: Slots, ask: Ask, nodes: _Nodes, misfits: Misfits, budget: int | None) -> Pairs:
    """Take as much as fits of the nodes, best first, and not more moves than the budget has; `slots` is changed."""
    picked: Pairs = Counter()
    left = task.free[ask.name]
    at_home = True
    for keep, bin_ in _ordered(task, slots, ask, nodes, misfits):
        if at_home and not keep:
            at_home = False
            stayable = sum(count for (name, _), count in task.stay.items() if name == ask.name) if task.stay else 0
            stayed = sum(min(count, task.stay[pair]) for pair, count in picked.items())
            if budget is not None and not ask.gang and stayable - stayed > budget:
                left = min(left, budget - (picked.total() - stayed))  # each of them would be a move
        if left <= 0 or slots.room.by_ceiling(ask) <= 0:
            break
        fit = min(slots.room.most(ask, bin_), left)
        if keep or bin_.state != "ready":
            fit = min(fit, task.home(ask.name, bin_.name) - picked[ask.name, bin_.name])
        own = task.own_cards(ask.name, bin_.name)
        if own and fit > 0:
            # It keeps its card or goes elsewhere: to change the card is a move as well.
            back = slots.put_back(ask, bin_, fit, own) if keep else 0
            loose = min(fit - back, task.soft[ask.name, bin_.name]) if keep else 0
            slots.take(ask, bin_, loose)
            fit = back + loose
        elif fit > 0:
            slots.take(ask, bin_, fit)
        if fit > 0:
            picked[ask.name, bin_.name] += fit
            left -= fit
    return picked


def _ordered(task: Task, slots: Slots, ask: Ask, nodes: _Nodes, misfits: Misfits) -> Iterator[tuple[bool, Bin]]:
    """First the homes (True), then every node: homes, best fit, no label of others, in use, the fullest, by name."""
    by = GPUS if ask.gpus else VCPUS
    room = slots.room

    def preference(bin_: Bin) -> tuple[int, bool, int, str]:
        return (misfits.of(ask, bin_), not room.load[bin_.name], room.free[bin_.name][by], bin_.name)

    for keep in (True, False):
        yield from ((keep, bin_) for bin_ in sorted(nodes.homes, key=preference))
    home = {slots.index[bin_.name] for bin_ in nodes.homes}
    rows = nodes.rows if not home else np.array([row for row in nodes.rows if row not in home], dtype=np.int64)
    if len(rows):
        cost = misfits.all(ask, slots.bins, slots.kind)[rows]
        others = misfits.reserved(ask, slots.bins, slots.kind)[rows]
        order = np.lexsort((rows, slots.free[rows, by], ~slots.used[rows], others, cost))
        yield from ((False, slots.bins[row]) for row in rows[order])
