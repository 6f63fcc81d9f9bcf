"""How does a machine, or one place on it, become what it was before us?"""

from __future__ import annotations

from typing import Any, Dict, List

from ..machine.run import Change, Context
from ..table import walk


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Give back everything that one allocation holds, and forget it."""
    changes = walk("release", context, allocation, recorded, backwards=True)
    context.ledger.record("allocations", allocation, value=None)
    return changes


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Release every allocation, put every original back, remove the boot unit, the program and the ledger."""
    changes: List[Change] = []
    held = sorted((context.ledger.get("allocations") or {}).items())
    for name, _ in held:
        walk("before_release", context, name)
    for name, recorded in held:
        changes += release(context, name, dict(recorded, waited=want.get("waited")))
    changes += walk("restore", context, "", context.ledger.state, backwards=True)
    context.ledger.delete()
    return changes
