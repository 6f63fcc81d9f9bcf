"""Who is not moved (`movable: false`), and holds enough for a workload that is pending?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import ExitStack

from swarm_iac.solver.explain.places.ruled import Ruled, Table
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering

#: Is there no place for a workload on these nodes, beside what stands there?
Closed = Callable[[FreeCapacity, list[str]], bool]


class NotMoved:
    """Those of some workloads of which a replica could be on a node where none is."""

    def __init__(self, capacity: FreeCapacity, names: Iterable[str]) -> None:
        self._capacity = capacity.copy()
        self.names = frozenset(name for name in names if capacity.counts[name] and self._could_be_elsewhere(name))
        self._freed = capacity.without(self.names)
        self._table = Table(self._freed)

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
        if not firm:
            return frozenset()
        freed = self._freed if firm == self.names else self._capacity.without(firm)
        # With fewer of them gone no other node has capacity.
        among = Ruled(freed, request, self._table if freed is self._freed else None).open
        if closed(freed, among):
            return frozenset()
        some: Set[str] = set()
        with ExitStack() as lifted:
            gone = _Gone(self._capacity, lifted)

            def enough(names: Set[str]) -> bool:
                gone.are(names)
                return not closed(self._capacity, among)

            for some in _growing([*self._by_node(among, firm)], firm):
                if enough(some):
                    break
            return _fewest(sorted(some), enough)

    def _by_node(self, nodes: list[str], firm: Set[str]) -> Iterator[Set[str]]:
        """Who stands on each of these nodes."""
        on: dict[str, set[str]] = {}
        for name in firm:
            for node in self._capacity.counts[name]:
                on.setdefault(node, set()).add(name)
        yield from (on[node] for node in sorted(on.keys() & nodes, key=lambda node: (len(on[node]), node)))


class _Gone:
    """Who is lifted off a capacity just now: from one set to the next only those who differ are."""

    def __init__(self, capacity: FreeCapacity, until: ExitStack) -> None:
        self._capacity, self._until = capacity, until
        self._lifted: dict[str, ExitStack] = {}

    def are(self, names: Set[str]) -> None:
        """From now on it is these."""
        for name in sorted(self._lifted.keys() - names):
            self._lifted.pop(name).close()
        for name in sorted(names - self._lifted.keys()):
            self._lifted[name] = self._until.enter_context(ExitStack())
            self._lifted[name].enter_context(self._capacity.lifted(self._capacity.snapshot.requests[name]))


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
