"""Which few nodes should be cleared for what found no place? For fleets too large to decide all at once.

For each unplaced workload, by priority: the nodes that suit it, those first where the fewest and least important
replicas stand in the way. What stands there may go to the freest nodes.
"""

from __future__ import annotations

from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import suits
from swarm_iac.solver.scene import Ask, Scene
from swarm_iac.solver.task import Pairs, Settled, Task, around

#: Nodes to clear for each unplaced workload, and workloads looked at.
CLEAR = 6
WORKLOADS = 8
#: Nodes that may receive what is cleared.
RECEIVE = 40


def neighbourhood(scene: Scene, settled: Settled, counts: Pairs) -> Task | None:
    """The task, or None when nothing is unplaced that any node suits."""
    room = Room(scene)
    standing: dict[str, list[tuple[Ask, int]]] = {}
    for (name, node), count in sorted(counts.items()):
        room.take(scene.asks[name], scene.bins[node], count)
        standing.setdefault(node, []).append((scene.asks[name], count))
    short = [ask for name, ask in scene.asks.items() if room.counts[name].total() < ask.members]
    short.sort(key=lambda ask: (-ask.priority, -ask.gpus, ask.name))
    clear: set[str] = set()
    for ask in short[:WORKLOADS]:
        ranked = sorted((_cost(room, ask, node, standing.get(node, [])), node) for node in scene.bins if _may(scene, ask, node))
        clear.update(node for _, node in ranked[: max(CLEAR, min(2 * ask.members, 4 * CLEAR))])
    if not clear:
        return None
    freest = sorted(scene.bins, key=lambda node: (-room.free[node][0], -room.free[node][1], node))
    ready = [node for node in freest if scene.bins[node].state == "ready" and node not in clear]
    return around(scene, settled, frozenset(clear), frozenset(ready[:RECEIVE]))


def _may(scene: Scene, ask: Ask, node: str) -> bool:
    bin_ = scene.bins[node]
    return suits(ask, bin_) and all(need <= whole for need, whole in zip(ask.need, bin_.room, strict=True))


def _cost(room: Room, ask: Ask, node: str, standing: list[tuple[Ask, int]]) -> tuple[int, int]:
    """(GPUs short, replicas that would have to go): first those of lower priority."""
    short = max(0, ask.gpus - room.free[node][0])
    gone = 0
    for other, count in sorted(standing, key=lambda pair: (pair[0].priority, -pair[0].gpus, pair[0].name)):
        if short <= 0:
            break
        if other.gpus:
            take = min(count, -(-short // other.gpus))
            short -= take * other.gpus
            gone += take * (1 + other.priority)
    return short, gone
