"""What is new where something that ran was stopped? It makes way, if it is of no higher priority.

A search that was ended has stopped something for a higher priority, found another place for that, and not looked again at
what it stopped: meanwhile something new took the capacity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.undo_moves import undo_moves
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload
from swarm_iac.solver.snapshot.value import size


def made_way(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Iterator[Pairs]:
    """Placements in which more of what ran has a place: without what is new on its nodes, and without all that is new; of all
    priorities up to each of those that were stopped, the highest first.

    What had moved for those that make way goes home, and they take what is left then.
    """
    stood = classified.stand
    placed = by_workload(counts)
    stopped = {name for name, count in by_workload(stood).items() if placed[name] < count}
    if not stopped:
        return
    homes = {node for name, node in stood - counts if name in stopped}
    seen: list[Pairs] = []
    for level in sorted({snapshot.requests[name].priority for name in stopped}, reverse=True):
        new = _new(snapshot, counts, level)
        there = {name for name, node in new if node in homes and snapshot.requests[name].gang}
        near: Pairs = Counter({pair: count for pair, count in new.items() if pair[1] in homes or pair[0] in there})
        for away in (near, new):
            if away in seen:
                continue
            seen.append(away)
            found = restored(snapshot, classified, counts - away, stop) if away else counts
            if _keeps(snapshot, found) > _keeps(snapshot, counts):
                yield restored(snapshot, classified, undo_moves(snapshot, classified, found), stop)


def _new(snapshot: Snapshot, counts: Pairs, highest: int) -> Pairs:
    """Replicas of this priority or below that did not run: of a gang all, or none where some of it ran."""
    ran: Pairs = Counter((name, one.node) for name, ones in snapshot.running.items() for one in ones)
    more = by_workload(counts) - by_workload(ran)
    found: Pairs = Counter()
    for (name, node), count in sorted(counts.items()):
        request = snapshot.requests[name]
        if request.priority > highest or (request.gang and snapshot.running.get(name)):
            continue
        if new := min(more[name], count - ran[name, node]):
            more[name] -= new
            found[name, node] = new
    return +found


def _keeps(snapshot: Snapshot, counts: Pairs) -> list[int]:
    """Of what ran, thousandths of GPUs and replicas that have a place, the highest priority first."""
    placed, gpus, replicas = by_workload(counts), Counter[int](), Counter[int]()
    for name, ones in snapshot.running.items():
        request, kept = snapshot.requests[name], min(len(ones), placed[name])
        gpus[request.priority] += size(request) * kept
        replicas[request.priority] += kept
    levels = sorted({request.priority for request in snapshot.requests.values()}, reverse=True)
    return [value for level in levels for value in (gpus[level], replicas[level])]
