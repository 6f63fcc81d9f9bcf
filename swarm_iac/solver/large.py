"""How is a fleet filled from nothing that is too large for one model? And what is proven about it?

1  bound together   gangs, what stays within a rack, and what a rack bounds: the careful pass of `greedy`
2  columns          all others at once, by kinds and shapes; the proof is theirs
3  the rest         what found no place is tried again beside everything
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from swarm_iac.model.placement import Goal
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.columns.whole import Nodes, bound_of, fill_fleet
from swarm_iac.solver.goals import LEVELS
from swarm_iac.solver.greedy import greedy
from swarm_iac.solver.room import Room
from swarm_iac.solver.scene import WHOLE, Ask, Scene
from swarm_iac.solver.task import Pairs, Task, by_workload
from swarm_iac.solver.view import View, kind_of, kinds_of, named, problem_of, simple, view
from swarm_iac.solver.worth import LEVEL, size, worth

#: Rounds of pricing.
ROUNDS = {"quick": 15, "normal": 60, "thorough": 250}


@dataclass(frozen=True)
class Answer:
    """Replicas on nodes, and what no placement of everything can be worth more than."""

    counts: Pairs
    bound: int  # of all but those that are `late`
    rounds: int


def fill(
    task: Task,
    possible: dict[str, int],
    effort: str,
    stop: Callable[[], bool],
    tell: Callable[[Pairs, int | None], None] = lambda counts, bound: None,
) -> Answer:
    """Place the free workloads of a task in which nothing stands yet that could move. `tell` hears how far it is."""
    scene = task.scene
    together = [name for name in task.free if not simple(scene, scene.asks[name])]
    last = late(scene, (scene.asks[name] for name in task.free))
    single = [name for name in task.free if name not in together and name not in last]
    first = greedy(replace(task, free={name: task.free[name] for name in together}))
    room = task.base.copy()
    _take(room, first)
    seen = view(room, single)

    def told(nodes: Nodes, bound: float) -> None:
        tell(first + _named(seen, room, nodes), None if together else int(bound + 1e-6))

    filled = fill_fleet(seen.problem, rounds=ROUNDS[effort], stop=stop, tell=told)
    found = _named(seen, room, filled.nodes)
    _take(room, found)
    rest = {name: task.free[name] - room.counts[name].total() for name in [*sorted(last), *together]}
    rest = {name: left for name, left in rest.items() if left and not scene.asks[name].shared}
    more = greedy(replace(task, base=room, free=rest))
    bound = filled.bound
    if together:  # what stands first took room from the others, so the bound has to be one without it
        everyone = view(task.base, [name for name in task.free if name not in last])
        bound = bound_of(everyone.problem, rounds=ROUNDS[effort], stop=stop)
    return Answer(first + found + more, int(bound + 1e-6), filled.rounds)


def late(scene: Scene, asks: Iterable[Ask]) -> frozenset[str]:
    """Workloads without GPUs of the lowest priority: they get what the others leave, and are bounded by counting."""
    found = list(asks)
    least = min((ask.priority for ask in found), default=0)
    return frozenset(ask.name for ask in found if not ask.gpus and ask.priority == least)


def _named(seen: View, room: Room, nodes: Nodes) -> Pairs:
    counts = {
        node: Counter(dict(pattern))
        for names, patterns in zip(seen.bins, nodes, strict=True)
        for node, pattern in zip(names, patterns, strict=True)
    }
    return named(seen, room, counts)


def _take(room: Room, counts: Pairs) -> None:
    for (name, node), count in counts.items():
        room.take(room.scene.asks[name], room.scene.bins[node], count)


def most_gpus(scene: Scene, effort: str, stop: Callable[[], bool]) -> int:
    """Thousandths of GPUs that no placement exceeds, whatever the priorities: by columns, gangs and racks aside.

    What may stay on a cordoned node is counted beside them.
    """
    empty = Room(scene)
    names = [name for name, ask in scene.asks.items() if ask.gpus]
    groups, dims, steps = kinds_of(empty, names, priorities=False)
    kinds = [kind_of(group, size(group[0]), sum(ask.members for ask in group), dims, steps) for group in groups]
    problem = problem_of(empty, groups, tuple(kinds), dims, steps)[0]
    cordoned = {name for name, bin_ in scene.bins.items() if bin_.state == "cordon"}
    beside = sum(size(scene.asks[a.workload]) for found in scene.running.values() for a in found if a.node in cordoned)
    return int(bound_of(problem, rounds=ROUNDS[effort], stop=stop) + 1e-6) + beside


def goals(scene: Scene, counts: Pairs, possible: dict[str, int], bound: int, gpus: int | None = None) -> tuple[Goal, ...]:
    """What was placed by level with its bound, given that the levels above are not worse.

    From Σ worth ≤ bound: what all levels but one are worth is taken away, and the rest bounds that one. `gpus` bounds
    all levels together in thousandths; it is of use to the first level of which not all is placed.
    """
    placed = by_workload(counts)
    shared = any(ask.shared for ask in scene.asks.values())
    last = late(scene, scene.asks.values())
    found: list[Goal] = []
    left = bound
    for level in LEVELS:
        asks = [ask for ask in scene.asks.values() if ask.priority == PRIORITIES[level]]
        if not asks:
            continue
        unit = 1 if shared else WHOLE
        each = LEVEL ** PRIORITIES[level]
        milli = sum(size(ask) * placed[ask.name] for ask in asks)
        most = min(sum(size(ask) * possible[ask.name] for ask in asks), max(milli, left // each))
        if gpus is not None:
            most = min(most, max(milli, gpus))
            gpus = gpus - milli if most == milli else None
        left -= sum(worth(ask) * placed[ask.name] for ask in asks if ask.name not in last)
        name = f"{level}_placed_{'gpu_milli' if shared else 'gpus'}"
        found.append(Goal(name=name, value=milli // unit, bound=most // unit))
        count, best = sum(placed[ask.name] for ask in asks), sum(possible[ask.name] for ask in asks)
        found.append(Goal(name=f"{level}_placed_replicas", value=count, bound=best))
    return tuple(found)
