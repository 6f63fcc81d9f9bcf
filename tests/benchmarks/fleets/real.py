"""How does a stack file that a person wrote become data that can be edited as a drawn fleet is?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from swarm_iac.stackfile.reading.ranges import expand
from tests.benchmarks.fleets.draw import TODAY
from tests.benchmarks.fleets.written import Data, Drawn

#: What the edits count in, and how many of it a larger unit is.
_LARGER = {"TB": ("GB", 1000), "PB": ("GB", 10**6), "Tbit/s": ("Gbit/s", 1000), "kW": ("W", 1000)}
_QUANTITY = re.compile(r"([0-9]+) (TB|PB|Tbit/s|kW)")


def drawn(path: Path) -> Drawn:
    """The file's sections with each node by its own name, and sizes in the units that the edits count in."""
    data: Data = _plain(yaml.safe_load(path.read_text()))
    nodes: dict[str, Data] = {}
    for pattern, entry in data["nodes"].items():
        for name in expand(pattern):
            nodes[name] = nodes.get(name, {}) | entry
    sections: Data = {key: data.get(key) or {} for key in ("teams", "limits", "tuning", "hardware", "racks", "solve")}
    return Drawn({"fleet": data["fleet"], **sections, "nodes": nodes, "workloads": data["workloads"]}, TODAY)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found:
        unit, factor = _LARGER[found[2]]
        return f"{int(found[1]) * factor} {unit}"
    return value if isinstance(value, bool | int) else str(value)
