"""What does Pulumi's state say about earlier runs, if it is kept in files?"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from swarm_iac.cli.engine import state_folder
from swarm_iac.reconcile import Records

_FLEET, _LINEAGE = "swarm:index:Fleet", "swarm:index:Lineage"


def records(root: Path, name: str) -> Records | None:
    """The state of a stack of the fleet repository `root`, as the provider reads it.

    None if it is not kept in files, does not exist, or has no lineage yet. Raises Refused for what cannot be read.
    """
    folder = state_folder(root)
    resources = _resources(folder, _project(root), name) if folder else []
    found: dict[str, dict[str, Any]] = {str(each.get("type")): each for each in resources if not each.get("delete")}
    lineage = str(found.get(_LINEAGE, {}).get("id") or "")
    if not lineage:
        return None
    from swarm_iac.provider import spec

    fleet = found.get(_FLEET, {})
    return replace(spec.records(fleet.get("inputs") or {}, fleet.get("outputs") or {}), lineage=lineage)


def _resources(folder: Path, project: str, name: str) -> list[dict[str, Any]]:
    path = folder / ".pulumi" / "stacks" / project / f"{name}.json"
    packed = path.with_name(f"{path.name}.gz")
    try:
        text = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
        return [each for each in json.loads(text)["checkpoint"]["latest"]["resources"] if isinstance(each, dict)]
    except (OSError, EOFError, ValueError, LookupError, TypeError):
        return []  # there is none, or Pulumi reports what is wrong with it


def _project(root: Path) -> str:
    try:
        return str(yaml.safe_load((root / "Pulumi.yaml").read_text())["name"])
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        return ""
