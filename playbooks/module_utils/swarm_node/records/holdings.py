"""Which allocation is here, and which GPUs does it hold? The parts of one GPU are one at most."""

from __future__ import annotations

from typing import Any, Dict

from .. import device
from ..machine.run import Context, NodeError


def of(context: Context, allocation: str, want: Dict[str, Any]) -> Dict[str, Any]:
    """The allocation's whole state as wanted, else as recorded."""
    return (want.get("allocations") or {}).get(allocation) or context.ledger.get("allocations", allocation) or {}


def nobody_elses(context: Context, allocation: str, whole: Dict[str, Any]) -> None:
    """Refuse a GPU of which others hold too much."""
    for one in device.gpus(whole.get("gpus") or ()):
        mine, others = one.held(), holders(context, allocation, one.index)
        total = {eighth: part + sum(held.get(eighth, 0) for held in others.values()) for eighth, part in mine.items()}
        if max(total.values()) > device.WHOLE:
            names = " and ".join(sorted(name for name, held in others.items() if not mine.keys().isdisjoint(held)))
            raise NodeError(f"gpu {one.index} is held by {names}; it must be released first")


def holders(context: Context, allocation: str, index: int) -> Dict[str, Dict[int, int]]:
    """Who else holds that GPU, or a part or MIG instances of it, and how much of each of its eighths. [thousandths]"""
    others = {name: state for name, state in (context.ledger.get("allocations") or {}).items() if name != allocation}
    held = {name: device.held(state.get("gpus") or (), index) for name, state in others.items()}
    return {name: parts for name, parts in held.items() if parts}


def claim(context: Context, allocation: str, whole: Dict[str, Any]) -> None:
    """Record that the allocation exists here, unless others hold too much of a GPU of it."""
    nobody_elses(context, allocation, whole)
    if context.ledger.get("allocations", allocation) is None:
        workload = whole.get("workload") or allocation.rsplit("-", 1)[0]
        context.ledger.record("allocations", allocation, value={"workload": workload, "gpus": list(whole.get("gpus") or ())})
