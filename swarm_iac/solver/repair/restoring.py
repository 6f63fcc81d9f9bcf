"""What was stopped, or found no place, although there is capacity? It takes what is free in the end.

A search that was ended has freed capacity for one and not yet looked at what that stopped: those go home where they can, and
everything else that has no place takes what is left, within the move budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.packing.mig_instances import Held
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, Task, by_workload, instances_of


def restored(
    snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool], barred: frozenset[str] = frozenset()
) -> Pairs:
    """`counts`, and all that fits beside it but what is `barred`, without a move more than the budget has left."""
    placed = by_workload(counts)
    free = {
        name: request.members - placed[name]
        for name, request in snapshot.requests.items()
        if placed[name] < request.members and not (request.gang and placed[name]) and name not in barred
    }
    if not free:
        return counts
    stood: Pairs = Counter({pair: count for pair, count in classified.stand.items() if pair[0] in free})
    stay, moved_already = _left_to_move(stood, counts, placed)
    soft: Pairs = Counter((a.workload, a.node) for a in classified.soft.values() if a.workload in free)
    capacity = capacity_beside(snapshot, classified, counts)
    moved = moves_of(snapshot, classified, counts)
    task = Task(
        snapshot,
        capacity,
        free,
        stay=stay,
        soft=soft - (counts - stood) + moved_already,  # of those that had to change some are placed there already
        running=Counter({name: max(0, len(ones) - placed[name]) for name, ones in snapshot.running.items() if name in free}),
        budget=max(0, int(snapshot.stack.solve.moves) - moved),
        cards=_left_cards(snapshot, classified, free, capacity),
        instances=_left_instances(snapshot, classified, free, capacity),
    )
    found = counts + greedy(task, stop)
    # How parts of GPUs share cards is exact only for all of them together.
    return found if moves_of(snapshot, classified, found) <= max(moved, int(snapshot.stack.solve.moves)) else counts


def _left_to_move(stood: Pairs, counts: Pairs, placed: Counter[str]) -> tuple[Pairs, Pairs]:
    """Of the places that somebody has left: those for whom a place elsewhere is one move more, and those that moved already.

    One replica more of w is one move more as long as  placed_w < Σ_n stand_wn.
    """
    left, rest = Counter({name: count - placed[name] for name, count in by_workload(stood).items()}), stood - counts
    stay: Pairs = Counter()
    for (name, node), count in sorted(rest.items()):
        stay[name, node] = max(0, min(count, left[name]))
        left[name] -= stay[name, node]
    return +stay, rest - stay


def _left_cards(
    snapshot: Snapshot, classified: Classified, free: dict[str, int], capacity: FreeCapacity
) -> dict[str, dict[str, Counter[int]]]:
    """The cards that parts of GPUs held which have no place now, by node and workload."""
    found: dict[str, dict[str, Counter[int]]] = {}
    held = {pair: Counter(one.index for ones in cards for one in ones) for pair, cards in capacity.held.items()}
    for a in classified.stay.values():
        if a.workload in free and snapshot.requests[a.workload].shared:
            stays = held.get((a.workload, a.node), Counter())
            if stays[a.cards[0]]:
                stays[a.cards[0]] -= 1
            else:
                found.setdefault(a.node, {}).setdefault(a.workload, Counter())[a.cards[0]] += 1
    return found


def _left_instances(
    snapshot: Snapshot, classified: Classified, free: dict[str, int], capacity: FreeCapacity
) -> dict[str, dict[str, list[Held]]]:
    """The same of those that held MIG instances: each position has one owner."""
    gone = (
        a for a in classified.stay.values() if a.workload in free and a.gpus not in capacity.held.get((a.workload, a.node), ())
    )
    return instances_of(snapshot, gone)


def capacity_beside(snapshot: Snapshot, classified: Classified, counts: Pairs) -> FreeCapacity:
    """What is free beside a placement; what stays holds the cards that it had."""
    capacity = classified.kept(snapshot, counts)
    others = counts - classified.stand
    for (name, node), count in sorted(others.items(), key=lambda one: (-snapshot.requests[one[0][0]].share, one[0])):
        capacity.take(snapshot.requests[name], snapshot.nodes[node], count)
    return capacity
