"""What does the solver answer? A placement, how good it is, and what it does to what runs."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import Field

from swarm_iac.model.base import Name, Value
from swarm_iac.model.edit import Edit
from swarm_iac.model.placement import Placement, Proof, Reason


class Move(Value):
    """A running allocation that leaves its node, or the GPU that it holds a part of."""

    name: str = Field(description="WORKLOAD-INDEX")
    source: Name
    target: str = Field(default="", description="Its new node, or the same where only the GPU is another; empty: it stops.")
    forced: bool = Field(description="It could not stay: drain, lost, another size, a rule it breaks. Outside the budget.")
    why: str


class Solution(Value):
    """A placement with its proof, and the moves from the last one to it."""

    placement: Placement
    proof: Proof
    moves: tuple[Move, ...] = ()


class Fix(Value):
    """A change of the stack that places a workload whole: seen by solving with it."""

    kind: Literal["limit", "node", "move", "request", "together"]
    edits: tuple[Edit, ...]
    was: tuple[str, ...] = Field(description="The current value for each edit; empty if there is none.")
    moves: tuple[Move, ...] = Field(
        default=(), description="Running allocations that leave their node, or their part of a GPU."
    )
    restarts: tuple[str, ...] = Field(default=(), description="Running ones that get other GPUs or NUMA nodes where they are.")
    stops: tuple[str, ...] = Field(default=(), description="Running allocations that lose their place.")
    displaced: tuple[str, ...] = Field(default=(), description="What would get a place without it, and does not run yet.")
    dropped: tuple[str, ...] = Field(default=(), description="The same that is no longer asked for with it.")


class RunnerUp(Value):
    """The best placement in which a workload avoids one of its nodes, and what it would cost more."""

    avoids: Name
    nodes: tuple[Name, ...] = Field(description="Where its replicas would stand; empty: nowhere.")
    price: tuple[str, ...] = Field(description="What gets worse, most important first; empty: it is a tie.")


class Explanation(Value):
    """Why a workload stands where it stands, or what together forbids its next replica (or its gang)."""

    workload: Name
    placed: int
    missing: int
    fits: tuple[Reason, ...] = Field(default=(), description="Why each of its nodes fits.")
    moved: tuple[Reason, ...] = Field(default=(), description="What caused its replicas to leave their nodes.")
    runner_up: RunnerUp | None = None
    reasons: tuple[Reason, ...] = Field(default=(), description="Rules and facts that together forbid what is missing.")
    fixes: tuple[Fix, ...] = Field(default=(), description="Changes that would place it, cheapest first in each kind.")
    cut: bool = Field(default=False, description="Ended by hand: there may be more to say.")


def digest(placement: Placement) -> str:
    """Digest of a placement, by content: the first 16 hex digits of SHA-256 over its JSON."""
    return hashlib.sha256(placement.model_dump_json().encode()).hexdigest()[:16]
