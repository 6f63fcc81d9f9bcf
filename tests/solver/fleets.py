"""Which fleets do the solver's tests use? Built from plain dictionaries; random ones from a seed."""

from __future__ import annotations

import random
from typing import Any

from swarm_iac.model.stack import Stack

HARDWARE: dict[str, dict[str, Any]] = {
    "h100": {"gpus": "8 x H100", "vcpus": 128, "memory": "1 TB", "nvme": "15 TB", "nic": "100 Gbit/s", "numa": 2},
    "l40s": {"gpus": "4 x L40S", "vcpus": 64, "memory": "512 GB", "nvme": "4 TB", "nic": "25 Gbit/s", "numa": 2},
    "cpu": {"vcpus": 96, "memory": "768 GB", "nvme": "7 TB", "nic": "25 Gbit/s"},
}


def stack_of(nodes: dict[str, dict[str, Any]], workloads: dict[str, dict[str, Any]], **rest: Any) -> Stack:
    """A stack; nodes get a name and an address, workloads a user."""
    return Stack.model_validate(
        {
            "fleet": "test",
            "hardware": HARDWARE,
            "nodes": {name: {"name": name, "ssh": "local", "hardware": "h100", **node} for name, node in nodes.items()},
            "workloads": {name: {"user": "ada", **wish} for name, wish in workloads.items()},
            **rest,
        }
    )


def some_fleet(nodes: int, workloads: int, seed: int = 1, **rest: Any) -> Stack:
    """A mixed fleet: two thirds H100 nodes, ten nodes to a rack; workloads of all priorities and shapes."""
    rng = random.Random(seed)
    kinds = ("l40s", "h100", "h100", "cpu", "h100", "h100")
    machines = {f"n-{i:04d}": {"hardware": kinds[i % 6], "rack": f"r{i // 10}"} for i in range(nodes)}
    wishes: dict[str, dict[str, Any]] = {}
    for i in range(workloads):
        gpus, model = rng.choice([0, 0, 1, 1, 2, 4, 8]), rng.choice([None, None, "H100"])
        wish: dict[str, Any] = {
            "user": f"u{i % 20}",
            "priority": rng.choice(["low", "normal", "high"]),
            "each": {
                "gpus": f"{gpus} x {model}" if gpus and model else gpus,
                "vcpus": rng.choice([1, 2, 4, 8]),
                "memory": f"{rng.choice([4, 16, 64])} GB",
                "pinned": rng.random() < 0.2,
            },
        }
        wish |= {"gang": rng.choice([2, 4])} if rng.random() < 0.2 else {"replicas": rng.choice([1, 2, 3])}
        if rng.random() < 0.2:
            wish["place"] = rng.choice([{"spread": "node"}, {"within": "rack"}])
        wishes[f"w{i:04d}"] = wish
    racks = {f"r{i}": {"uplink": "800 Gbit/s"} for i in range(nodes // 10 + 1)}
    return stack_of(machines, wishes, racks=racks, **rest)
