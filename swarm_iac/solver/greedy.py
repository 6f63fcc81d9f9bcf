"""What would a careful person do in one pass? Best-fit decreasing: the warm start of every solve.

Workloads by priority, then those that run, then the largest; each first where it stands, then on the fullest node
that fits. The answer keeps every rule, the move budget included, so it is feasible for the model as it is.
"""

from __future__ import annotations

from collections import Counter

from swarm_iac.solver.room import Room, group_of
from swarm_iac.solver.rules.fit import may_stay, suits
from swarm_iac.solver.scene import MEMORY, VCPUS, Ask, Bin, Scene
from swarm_iac.solver.task import Pairs, Task


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

    def of(self, ask: Ask, bin_: Bin) -> int:
        """`misfit(scene, ask, bin_)`."""
        key = (bool(ask.gpus), ask.model, ask.gpu_memory, bin_.model, bin_.gpu_memory)
        if key not in self.known:
            self.known[key] = misfit(self.scene, ask, bin_)
        return self.known[key]


def greedy(task: Task) -> Pairs:
    """Replicas of the free workloads by (workload, node)."""
    scene, room, misfits = task.scene, task.base.copy(), Misfits(task.scene)
    chosen: Pairs = Counter()
    budget = task.budget
    order = sorted(
        (scene.asks[name] for name in task.free),
        key=lambda a: (-a.priority, not task.running[a.name], -a.gpus, -a.need[MEMORY], -a.need[VCPUS], a.name),
    )
    for ask in order:
        best: tuple[int, Pairs, int] | None = None
        for bins in _groups(task, ask):
            picked = _fill(task, room, ask, bins, misfits)
            moved = _moved(task, ask, picked)
            for (_, node), count in picked.items():
                room.take(ask, scene.bins[node], -count)
            if (ask.gang and picked.total() < task.free[ask.name]) or (budget is not None and moved > budget):
                picked, moved = Counter(), 0
            if best is None or (picked.total(), -moved) > (best[0], -best[2]):
                best = (picked.total(), picked, moved)
        if best is None:
            continue
        for (_, node), count in best[1].items():
            done = room.put_back(ask, scene.bins[node], count, task.own_cards(ask.name, node))
            room.take(ask, scene.bins[node], count - done)
        chosen.update(best[1])
        budget = None if budget is None else budget - best[2]
    return chosen


def refill(task: Task, counts: Pairs, pairs: frozenset[tuple[str, str]]) -> Pairs:
    """Add what still fits beside `counts`, on `pairs` only, for workloads of which nothing could stay anywhere."""
    held = {name for (name, _), count in task.stay.items() if count}
    done: Counter[str] = Counter()
    room = task.base.copy()
    rest: Pairs = Counter()
    for (name, node), count in counts.items():
        back = room.put_back(task.scene.asks[name], task.scene.bins[node], count, task.own_cards(name, node))
        rest[name, node] = count - back
        done[name] += count
    for (name, node), count in sorted(rest.items(), key=lambda one: -task.scene.asks[one[0][0]].share):
        room.take(task.scene.asks[name], task.scene.bins[node], count)
    soft = {name for (name, _), count in task.soft.items() if count}
    free = {n: left for n, k in task.free.items() if n not in held | soft and (left := k - done[n]) > 0}
    return counts + greedy(Task(task.scene, room, free, running=task.running, budget=task.budget, pairs=pairs))


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


def _groups(task: Task, ask: Ask) -> list[list[Bin]]:
    """All candidates at once, or by node or rack for `within`; where it stands first."""
    found = candidates(task, ask)
    if not ask.within:
        return [found]
    groups: dict[str, list[Bin]] = {}
    for bin_ in found:
        groups.setdefault(group_of(bin_, ask.within), []).append(bin_)
    return sorted(groups.values(), key=lambda bins: -sum(task.home(ask.name, b.name) for b in bins))


def _fill(task: Task, room: Room, ask: Ask, bins: list[Bin], misfits: Misfits) -> Pairs:
    """Take as much as fits of the bins, best first; `room` is changed."""
    picked: Pairs = Counter()
    left = task.free[ask.name]
    by = 0 if ask.gpus else 1

    def preference(bin_: Bin) -> tuple[bool, int, bool, int, str]:
        home = task.stay[ask.name, bin_.name] + task.soft[ask.name, bin_.name]
        return (not home, misfits.of(ask, bin_), not room.load[bin_.name], room.free[bin_.name][by], bin_.name)

    for keep in (True, False):
        for bin_ in sorted((b for b in bins if not keep or task.home(ask.name, b.name)), key=preference):
            home = task.home(ask.name, bin_.name)
            if left <= 0:
                break
            fit = min(room.most(ask, bin_), left)
            if keep or bin_.state != "ready":
                fit = min(fit, home - picked[ask.name, bin_.name])
            own = task.own_cards(ask.name, bin_.name)
            if own and fit > 0:
                # It keeps its card or goes elsewhere: to change the card is a move as well.
                back = room.put_back(ask, bin_, fit, own) if keep else 0
                loose = min(fit - back, task.soft[ask.name, bin_.name]) if keep else 0
                room.take(ask, bin_, loose)
                fit = back + loose
            elif fit > 0:
                room.take(ask, bin_, fit)
            if fit > 0:
                picked[ask.name, bin_.name] += fit
                left -= fit
    return picked
