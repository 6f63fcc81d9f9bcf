"""From what to what does a change lead, and what did earlier runs place where?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swarm_iac.model.state import Desired, NodeState, Observed
from swarm_iac.reconcile import pending_placement
from swarm_iac.reconcile.pending_placement import At
from swarm_iac.reconcile.records import Records
from swarm_iac.reconcile.request import Target


@dataclass(frozen=True)
class Transition:
    """A target, and what is on record. `pending`: what a killed run was about to place, by node; None: see `of`."""

    target: Target
    records: Records
    home: Path | None = None
    pending: frozenset[At] | None = None

    @classmethod
    def of(cls, target: Target, records: Records, home: Path | None) -> Transition:
        """`home`: RunOptions.state_home, with notes of killed runs.

        They are read now, before this run writes its own. If the lineage is unknown, they are looked up later by the
        lineages in the nodes' ledgers.
        """
        lineage = target.lineage or records.lineage
        pending = frozenset(pending_placement.of(home, lineage, records.serial)) if lineage else None
        return cls(target, records, home, pending)

    @cached_property
    def leaving(self) -> dict[str, Desired]:
        """Nodes on record that are no longer asked for, with their desired state: restored. Lost ones are forgotten."""
        past = {**self.records.leaving, **self.records.applied}
        return {
            name: value.model_copy(update={"managed": False, "state": NodeState(), "handover": {}, "ended": ()})
            for name, value in past.items()
            if name not in self.target.nodes and name not in self.target.lost
        }

    @property
    def all(self) -> dict[str, Desired]:
        """Every node that has to be read."""
        return self.target.nodes | self.leaving

    @cached_property
    def last(self) -> dict[str, Observed]:
        """Each node as it was left."""
        return self.records.last()

    def placed(self, lineages: Iterable[str] = ()) -> dict[str, set[str]] | None:
        """Node → what this fleet placed there, or will; None if nothing is on record.

        `lineages`: those in the ledgers, used if ours is unknown.
        """
        if self.records.empty:
            return None
        found: dict[str, set[str]] = {}
        past: list[Mapping[str, Desired]] = [self.target.nodes, self.records.leaving, self.records.applied]
        for name, value in (pair for nodes in past for pair in nodes.items()):
            found.setdefault(name, set()).update(value.state.allocations)
        for name, seen in self.records.seen.items():
            found.setdefault(name, set()).update(seen.state.allocations)
        for name, names in self.records.placed.items():
            found.setdefault(name, set()).update(names)
        pending = self.pending
        if pending is None:
            pending = frozenset().union(*(pending_placement.of(self.home, lineage) for lineage in lineages))
        for name, allocation in pending:
            found.setdefault(name, set()).add(allocation)
        return found
