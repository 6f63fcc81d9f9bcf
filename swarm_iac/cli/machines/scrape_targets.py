"""Where does Prometheus find the exporters of a stack? A file of its file-based service discovery."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from swarm_iac.errors import Place, Refused, SwarmError
from swarm_iac.model.stack import Stack
from swarm_iac.reach.address import parse
from swarm_iac.stackfile.locks.atomic_write import write_whole

#: In a fleet repository; monitoring/prometheus.yml reads every file there.
FOLDER = Path("monitoring") / "targets"
HINT = "add `telemetry: {scrapers: [ADDRESS OF PROMETHEUS]}` to the stack file; see docs/telemetry.md"


def targets(stack: Stack, name: str, asleep: Collection[str] = ()) -> list[dict[str, Any]]:
    """One entry for each node that is neither lost nor powered off on purpose. Raises SwarmError where nothing is measured.

    `instance` is the node's name, so that series keep their name when an address changes.
    """
    if stack.telemetry is None:
        raise SwarmError(f"nothing is measured in {name}", hint=HINT)
    found = []
    for node, one in sorted(stack.nodes.items()):
        if one.state == "lost" or node in asleep:
            continue
        where = parse(one.ssh)
        host = "localhost" if where.local else f"[{where.host}]" if ":" in where.host else where.host
        labels = {
            "instance": node,
            "fleet": stack.fleet,
            "stack": name,
            "hardware": one.hardware,
            "rack": one.rack,
            "site": one.site,
        }
        found.append(
            {
                "targets": [f"{host}:{stack.telemetry.port}"],
                "labels": {key: value for key, value in labels.items() if value is not None},
            }
        )
    return found


def refresh(root: Path, stack: Stack, name: str, asleep: Collection[str]) -> None:
    """Rewrite the file where there is one, so that nobody is alarmed by a node that is powered off.

    Not through a link: a merge can bring one, and what is behind it is not ours to write.
    """
    path = _path(root, name)
    if stack.telemetry is not None and path.is_file() and path.resolve() == path:
        write_whole(path, text(targets(stack, name, asleep)))


def file(root: Path, name: str) -> Path:
    """Where `swarm metrics` writes. Raises Refused for a link: a merge can bring one, to a folder of anybody's."""
    path = _path(root, name)
    shown = next((each for each in reversed((path, *path.parents)) if each.is_symlink()), None)
    if shown is not None:
        raise Refused(
            f"{shown} is a link, and what is behind it is not ours to write",
            hint="remove it, or name the file: swarm metrics --out FILE",
            place=Place(str(shown)),
        )
    return path


def _path(root: Path, name: str) -> Path:
    return root.resolve() / FOLDER / f"{name}.json"


def text(found: list[dict[str, Any]]) -> str:
    """The file's text."""
    return json.dumps(found, indent=2) + "\n"
