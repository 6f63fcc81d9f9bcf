"""Which fleets do the solver's tests use? Built from plain dictionaries; random ones from a seed."""

from __future__ import annotations

import random
from typing import Any, Literal, get_args, get_origin

from swarm_iac.model.place.where import GROUP_RULES, Where
from swarm_iac.model.resources.row import Resource
from swarm_iac.model.resources.table import LIMITS, RESOURCES
from swarm_iac.model.stack import Stack
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, GpuCount, Iops

HARDWARE: dict[str, dict[str, Any]] = {
    "h100": {"gpus": "8 x H100", "vcpus": 128, "memory": "1 TB", "nvme": "15 TB", "nic": "100 Gbit/s", "numa": 2},
    "l40s": {"gpus": "4 x L40S", "vcpus": 64, "memory": "512 GB", "nvme": "4 TB", "nic": "25 Gbit/s", "numa": 2},
    "cpu": {"vcpus": 96, "memory": "768 GB", "nvme": "7 TB", "nic": "25 Gbit/s"},
}


def _values(key: str) -> list[Any]:
    """Some values of a key of `place` that is a rule on groups of nodes: all of its words, or small numbers."""
    kinds = get_args(Where.model_fields[key].annotation)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if key == "balance":
        return ["rack", "site", {"over": "rack", "skew": 2}]
    return words or [1, 2]


#: What a workload may say about groups of nodes.
GROUPED: dict[str, list[dict[str, Any]]] = {
    rule.rule: [{rule.key: value} for value in _values(rule.key)] for rule in GROUP_RULES if not rule.named
}
PLACES = [place for places in GROUPED.values() for place in places]
#: What tiny fleets count in, by unit: a GPU, a vCPU, a GB, a Gbit/s, a GB/s, a thousand operations per second.
ONE: dict[type[int], int] = {
    int: 1, GpuCount: 1000, Cpus: 1000, Bytes: 10**9, BitsPerSecond: 10**9, BytesPerSecond: 10**9, Iops: 1000,
}  # fmt: skip


def asking(request: dict[str, Any], row: Resource, count: int) -> dict[str, Any]:
    """The wish with so many of ONE of a resource for each replica; or with so many replicas."""
    if row.itself:
        return request | {"gang" if "gang" in request else "replicas": count}
    return _with(request, row.key, row.written(count * ONE[row.unit]))


def _with(request: dict[str, Any], key: str, value: object) -> dict[str, Any]:
    section, _, field = key.partition(".")
    return request | {section: _with(request.get(section, {}), field, value) if field else value}


def with_all(shapes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The machines, with 8 of ONE of whatever else the table says that machines have; huge pages are beside their memory."""
    more = {row.capacity.key: row.written(8 * ONE[row.unit]) for row in RESOURCES if row.capacity}
    plain = ("gpus", "vcpus", "memory", "nvme", "nic")
    pages = sum(8 * ONE[Bytes] for key in more if key.startswith("hugepages"))
    return {
        name: {key: value for key, value in more.items() if key not in plain}
        | shape
        | {"memory": str(Bytes.parse(shape["memory"]) + pages)}
        for name, shape in shapes.items()
    }


def limiting(key: str, count: int) -> dict[str, Any]:
    """A limit of so many of ONE."""
    return {key: LIMITS[key].written(count * ONE[LIMITS[key].unit])}


def stack_of(nodes: dict[str, dict[str, Any]], workloads: dict[str, dict[str, Any]], **rest: Any) -> Stack:
    """A stack; nodes get a name and an address, workloads a user."""
    return Stack.model_validate(
        {
            "fleet": "test",
            "hardware": HARDWARE,
            "nodes": {name: {"name": name, "ssh": "local", "hardware": "h100", **node} for name, node in nodes.items()},
            "workloads": {name: {"user": "ada", **request} for name, request in workloads.items()},
            **rest,
        }
    )


def some_fleet(nodes: int, workloads: int, seed: int = 1, **rest: Any) -> Stack:
    """A mixed fleet: two thirds H100 nodes, ten nodes to a rack; workloads of all priorities and shapes."""
    rng = random.Random(seed)
    kinds = ("l40s", "h100", "h100", "cpu", "h100", "h100")
    machines = {f"n-{i:04d}": {"hardware": kinds[i % 6], "rack": f"r{i // 10}"} for i in range(nodes)}
    requests: dict[str, dict[str, Any]] = {}
    for i in range(workloads):
        gpus, model = rng.choice([0, 0, 1, 1, 2, 4, 8]), rng.choice([None, None, "H100"])
        request: dict[str, Any] = {
            "user": f"u{i % 20}",
            "priority": rng.choice(["low", "normal", "high"]),
            "each": {
                "gpus": f"{gpus} x {model}" if gpus and model else gpus,
                "vcpus": rng.choice([1, 2, 4, 8]),
                "memory": f"{rng.choice([4, 16, 64])} GB",
                "pinned": rng.random() < 0.2,
            },
        }
        request |= {"gang": rng.choice([2, 4])} if rng.random() < 0.2 else {"replicas": rng.choice([1, 2, 3])}
        if rng.random() < 0.2:
            request["place"] = rng.choice([{"spread": "node"}, {"within": "rack"}])
        requests[f"w{i:04d}"] = request
    racks = {f"r{i}": {"uplink": "800 Gbit/s"} for i in range(nodes // 10 + 1)}
    return stack_of(machines, requests, racks=racks, **rest)
