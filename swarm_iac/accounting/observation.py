"""What did one pass over the nodes see: who held which GPUs, and which of them were free, out of service or unknown?"""

from __future__ import annotations

from dataclasses import dataclass

from swarm_iac.price import Price

#: Parts of a GPU are in thousandths, ratios too.
WHOLE = 1000


@dataclass(frozen=True)
class Holder:
    """An allocation, and whose it is: names as the node's ledger has them. Empty: not known there."""

    allocation: str
    workload: str = ""
    user: str = ""
    team: str = ""


@dataclass(frozen=True)
class HeldPart:
    """A GPU, a part of one, or a MIG instance (`piece`) that somebody holds. `milli`: how much of the card [1/1000].

    `active`: SM activity, or utilization where the card has no GPM; `bandwidth`: of its memory [1/1000]. `cpus`: CPUs that the
    whole allocation uses on this node [1/1000]. None: not measured.
    """

    gpu: int
    piece: str
    holder: Holder
    milli: int
    active: int | None = None
    bandwidth: int | None = None
    cpus: int | None = None


@dataclass(frozen=True)
class NodePass:
    """One node at the moment of a pass. `free`, `off`, `unknown`: of its cards, what nobody is known to hold [1/1000].

    Raises ValueError unless these and what is held add up to all its cards.
    """

    node: str
    model: str
    cards: int
    answered: bool
    free: int = 0
    off: int = 0
    unknown: int = 0
    held: tuple[HeldPart, ...] = ()
    price: Price | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        parts = [self.free, self.off, self.unknown, *(one.milli for one in self.held)]
        if min(parts) < 0 or sum(parts) != self.cards * WHOLE:
            raise ValueError(f"{self.node}: free, held, off and unknown do not add up to {self.cards} cards")

    @property
    def out_of_service(self) -> bool:
        """Is every card of it out of service?"""
        return self.off == self.cards * WHOLE


@dataclass(frozen=True)
class FleetPass:
    """All nodes of a stack that have GPUs, at one moment `at` [s since 1970]. `commit`: of the stack file; empty if in none.

    Raises ValueError for a node that is there twice.
    """

    at: int
    nodes: tuple[NodePass, ...]
    commit: str = ""

    def __post_init__(self) -> None:
        if len({one.node for one in self.nodes}) != len(self.nodes):
            raise ValueError("a node is in the pass twice")
