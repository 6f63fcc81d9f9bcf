"""How does a machine, or one place on it, become what it was before us?"""

from __future__ import annotations

from typing import Any, Dict, List

from . import boot, devices, directories, gpus, settings, slices, storage, traffic, units
from .run import Change, Context

#: Nothing may still run when its directories and devices go; the slice is last, for it holds what runs.
RELEASE = (units, traffic, directories, devices, slices)
#: The boot unit is last: a machine that loses power half-way is then still put right at boot.
RESTORE = (traffic, devices, storage, units, slices, gpus, settings, boot)


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Give back everything that one allocation holds, and forget it."""
    changes: List[Change] = []
    for concern in RELEASE:
        give_back = getattr(concern, "release", None)
        changes += give_back(context, allocation, recorded) if give_back else []
    context.ledger.record("allocations", allocation, value=None)
    return changes


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Release every allocation, put every original back, remove the boot unit, the program and the ledger."""
    changes: List[Change] = []
    held = sorted((context.ledger.get("allocations") or {}).items())
    for name, _ in held:
        units.begin_stop(context, name)
    for name, recorded in held:
        changes += release(context, name, dict(recorded, waited=want.get("waited")))
    for concern in RESTORE:
        give_back = getattr(concern, "restore", None)
        changes += give_back(context, "", context.ledger.state) if give_back else []
    context.ledger.delete()
    return changes
