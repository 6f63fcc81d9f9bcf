"""Which facts, beside the rules, keep a workload out: whose state, whose allocations?

From all that stands, what is not needed to forbid it is taken away; what is left cannot be left out. Everything is
seen with the rest where it stands, so a conflict holds as long as nobody moves. Who stands on a node that would not take
the workload even if it were empty is not in its way, except by what a rack, a user or the cluster may have in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from swarm_iac.solver.explain.conflict import conflict, missing
from swarm_iac.solver.explain.counting import EVERY, STATES, Tally, on_node
from swarm_iac.solver.explain.domains import DOMAINS
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import VCPUS
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest


@dataclass(frozen=True)
class Conflict:
    """Rules, closed nodes and other workloads that together forbid one more replica (all of a gang). Irreducible.

    `places`: the nodes that would take a replica if they were empty; it is on them that the holders are in the way.
    """

    rules: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    places: frozenset[str] = frozenset()


def conflict_of(capacity: FreeCapacity, request: WorkloadRequest) -> Conflict:
    """The smallest conflict found, rules first: what can be blamed on a rule of one node is. Empty when nothing forbids it.

    One fact after the other is taken away, and comes back where that leaves a place: those of a lower priority before
    their betters, and small ones before large ones.
    """
    rules = conflict(capacity, request)
    if not rules:
        return Conflict()
    on = frozenset(rules)
    goal = missing(capacity, request, on)
    capacity = capacity.copy()
    stateless = would_take(capacity, request, EVERY - {STATES})
    closed = _closed(Tally(capacity, request, on, stateless), goal) if STATES in on else ()
    nodes = capacity.snapshot.nodes
    places = frozenset(name for name in stateless if nodes[name].state == "ready")
    tally = Tally(capacity, request, on, places)
    others = [name for name, counts in capacity.counts.items() if counts and name != request.name]
    others.sort(key=lambda name: _weight(capacity, name, request))
    return Conflict(rules, closed, tuple(name for name in others if _needed(tally, goal, name)), places)


def would_take(capacity: FreeCapacity, request: WorkloadRequest, rules: Set[str]) -> frozenset[str]:
    """The nodes that would take one more replica under these rules if nothing but the workload itself stood anywhere."""
    alone = FreeCapacity(capacity.snapshot)
    for node, count in capacity.counts[request.name].items():
        alone.take(request, capacity.snapshot.nodes[node], count)
    # Whatever lies there, a NUMA node that is large enough could be free.
    rules = rules - {*DOMAINS}
    fit = (host for host in capacity.snapshot.nodes.values() if on_node(alone, request, host, rules, 1) > 0)
    return frozenset(host.name for host in fit if alone.by_rack(request, host) > 0)


def _closed(tally: Tally, goal: int) -> tuple[str, ...]:
    """Nodes that have to stay closed for nothing to fit. The others are counted as ready from here on."""
    kept = []
    for host in tally.capacity.snapshot.nodes.values():
        if host.state != "ready" and tally.counts(host.name):
            tally.open(host.name)
            if tally.reach() >= goal:
                tally.close(host.name)
                kept.append(host.name)
    return tuple(kept)


def _needed(tally: Tally, goal: int, name: str) -> bool:
    """Would there be a place without this workload? If not, it is taken away; if so, it stays with its devices."""
    capacity = tally.capacity
    request, counts = capacity.snapshot.requests[name], dict(capacity.counts[name])
    cards = {node: tuple(capacity.held.get((name, node), ())) for node in counts}
    for node, count in counts.items():
        capacity.take(request, capacity.snapshot.nodes[node], -count)
    tally.changed(counts)
    if tally.reach() < goal:
        return False
    for node, count in counts.items():
        for card in cards[node]:
            capacity.take(request, capacity.snapshot.nodes[node], 1, card)
        if not request.in_pieces:
            capacity.take(request, capacity.snapshot.nodes[node], count)
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


def _weight(capacity: FreeCapacity, name: str, request: WorkloadRequest) -> tuple[int, int, int, str]:
    other = capacity.snapshot.requests[name]
    count = capacity.counts[name].total()
    return (other.priority, other.gpus * count if request.gpus else 0, other.need[VCPUS] * count, name)
