"""Who counts on others that were taken away, to be even (`balance`) or near them (`only_with`)? And what is left without those?

Every search keeps these rules. Who came out on several NUMA nodes is taken away after it (`unsplitting.py`), and then a rack
may have fewer than the others count on; and a search of a large fleet that was ended may have taken away whom others are near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from swarm_iac.solver.balance.even import Even, even, uneven
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs
from swarm_iac.solver.snapshot.value import unaccompanied


def evened(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """The placement without what is too many in a rack, or site, or alone, and with all that fits then; as it is where nothing
    is.
    """
    if well(snapshot, counts):
        return counts
    less = without_surplus(snapshot, counts)
    while gone := unaccompanied(snapshot, less):  # who goes may leave others alone, or uneven
        less = without_surplus(snapshot, +(less - gone))
    more = restored(snapshot, classified, less, stop)
    return more if well(snapshot, more) else less


def well(snapshot: Snapshot, counts: Pairs) -> bool:
    """Is nothing in it too many in a rack, or site, and nobody alone?"""
    return even(snapshot, counts) and not unaccompanied(snapshot, counts)


def without_surplus(snapshot: Snapshot, counts: Pairs) -> Pairs:
    """New replicas go where they are too many, gangs whole; what ran stays."""
    left: Pairs = Counter(counts)
    for name in snapshot.evened:
        request = snapshot.requests[name]
        while over := uneven(snapshot, name, left):
            mine = {node: count for (one, node), count in left.items() if one == name and count > 0}
            stands = Even(snapshot, request, mine)
            new = (n for n in sorted(mine) if stands.place(snapshot.nodes[n]) == min(over) and mine[n] > stands.ran[n])
            gone = {name: mine} if request.gang else {name: {next(new): 1}}
            left -= Counter({(name, node): count for node, count in gone[name].items()})
    return +left
