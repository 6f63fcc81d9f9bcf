"""What did earlier runs leave, as far as the records of this fleet say: Pulumi's state, or the lock file?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_iac.model.state import Desired, LedgerHead, Observed


@dataclass(frozen=True)
class Records:
    """What is on record.

    `lineage`: whose the nodes are; empty where the record does not say. `serial`: of the last run, 0 where unknown.
    `applied`: each node as it was last asked for. `leaving`: nodes that earlier runs were to give back, and perhaps did not.
    `seen`: nodes that a run left otherwise than they were asked for, as it saw them last. `placed`: node → allocations that
    were placed there beyond those. `gone`: nodes that left the stack and whose address is on no record → what runs
    there.
    """

    lineage: str = ""
    serial: int = 0
    applied: Mapping[str, Desired] = field(default_factory=dict)
    leaving: Mapping[str, Desired] = field(default_factory=dict)
    seen: Mapping[str, Observed] = field(default_factory=dict)
    placed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Is nothing on record? The state is new, or was lost: then the nodes' own ledgers are all there is."""
        return not self.serial and not self.applied and not self.placed

    def last(self) -> dict[str, Observed]:
        """Each node as it was left, which stands in for one that does not answer."""
        ledger = {
            name: LedgerHead(lineage=self.lineage, serial=self.serial, fleet=one.fleet) for name, one in self.applied.items()
        }
        left = {name: Observed(node=name, state=one.state, ledger=ledger[name]) for name, one in self.applied.items()}
        return left | dict(self.seen)
