"""What do links between the sites of a drawn fleet carry? A stream of its own, so that nothing else is drawn anew for it."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

from tests.benchmarks.fleets.written import Drawn


def with_links(drawn: Drawn, seed: int) -> Drawn:
    """The same fleet: its racks stand in two or three sites, most of which are joined, and gangs send what some links carry."""
    rng = random.Random(f"links {seed}")
    names = ["ams", "fra", "lab"][: rng.choice([2, 2, 3])]
    data: dict[str, Any] = dict(drawn.data)
    racks = {rack: rng.choice(names) for rack in sorted({str(one.get("rack")) for one in data["nodes"].values()})}
    alone = {name: rng.choice(names) for name in data["nodes"]}
    data["nodes"] = {
        name: node | {"site": racks[str(node["rack"])] if node.get("rack") else alone[name]} if node.get("hardware") else node
        for name, node in data["nodes"].items()
    }
    data["sites"] = {name: {"links": {}} for name in names}
    for one, other in itertools.combinations(names, 2):
        if rng.random() < 0.8:
            data["sites"][one]["links"][other] = f"{rng.choice([0, 1, 2, 3, 5, 8])} Gbit/s"
    sends = {name: rng.choice([1, 1, 2]) for name, one in sorted(data["workloads"].items()) if one.get("gang")}
    data["workloads"] = {
        name: one | {"network": one.get("network", {}) | {"between": f"{sends[name]} Gbit/s"}} if name in sends else one
        for name, one in data["workloads"].items()
    }
    return replace(drawn, data=data)
