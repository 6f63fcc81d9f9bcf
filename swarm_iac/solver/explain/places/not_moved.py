"""Who is not moved (`movable: false`), and holds enough for a workload that is pending?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import ExitStack

from swarm_iac.solver.explain.counting import EVERY, on_node
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering

#: Is there no place for a workload beside what stands there?
Closed = Callable[[FreeCapacity], bool]


class NotMoved:
    """Those of some workloads of which a replica could be on a node where none is."""

    def __init__(self, capacity: FreeCapacity, names: Iterable[str]) -> None:
        self._capacity = capacity.copy()
        self.names = frozenset(name for name in names if capacity.counts[name] and self._could_be_elsewhere(name))
        self._freed = capacity.without(self.names)

    def _could_be_elsewhere(self, name: str) -> bool:
        free, request = self._capacity, self._capacity.snapshot.requests[name]
        home, nodes = {*free.counts[name]}, free.snapshot.nodes
        others = [node for node in hindering(free.snapshot, request).nodes_under() if node not in home]
        with free.lifted(request):
            return any(free.most(request, nodes[node]) > 0 for node in others)

    def fewest(self, request: WorkloadRequest, closed: Closed) -> frozenset[str]:
        """So few of them that none can be left out, without whom the workload has a place; nobody where all are not enough.

        The nodes on which the fewest of them stand are looked at first.
        """
        firm = self.names - {request.name}
        freed = self._freed if firm == self.names else self._capacity.without(firm)
        if not firm or closed(freed):
            return frozenset()
        some: Set[str] = set()
        for some in _growing([*self._by_node(request, freed, firm)], firm):
            if not self._closed_without(some, closed):
                break
        return _fewest(sorted(some), lambda gone: not self._closed_without(gone, closed))

    def _by_node(self, request: WorkloadRequest, freed: FreeCapacity, firm: Set[str]) -> Iterator[Set[str]]:
        """Who stands on each node that would have capacity for one."""
        on: dict[str, set[str]] = {}
        for name in firm:
            for node in self._capacity.counts[name]:
                on.setdefault(node, set()).add(name)
        unfit, nodes = hindering(freed.snapshot, request), freed.snapshot.nodes
        for node, names in sorted(on.items(), key=lambda one: (len(one[1]), one[0])):
            if not unfit[node] and on_node(freed, request, nodes[node], EVERY, 1) > 0:
                yield names

    def _closed_without(self, names: Set[str], closed: Closed) -> bool:
        with ExitStack() as lifted:
            for name in sorted(names):
                lifted.enter_context(self._capacity.lifted(self._capacity.snapshot.requests[name]))
            return closed(self._capacity)


def _growing(some: list[Set[str]], every: Set[str]) -> Iterator[Set[str]]:
    """The first of them, the first two, four, and so on; in the end all."""
    count = 1
    while count <= len(some):
        yield set[str]().union(*some[:count])
        count *= 2
    yield every


def _fewest(names: list[str], enough: Callable[[Set[str]], bool]) -> frozenset[str]:
    """Of `names`, which are enough together, so few that none can be left out; the first are left out first."""
    kept = frozenset(names)

    def leave_out(some: list[str]) -> None:
        nonlocal kept
        if enough(kept - set(some)):
            kept -= set(some)
        elif len(some) > 1:
            leave_out(some[: len(some) // 2])
            leave_out(some[len(some) // 2 :])

    leave_out(names)
    return kept
