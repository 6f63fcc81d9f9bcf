"""Which facts, beside the rules, keep a workload out: whose state, whose allocations?

From all that stands, what is not needed to forbid it is taken away; what is left cannot be left out. Everything is
seen with the rest where it stands, so a conflict holds as long as nobody moves. Who stands on a node that would not take
the workload even if it were empty is not in its way, except by what a rack, a user or the cluster may have in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from swarm_iac.solver.explain.conflict import conflict, missing
from swarm_iac.solver.explain.counting import EVERY, NUMA_RULE, STATES, Tally, on_node
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import VCPUS
from swarm_iac.solver.snapshot.snapshot import Ask


@dataclass(frozen=True)
class Conflict:
    """Rules, closed nodes and other workloads that together forbid one more replica (all of a gang). Irreducible.

    `places`: the nodes that would take a replica if nobody else stood there; it is on them that the holders are in the way.
    """

    rules: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()


def conflict_of(room: Room, ask: Ask) -> Conflict:
    """The smallest conflict found, rules first: what can be blamed on a rule of one node is. Empty when nothing forbids it.

    One fact after the other is taken away, and comes back where that leaves a place: those of a lower priority before
    their betters, and small ones before large ones.
    """
    rules = conflict(room, ask)
    if not rules:
        return Conflict()
    on = frozenset(rules)
    goal = missing(room, ask, on)
    room = room.copy()
    stateless = would_take(room, ask, EVERY - {STATES})
    closed = _closed(Tally(room, ask, on, stateless), goal) if STATES in on else ()
    bins = room.scene.bins
    places = frozenset(name for name in stateless if bins[name].state == "ready")
    tally = Tally(room, ask, on, places)
    others = [name for name, counts in room.counts.items() if counts and name != ask.name]
    others.sort(key=lambda name: _weight(room, name, ask))
    return Conflict(rules, closed, tuple(name for name in others if _needed(tally, goal, name)), places)


def would_take(room: Room, ask: Ask, rules: Set[str]) -> frozenset[str]:
    """The nodes that would take one more replica under these rules if nothing but the workload itself stood anywhere."""
    alone = Room(room.scene)
    for node, count in room.counts[ask.name].items():
        alone.take(ask, room.scene.bins[node], count)
    # Whatever lies there, a NUMA node that is large enough could be free.
    rules = rules - {NUMA_RULE}
    fit = (bin_ for bin_ in room.scene.bins.values() if on_node(alone, ask, bin_, rules, 1) > 0)
    return frozenset(bin_.name for bin_ in fit if alone.by_rack(ask, bin_) > 0)


def _closed(tally: Tally, goal: int) -> tuple[str, ...]:
    """Nodes that have to stay closed for nothing to fit. The others are counted as ready from here on."""
    kept = []
    for bin_ in tally.room.scene.bins.values():
        if bin_.state != "ready" and tally.counts(bin_.name):
            tally.open(bin_.name)
            if tally.reach() >= goal:
                tally.close(bin_.name)
                kept.append(bin_.name)
    return tuple(kept)


def _needed(tally: Tally, goal: int, name: str) -> bool:
    """Would there be a place without this workload? If not, it is taken away; if so, it stays with its devices."""
    room = tally.room
    ask, counts = room.scene.asks[name], dict(room.counts[name])
    cards = {node: tuple(room.held.get((name, node), ())) for node in counts}
    for node, count in counts.items():
        room.take(ask, room.scene.bins[node], -count)
    tally.changed(counts)
    if tally.reach() < goal:
        return False
    for node, count in counts.items():
        for card in cards[node]:
            room.take(ask, room.scene.bins[node], 1, (card,))
        if not ask.shared:
            room.take(ask, room.scene.bins[node], count)
    tally.changed(counts)
    return True


def irreducible(items: Sequence[str], forbids: Callable[[list[str]], bool]) -> tuple[str, ...]:
    """What is left of the items when nothing more can go without `forbids` turning false. The first are tried first.

    Whole parts go at once where they can, so that a thousand items that do not matter cost a few tests.
    """
    kept = list(items)

    def drop(part: list[str]) -> None:
        rest = [item for item in kept if item not in set(part)]
        if forbids(rest):
            kept[:] = rest
        elif len(part) > 1:
            drop(part[: len(part) // 2])
            drop(part[len(part) // 2 :])

    if kept:
        drop(list(kept))
    return tuple(kept)


def _weight(room: Room, name: str, ask: Ask) -> tuple[int, int, int, str]:
    other = room.scene.asks[name]
    count = room.counts[name].total()
    return (other.priority, other.gpus * count if ask.gpus else 0, other.need[VCPUS] * count, name)
