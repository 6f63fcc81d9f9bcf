"""How much finer is a node than what a workload asks for?"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from swarm_iac.solver.snapshot.node_slots import Ints
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import hindering, labelled


def overqualification(snapshot: Snapshot, request: WorkloadRequest, host: NodeCapacity) -> int:
    """How much finer the node is than what was asked for.

    0 when nothing is wasted: the model was named, or the node has no GPUs and none are asked for. Else, for a
    workload without GPUs on a node with some, or of any model: 1 + the number of models with less memory.
    """
    if request.model is not None or host.model is None:
        return 0
    if not request.gpus:
        return 1
    lesser = {b.model for b in snapshot.nodes.values() if request.gpu_memory <= b.gpu_memory < host.gpu_memory}
    return len(lesser - {None})


class Overqualification:
    """`overqualification` by kind of workload and node, worked out once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.known: dict[tuple[bool, str | None, int, str | None, int], int] = {}
        self.rows: dict[tuple[bool, str | None, int], Ints] = {}
        self._reserved: dict[tuple[tuple[tuple[str, str], ...], bool], Ints] = {}
        self._asked = {pair for request in snapshot.requests.values() for pair in request.select}

    def of(self, request: WorkloadRequest, host: NodeCapacity) -> int:
        """`overqualification(snapshot, request, host)`."""
        key = (bool(request.gpus), request.model, request.gpu_memory, host.model, host.gpu_memory)
        if key not in self.known:
            self.known[key] = overqualification(self.snapshot, request, host)
        return self.known[key]

    def all(self, request: WorkloadRequest, nodes: list[NodeCapacity], kinds: Ints) -> Ints:
        """The same for every node; `kinds` numbers nodes that are alike."""
        key = (bool(request.gpus), request.model, request.gpu_memory)
        if key not in self.rows:
            cost = np.zeros(int(kinds.max(initial=-1)) + 1, dtype=np.int64)
            for kind, host in {int(kind): host for kind, host in zip(kinds, nodes, strict=True)}.items():
                cost[kind] = self.of(request, host)
            self.rows[key] = cost[kinds]
        return self.rows[key]

    def reserved(self, request: WorkloadRequest) -> Ints:
        """For every node how many labels it has that others ask for, and this workload does not: theirs is to come first. The
        same of links that others require.
        """
        like = (request.select, request.linked)
        if like not in self._reserved:
            count = self._of_any.copy()
            for label, value in request.select:
                count -= labelled(self.snapshot, label, value)
            self._reserved[like] = count if request.linked else count + self._linked
        return self._reserved[like]

    @cached_property
    def _of_any(self) -> Ints:
        """For every node how many labels it has that anybody asks for."""
        found = np.zeros(len(self.snapshot.nodes), dtype=np.int64)
        for label, value in self._asked:
            found += labelled(self.snapshot, label, value)
        return found

    @cached_property
    def _linked(self) -> Ints:
        """1 for every node that suits any workload that requires links."""
        found = np.zeros(len(self.snapshot.nodes), dtype=np.int64)
        for one in self.snapshot.requests.values() if self.snapshot.linked else ():
            if one.linked:
                found |= hindering(self.snapshot, one).none_but_state
        return found
