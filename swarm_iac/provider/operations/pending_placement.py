"""What was a run about to place, that was killed before the state knew of it? A note in the operator's own folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

At = tuple[str, str]  # node, allocation


def begin(lineage: str, serial: int, places: Iterable[At], saved: int) -> None:
    """The run of this serial is about to. What earlier ones left stays until the state has caught up: it `saved` this one."""
    found = of(lineage, saved) | set(places)
    path = _path(lineage)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"serial": serial, "places": sorted(found)}))
        fresh.replace(path)


def of(lineage: str, saved: int = 0) -> set[At]:
    """Where runs were about to place something that are later than the one which the state `saved`."""
    try:
        said = json.loads(_path(lineage).read_text())
        return {(str(node), str(name)) for node, name in said["places"]} if int(said["serial"]) > saved else set()
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _path(lineage: str) -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111  (Path.home() may raise)
    return Path(home) / "swarm" / "placing" / f"{hashlib.sha256(lineage.encode()).hexdigest()[:24]}.json"
