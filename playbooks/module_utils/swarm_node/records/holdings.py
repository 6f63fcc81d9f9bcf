"""Which allocation is here, and which GPUs does it hold? One GPU has one owner."""

from __future__ import annotations

from typing import Any, Dict

from ..machine.run import Context, NodeError


def of(context: Context, allocation: str, want: Dict[str, Any]) -> Dict[str, Any]:
    """The allocation's whole state as wanted, else as recorded."""
    return (want.get("allocations") or {}).get(allocation) or context.ledger.get("allocations", allocation) or {}


def nobody_elses(context: Context, allocation: str, whole: Dict[str, Any]) -> None:
    """Refuse a GPU that another allocation holds."""
    for other, state in (context.ledger.get("allocations") or {}).items():
        both = sorted(set(state.get("gpus", ())) & set(whole.get("gpus") or ()))
        if other != allocation and both:
            raise NodeError(f"gpu {both[0]} is held by {other}; it must be released first")


def claim(context: Context, allocation: str, whole: Dict[str, Any]) -> None:
    """Record that the allocation exists here, unless another one holds a GPU of it."""
    nobody_elses(context, allocation, whole)
    if context.ledger.get("allocations", allocation) is None:
        workload = whole.get("workload") or allocation.rsplit("-", 1)[0]
        context.ledger.record("allocations", allocation, value={"workload": workload, "gpus": list(whole.get("gpus") or ())})
