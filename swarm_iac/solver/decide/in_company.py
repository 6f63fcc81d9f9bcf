"""Who came where nobody is whom `only_with` names? A last look: a search that was ended may have taken those away again."""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.solver.balance.even import even
from swarm_iac.solver.repair.evening import evened
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs
from swarm_iac.solver.snapshot.value import alone


def in_company(snapshot: Snapshot, classified: Classified, counts: Pairs, stop: Callable[[], bool]) -> Pairs:
    """The placement without those that are alone; what has no place takes what is free."""
    while gone := alone(snapshot, counts):  # who goes may leave others alone, or uneven
        counts = evened(snapshot, classified, +(counts - gone), stop)
    more = restored(snapshot, classified, counts, stop)
    return more if even(snapshot, more) and not alone(snapshot, more) else counts
