"""What does the solver answer? A placement, how good it is, and what it does to what runs."""

from __future__ import annotations

import hashlib

from pydantic import Field

from swarm_iac.model.base import Name, Value
from swarm_iac.model.placement import Placement, Proof, Reason


class Move(Value):
    """A running allocation that leaves its node."""

    name: str = Field(description="WORKLOAD-INDEX")
    source: Name
    target: str = Field(default="", description="Its new node; empty: it stops.")
    forced: bool = Field(description="It could not stay: drain, lost, another size, a rule it breaks. Outside the budget.")
    why: str


class Solution(Value):
    """A placement with its proof, and the moves from the last one to it."""

    placement: Placement
    proof: Proof
    moves: tuple[Move, ...] = ()


class Explanation(Value):
    """Why a workload stands where it stands, or which rules together forbid its next replica (or its gang)."""

    workload: Name
    placed: int
    missing: int
    reasons: tuple[Reason, ...] = ()


def digest(placement: Placement) -> str:
    """Digest of a placement, by content: the first 16 hex digits of SHA-256 over its JSON."""
    return hashlib.sha256(placement.model_dump_json().encode()).hexdigest()[:16]
