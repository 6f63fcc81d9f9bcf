"""Which few nodes should be cleared for what found no place? For fleets too large to decide all at once.

One workload at a time, by priority: the nodes that suit it where the fewest and least important replicas stand in the
way. What stands there may go to the freest nodes.
"""

from __future__ import annotations

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.repair.restoring import room_beside
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import Ask, Scene
from swarm_iac.solver.snapshot.suitability import suits
from swarm_iac.solver.snapshot.tasks import Pairs, Settled, Task, around, by_workload

#: Nodes to clear.
CLEAR = 24
#: Weights of a replica in the way: it can move; it would be stopped; it can do neither yet.
MOVED, STOPPED, STUCK, NEVER = 1, 30, 100, 100_000
#: Nodes that may receive what is cleared.
RECEIVE = 80


def short(scene: Scene, counts: Pairs) -> list[Ask]:
    """Workloads that are not placed whole, in the order in which they are looked at."""
    placed = by_workload(counts)
    found = [ask for name, ask in scene.asks.items() if placed[name] < ask.members]
    return sorted(found, key=lambda ask: (-ask.priority, -ask.gpus * ask.share, ask.name))


def neighbourhood(scene: Scene, settled: Settled, counts: Pairs, ask: Ask, attempt: int) -> Task | None:
    """The task of making room for `ask`, or None when no node is left that suits it. Each attempt takes the next nodes."""
    room = room_beside(scene, settled, counts)
    standing: dict[str, list[Ask]] = {}
    for (name, node), count in sorted(counts.items()):
        standing.setdefault(node, []).extend([scene.asks[name]] * count)
    weights = _Weights(room, ask)
    ranked = sorted(
        (_cost(room, ask, node, standing.get(node, []), weights), node) for node in scene.bins if _may(scene, ask, node)
    )
    missing = ask.members - room.counts[ask.name].total()
    width = max(CLEAR, min(2 * missing, 2 * CLEAR))
    clear = {node for _, node in ranked[attempt * width : (attempt + 1) * width]}
    if not clear:
        return None
    leaving = {other for node in clear for other in standing.get(node, []) if not other.gang} | {ask}

    def takes(node: str) -> tuple[int, int, str]:
        bin_ = scene.bins[node]
        found = sum(1 for other in leaving if suits(other, bin_) and room.fits(other, bin_))
        return (-found, -sum(room.partial(node).values()) - WHOLE * room.free[node][GPUS], node)

    ready = sorted((node for node in scene.bins if scene.bins[node].state == "ready" and node not in clear), key=takes)
    return around(scene, settled, counts, frozenset(clear), frozenset(ready[:RECEIVE]))


def _may(scene: Scene, ask: Ask, node: str) -> bool:
    bin_ = scene.bins[node]
    return suits(ask, bin_) and all(need <= whole for need, whole in zip(ask.need, bin_.room, strict=True))


class _Weights:
    """What it weighs that one replica has to leave: MOVED where some other node has room for it now, else more."""

    def __init__(self, room: Room, ask: Ask) -> None:
        self.room, self.ask = room, ask
        self.known: dict[str, int] = {}
        self.rooms: dict[tuple[object, ...], bool] = {}  # of those that are alike, has any node room for one?

    def of(self, other: Ask) -> int:
        """The weight of one replica of another workload."""
        if other.name not in self.known:
            alike = (other.need, other.share, other.model, other.gpu_memory, other.select, other.single)
            if alike not in self.rooms:
                bins = self.room.scene.bins.values()
                self.rooms[alike] = any(suits(other, bin_) and self.room.fits(other, bin_) for bin_ in bins)
            room = self.rooms[alike]
            self.known[other.name] = MOVED if room else (STOPPED if other.priority < self.ask.priority else STUCK)
        return self.known[other.name]


def _cost(room: Room, ask: Ask, node: str, standing: list[Ask], weights: _Weights) -> tuple[int, int]:
    """(Weight of the replicas that would have to go, how many): taken away one by one until one of `ask` fits.

    The next to go is the lightest; of these the one that holds most of what is short.
    """
    bin_ = room.scene.bins[node]
    gone: list[Ask] = []
    rest = [other for other in standing if not other.gang and other.name != ask.name]
    while rest and room.most(ask, bin_) <= 0:
        free = room.free[node]
        lacks = [i for i, need in enumerate(ask.need) if need > free[i]]

        def helps(other: Ask, lacks: list[int] = lacks, free: list[int] = free) -> tuple[int, float]:
            use = [other.gpus if i == GPUS else need for i, need in enumerate(other.need)]
            return (weights.of(other), -sum(min(1.0, use[i] / (ask.need[i] - free[i])) for i in lacks))

        other = min(rest, key=helps)
        rest.remove(other)
        room.take(other, bin_, -1)
        gone.append(other)
    fits = room.most(ask, bin_) > 0
    for other in gone:
        room.take(other, bin_, 1)
    weight = sum(weights.of(other) for other in gone)
    return (weight if fits else NEVER + weight, len(gone))
