"""What was a killed run about to place, before the state recorded it? Kept in a note in the operator's own folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

At = tuple[str, str]  # node, allocation


def begin(home: Path | None, lineage: str, serial: int, places: Iterable[At], saved: int) -> None:
    """Record what the run with this serial is about to place. Earlier notes stay until the state, now at `saved`, catches up.

    `home`: RunOptions.state_home; without one nothing is noted.
    """
    if home is None:
        return
    found = of(home, lineage, saved) | set(places)
    path = _path(home, lineage)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"serial": serial, "places": sorted(found)}))
        fresh.replace(path)


def of(home: Path | None, lineage: str, saved: int = 0) -> set[At]:
    """What runs later than the one that the state `saved` were about to place."""
    if home is None:
        return set()
    try:
        content = json.loads(_path(home, lineage).read_text())
        return {(str(node), str(name)) for node, name in content["places"]} if int(content["serial"]) > saved else set()
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _path(home: Path, lineage: str) -> Path:
    return home / "swarm" / "placing" / f"{hashlib.sha256(lineage.encode()).hexdigest()[:24]}.json"
