"""What was stopped, or found no place, though there is room? It takes what is free in the end.

A search that was ended has made room for one and not yet looked at whom that stopped: those go home where they can, and
everything else that has no place takes what is left, within the move budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.snapshot import Scene
from swarm_iac.solver.snapshot.tasks import Pairs, Settled, Task, by_workload


def restored(scene: Scene, settled: Settled, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """`counts`, and all that fits beside it, without a move more than the budget has left."""
    placed = by_workload(counts)
    free = {
        name: ask.members - placed[name]
        for name, ask in scene.asks.items()
        if placed[name] < ask.members and not (ask.gang and placed[name])
    }
    if not free:
        return counts
    stood: Pairs = Counter((a.workload, a.node) for a in settled.stay.values() if a.workload in free)
    soft: Pairs = Counter((a.workload, a.node) for a in settled.soft.values() if a.workload in free)
    room = room_beside(scene, settled, counts)
    moved = moves_of(scene, settled, counts)
    task = Task(
        scene,
        room,
        free,
        stay=stood - counts,
        soft=soft,
        running=Counter({name: len(found) for name, found in scene.running.items() if name in free}),
        budget=max(0, int(scene.stack.solve.moves) - moved),
        cards=_left_cards(scene, settled, free, room),
    )
    found = counts + greedy(task, stop)
    # How parts of GPUs share cards is exact only for all of them together.
    return found if moves_of(scene, settled, found) <= max(moved, int(scene.stack.solve.moves)) else counts


def _left_cards(scene: Scene, settled: Settled, free: dict[str, int], room: Room) -> dict[str, dict[str, Counter[int]]]:
    """The cards that parts of GPUs held which have no place now, by node and workload."""
    found: dict[str, dict[str, Counter[int]]] = {}
    held = {pair: Counter(cards) for pair, cards in room.held.items()}
    for a in settled.stay.values():
        if a.workload in free and scene.asks[a.workload].shared:
            stays = held.get((a.workload, a.node), Counter())
            if stays[a.cards[0]]:
                stays[a.cards[0]] -= 1
            else:
                found.setdefault(a.node, {}).setdefault(a.workload, Counter())[a.cards[0]] += 1
    return found


def room_beside(scene: Scene, settled: Settled, counts: Pairs) -> Room:
    """What is free beside a placement; what stays holds the cards that it had."""
    room = Room(scene)
    for a in settled.stay.values():
        if room.counts[a.workload][a.node] < counts[a.workload, a.node]:
            room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.cards)
    for (name, node), count in sorted(counts.items(), key=lambda one: (-scene.asks[one[0][0]].share, one[0])):
        if rest := count - room.counts[name][node]:
            room.take(scene.asks[name], scene.bins[node], rest)
    return room
