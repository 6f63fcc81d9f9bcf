"""Which replica goes where, when only kinds of replicas are told for each node?

What stands on a node stays as far as the node is to carry its kind; what has to leave and what is new takes the places
that are left. The answer is taken only if every rule holds that is arithmetic on one node, and if only such workloads
move whose replicas stand each for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import suits
from swarm_iac.solver.scene import Scene
from swarm_iac.solver.task import Pairs, Settled, by_workload
from swarm_iac.solver.view import simple


def rearranged(
    scene: Scene, settled: Settled, placed: Counter[str], number: Mapping[str, int], carried: Mapping[str, Counter[int]]
) -> Pairs | None:
    """The placement of so many replicas of each workload in which each node of `carried` carries so many of each kind."""
    stand: Pairs = Counter((a.workload, a.node) for a in settled.stay.values())
    if any(placed[name] < count for name, count in by_workload(stand).items()):
        return None  # who stops is not decided here
    gone, arrivals = _differences(stand, number, carried)
    counts = stand - gone
    pool: dict[int, list[str]] = {}
    held = by_workload(counts)
    for name in sorted(placed, key=lambda name: (-scene.asks[name].priority, name)):
        pool.setdefault(number[name], []).extend([name] * (placed[name] - held[name]))
    for node, kinds in sorted(arrivals.items()):
        for kind, count in sorted(kinds.items()):
            for name in pool.get(kind, [])[:count]:
                counts[name, node] += 1
            del pool.get(kind, [])[:count]
    changed = {name for name, _ in (counts - stand) + (stand - counts)}
    if any(pool.values()) or any(not simple(scene, scene.asks[name]) for name in changed):
        return None
    return counts if _fits(scene, settled, counts, frozenset(carried)) else None


def _differences(
    stand: Pairs, number: Mapping[str, int], carried: Mapping[str, Counter[int]]
) -> tuple[Pairs, dict[str, Counter[int]]]:
    """What leaves the nodes, and how many of each kind arrive there."""
    arrivals = {node: Counter(kinds) for node, kinds in carried.items()}
    gone: Pairs = Counter()
    for (name, node), count in sorted(stand.items()):
        if node in arrivals:
            stays = min(count, arrivals[node][number[name]])
            arrivals[node][number[name]] -= stays
            if stays < count:
                gone[name, node] = count - stays
    return gone, {node: +kinds for node, kinds in arrivals.items()}


def _fits(scene: Scene, settled: Settled, counts: Pairs, nodes: frozenset[str]) -> bool:
    """On the nodes that change parts of GPUs are packed anew, the largest first; elsewhere they keep their card."""
    room = Room(scene)
    for a in settled.stay.values():
        if a.node not in nodes:
            room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.gpus)
    stand = Counter((a.workload, a.node) for a in settled.stay.values())
    here = [pair for pair in counts if pair[1] in nodes]
    for name, node in sorted(here, key=lambda pair: (-scene.asks[pair[0]].share, pair)):
        ask, bin_ = scene.asks[name], scene.bins[node]
        more = counts[name, node] > stand[name, node]
        if more and not suits(ask, bin_):
            return False
        for _ in range(counts[name, node]):
            if room.most(ask, bin_) <= 0:
                return False
            room.take(ask, bin_, 1)
    return True
