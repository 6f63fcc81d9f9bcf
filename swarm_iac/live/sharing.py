"""Which live layer does one run put into the state? The one there; or its clone's, for the autopilot and after waking nodes.

Called by the Pulumi program, after the engine has taken its lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from swarm_iac.errors import Refused, Retryable
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from swarm_iac.live.shared import Leader, Shared, successor, superseded
from swarm_iac.stackfile.locks.companions import Files

#: Words of RunOptions.share that are no leader.
KEEP, RELEASE = "keep", "release"


def shared(root: Path, name: str, share: str) -> Shared | None:
    """What this run registers; None where nothing was ever shared. The clone's file has it afterwards.

    Raises Retryable if this clone's layer is to be shared, and another clone has replaced what it was made from.
    """
    path = Files.of(root, name).live
    if path is None or not (share or checkpoint.concerns(root, name)):
        return None
    there = checkpoint.read(root, name, os.environ)
    if not share:
        checkpoint.taken(root, name, there)
        return there
    me, mine = live_file.identity(path.parent), live_file.at(path)
    if superseded(there, mine, me):
        raise Retryable("another clone replaced the live layer meanwhile", hint="nothing was changed; run it again")
    return successor(there, mine, me, _leader(share, there))


def written(root: Path, name: str, live: Shared) -> None:
    """The state has it: what this clone writes next is made from that."""
    path = Files.of(root, name).live
    if path is None or live.version.writer != live_file.identity(path.parent):
        return

    def change(mine: Layer) -> Layer:
        known = mine.base.number if mine.base else 0
        return mine.model_copy(update={"base": live.version}) if known < live.version.number else mine

    live_file.replace(path, change)


def _leader(share: str, there: Shared | None) -> Leader | None:
    if share == RELEASE:
        return None
    if share == KEEP:
        return there.leader if there else None
    try:
        return Leader.model_validate_json(share)
    except ValidationError:
        raise Refused("SWARM_SHARE_LAYER names no leader", hint="leave it unset: `swarm autopilot` sets it") from None
