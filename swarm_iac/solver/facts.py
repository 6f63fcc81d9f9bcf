"""Which facts, beside the rules, keep a workload out: whose state, whose allocations?

From all that stands, what is not needed to forbid it is taken away; what is left cannot be left out. Everything is
seen with the rest where it stands, so a conflict holds as long as nobody moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from swarm_iac.solver.explain import conflict, forbidden, without
from swarm_iac.solver.room import Room
from swarm_iac.solver.scene import VCPUS, Ask

STATES = "node_is_ready"


@dataclass(frozen=True)
class Conflict:
    """Rules, closed nodes and other workloads that together forbid one more replica (all of a gang). Irreducible."""

    rules: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()


def conflict_of(room: Room, ask: Ask) -> Conflict:
    """The smallest conflict found, rules first: what can be blamed on a rule of one node is. Empty when nothing forbids it.

    Those of a lower priority are taken away before their betters, and small ones before large ones.
    """
    rules = conflict(room, ask)
    if not rules:
        return Conflict()
    on = set(rules)
    closed: tuple[str, ...] = ()
    if STATES in on:
        shut = [bin_.name for bin_ in room.scene.bins.values() if bin_.state != "ready"]
        closed = irreducible(shut, lambda kept: forbidden(opened(room, set(shut) - set(kept)), ask, on))
    seen = opened(room, {bin_.name for bin_ in room.scene.bins.values()} - set(closed)) if STATES in on else room
    others = [name for name, counts in room.counts.items() if counts and name != ask.name]
    others.sort(key=lambda name: _weight(room, name, ask))
    holders = irreducible(others, lambda kept: forbidden(without(seen, set(others) - set(kept)), ask, on))
    return Conflict(rules, closed, holders)


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


def opened(room: Room, nodes: set[str]) -> Room:
    """The same room, as if these nodes were ready."""
    other = room.copy()
    bins = {name: replace(bin_, state="ready") if name in nodes else bin_ for name, bin_ in room.scene.bins.items()}
    other.scene = replace(room.scene, bins=bins)
    return other


def _weight(room: Room, name: str, ask: Ask) -> tuple[int, int, int, str]:
    other = room.scene.asks[name]
    count = room.counts[name].total()
    return (other.priority, other.gpus * count if ask.gpus else 0, other.need[VCPUS] * count, name)
