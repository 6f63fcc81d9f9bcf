"""How few moves could a change need at least? Counted, in milliseconds.

New replicas that hold g or more whole GPUs need as many empty cards, CPUs and so on, and on most nodes something stands
in the way. For each g their least wish (the least of every resource) is tried on every node: to fit c of them, at least
so many replicas have to leave as free the cards, and as free each other resource, the largest leaving first. The
cheapest way to spread all of them over the nodes bounds the moves of every placement that places them and stops
nobody.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from swarm_iac.model.placement import Goal
from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import suits
from swarm_iac.solver.scene import Ask, Scene
from swarm_iac.solver.task import Pairs, Settled


def moves_goal(scene: Scene, settled: Settled, counts: Pairs) -> Goal:
    """Replicas that could stay and stand elsewhere, and the least that any placement of the same worth could have."""
    stay = Counter((a.workload, a.node) for a in settled.stay.values())
    placed: Counter[str] = Counter()
    for (name, _), count in counts.items():
        placed[name] += count
    stood: Counter[str] = Counter()
    for (name, _), count in stay.items():
        stood[name] += count
    kept = sum(min(count, counts[pair]) for pair, count in stay.items())
    moves = sum(min(count, placed[name]) for name, count in stood.items()) - kept
    stopped = sum(max(0, count - placed[name]) for name, count in stood.items())
    return Goal(name="moves", value=moves, bound=min(moves, max(0, fewest(scene, settled, placed) - stopped)))


@dataclass(frozen=True)
class _Node:
    """What stands on one node that may stay: replicas on each card, and what each holds."""

    cards: tuple[int, ...]  # replicas that hold each card, empty ones 0
    free: list[int]
    holds: list[tuple[int, ...]]


def fewest(scene: Scene, settled: Settled, placed: Counter[str]) -> int:
    """The bound, for a change after which so many replicas of each workload are placed."""
    room = Room(scene)
    standing: dict[str, list[tuple[Ask, tuple[int, ...]]]] = {}
    for a in settled.stay.values():
        room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.gpus)
        standing.setdefault(a.node, []).append((scene.asks[a.workload], a.gpus))
    new = {name: count - room.counts[name].total() for name, count in placed.items()}
    wishes = [(scene.asks[name], count) for name, count in new.items() if count > 0 and scene.asks[name].need[0]]
    best = 0
    for size in sorted({ask.need[0] for ask, _ in wishes}):
        large = [(ask, count) for ask, count in wishes if ask.need[0] >= size]
        least = tuple(min(ask.need[i] for ask, _ in large) for i in range(len(large[0][0].need)))
        cost = [0] + [1 << 30] * sum(count for _, count in large)
        for name, bin_ in scene.bins.items():
            if any(suits(ask, bin_) for ask, _ in large):
                node = _Node(
                    _cards(bin_.room[0], standing.get(name, [])),
                    room.free[name],
                    [(ask.gpus, *ask.need[1:]) for ask, _ in standing.get(name, [])],
                )
                cost = _spread(cost, node, least, bin_.room)
        best = max(best, cost[-1] if cost[-1] < 1 << 30 else 0)
    return best


def _cards(count: int, standing: list[tuple[Ask, tuple[int, ...]]]) -> tuple[int, ...]:
    held = Counter(card for _, gpus in standing for card in gpus)
    return tuple(sorted(held[card] for card in range(count)))


def _spread(cost: list[int], node: _Node, least: tuple[int, ...], whole: tuple[int, ...]) -> list[int]:
    """`cost[j]`: the fewest moves to fit j of the wishes on the nodes so far; now with one node more."""
    most = min(whole[i] // need for i, need in enumerate(least) if need)
    own = [_leave(node, least, c) for c in range(min(most, len(cost) - 1) + 1)]
    if len(own) == 1:
        return cost
    return [min(cost[j - c] + own[c] for c in range(min(j, len(own) - 1) + 1)) for j in range(len(cost))]


def _leave(node: _Node, least: tuple[int, ...], count: int) -> int:
    """How many replicas have to leave the node at least, so that `count` of the wish fit: the most of any resource."""
    short = least[0] * count
    # A replica on several cards is counted once for each, so the count is divided by the most cards that one holds.
    widest = max((held[0] for held in node.holds), default=1) or 1
    worst = -(-sum(node.cards[:short]) // widest) if short <= len(node.cards) else 1 << 20
    for i in range(1, len(least)):
        lacking = least[i] * count - node.free[i]
        gone = 0
        for held in sorted((held[i] for held in node.holds), reverse=True):
            if lacking <= 0:
                break
            lacking -= held
            gone += 1
        worst = max(worst, gone)
    return worst
