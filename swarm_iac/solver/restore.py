"""What was stopped, or found no place, though there is room? It takes what is free in the end.

A search that was ended has made room for one and not yet looked at whom that stopped: those go home where they can, and
everything else that has no place takes what is left, within the move budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.fewest import moves_of
from swarm_iac.solver.greedy import greedy
from swarm_iac.solver.room import Room
from swarm_iac.solver.scene import Scene
from swarm_iac.solver.task import Pairs, Settled, Task, by_workload


def restored(scene: Scene, settled: Settled, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """`counts`, and all that fits beside it. Parts of GPUs are left out: how they share cards is not known here."""
    placed = by_workload(counts)
    free = {
        name: ask.members - placed[name]
        for name, ask in scene.asks.items()
        if placed[name] < ask.members and not ask.shared and not (ask.gang and placed[name])
    }
    if not free:
        return counts
    stood: Pairs = Counter((a.workload, a.node) for a in settled.stay.values() if a.workload in free)
    soft: Pairs = Counter((a.workload, a.node) for a in settled.soft.values() if a.workload in free)
    task = Task(
        scene,
        room_beside(scene, settled, counts),
        free,
        stay=stood - counts,
        soft=soft,
        running=Counter({name: len(found) for name, found in scene.running.items() if name in free}),
        budget=max(0, int(scene.stack.solve.moves) - moves_of(scene, settled, counts)),
    )
    return counts + greedy(task, stop)


def room_beside(scene: Scene, settled: Settled, counts: Pairs) -> Room:
    """What is free beside a placement; what stays holds the cards that it had."""
    room = Room(scene)
    for a in settled.stay.values():
        if room.counts[a.workload][a.node] < counts[a.workload, a.node]:
            room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.gpus)
    for (name, node), count in sorted(counts.items(), key=lambda one: (-scene.asks[one[0][0]].share, one[0])):
        if rest := count - room.counts[name][node]:
            room.take(scene.asks[name], scene.bins[node], rest)
    return room
