"""What was a run about to place, that was killed before the state knew of it? A note in the operator's own folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

At = tuple[str, str]  # node, allocation


def begin(home: Path | None, lineage: str, serial: int, places: Iterable[At], saved: int) -> None:
    """The run of this serial is about to. What earlier ones left stays until the state has caught up: it `saved` this one.

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
    """Where runs were about to place something that are later than the one which the state `saved`."""
    if home is None:
        return set()
    try:
        said = json.loads(_path(home, lineage).read_text())
        return {(str(node), str(name)) for node, name in said["places"]} if int(said["serial"]) > saved else set()
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _path(home: Path, lineage: str) -> Path:
    return home / "swarm" / "placing" / f"{hashlib.sha256(lineage.encode()).hexdigest()[:24]}.json"
