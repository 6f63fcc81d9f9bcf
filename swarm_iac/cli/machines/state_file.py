"""What does Pulumi's state say about earlier runs, if it is kept in files?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm_iac.live import checkpoint
from swarm_iac.reconcile import Records

_FLEET, _LINEAGE = "swarm:index:Fleet", "swarm:index:Lineage"


def records(root: Path, name: str) -> Records | None:
    """The state of a stack of the fleet repository `root`, as the provider reads it.

    None if it is not kept in files, does not exist, or has no lineage yet. Raises Refused for what cannot be read.
    """
    folder = checkpoint.state_folder(root)
    resources = checkpoint.resources(folder, checkpoint.project(root), name) if folder else []
    found: dict[str, dict[str, Any]] = {str(each.get("type")): each for each in resources if not each.get("delete")}
    lineage = str(found.get(_LINEAGE, {}).get("id") or "")
    if not lineage:
        return None
    from swarm_iac.provider import spec

    fleet = found.get(_FLEET, {})
    return replace(spec.records(fleet.get("inputs") or {}, fleet.get("outputs") or {}), lineage=lineage)
