"""Who has to be on one NUMA node, or on linked GPUs, and came out otherwise? And where does it go instead?

What places replicas counts them by `domain_seats`, so this finds nobody but where that is more than can be had: parts of GPUs,
memory that is bound to sets of NUMA nodes, and a search for devices that gave up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload, fixed_by, repair_task


def split(snapshot: Snapshot, classified: Classified, ones: Iterable[Allocation]) -> list[Allocation]:
    """Those that are not in one domain, as they have to be, and do not merely stay as they were: where they run, they may."""
    at_home = {name: a.node for name, a in classified.stay.items()}
    return [
        a for a in ones
        if snapshot.requests[a.workload].local and at_home.get(a.name) != a.node
        if _astray(snapshot.requests[a.workload], snapshot.stack.hardware_of(a.node), a)
    ]  # fmt: skip


def split_pairs(snapshot: Snapshot, classified: Classified, counts: Pairs) -> frozenset[tuple[str, str]]:
    """The pairs of a workload and a node of those that this placement splits."""
    if not snapshot.local:
        return frozenset()
    return frozenset((a.workload, a.node) for a in split(snapshot, classified, assemble(snapshot, classified, counts)))


def _astray(request: WorkloadRequest, hardware: Hardware, a: Allocation) -> bool:
    """Is it on several NUMA nodes, or on GPUs that are not linked, where it must not be?"""
    over = request.single and (len(a.numa) > 1 or bool(hardware.split(a.cards, a.cpus)))
    return over or (request.linked and not hardware.linked(a.cards))


def unsplit(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """The placement without those that are split, each on another node where one takes it; nobody that runs stops for it."""
    found = _elsewhere(snapshot, classified, counts, stop)
    before, after = by_workload(counts), by_workload(found)
    if all(after[a.workload] == before[a.workload] for a in classified.stay.values()):
        return found
    task = repair_task(snapshot, classified)
    return _elsewhere(snapshot, classified, fixed_by(task) + greedy(task, stop), stop)


def _elsewhere(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """Who comes out split again waits, and others take what that leaves."""
    less, barred = _without(snapshot, classified, counts), frozenset[str]()
    while True:
        more = restored(snapshot, classified, less, stop, barred)
        less = _without(snapshot, classified, more)
        if less == more or stop():
            return less
        barred |= {name for name, _ in more - less}


def _without(snapshot: Snapshot, classified: Classified, counts: Pairs) -> Pairs:
    """Without those that are split; gangs go whole. Who is left has more to choose from, and is looked at again."""
    left: Pairs = Counter(counts)
    while found := split(snapshot, classified, assemble(snapshot, classified, left)):
        for a in found:
            if snapshot.requests[a.workload].gang:
                left = Counter({pair: count for pair, count in left.items() if pair[0] != a.workload})
            else:
                left[a.workload, a.node] -= 1
        left = +left
    return left
