"""What did earlier runs leave, according to the records of this fleet: Pulumi's state or the lock file?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_iac.model.state import Desired, LedgerHead, Observed


@dataclass(frozen=True)
class Records:
    """What is on record.

    `lineage`: owner of the nodes; empty if the record does not say. `serial`: of the last run, 0 if unknown. `applied`: the
    desired state of each node in the last run. `leaving`: nodes that earlier runs had to restore, and perhaps did not.
    `seen`: last observation of nodes that a run did not leave as desired. `placed`: node → further allocations that were
    placed there. `gone`: nodes that left the stack and whose address is not on record → what runs there.
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
        """Is nothing on record? The state is new or was lost: then the ledgers of the nodes are all there is."""
        return not self.serial and not self.applied and not self.placed

    def last(self) -> dict[str, Observed]:
        """Each node as it was left; used for nodes that do not answer."""
        ledger = {
            name: LedgerHead(lineage=self.lineage, serial=self.serial, fleet=one.fleet) for name, one in self.applied.items()
        }
        left = {name: Observed(node=name, state=one.state, ledger=ledger[name]) for name, one in self.applied.items()}
        return left | dict(self.seen)
