"""Which tiny fleets have more wishes than room? Random ones from a seed, with every kind of rule in play."""

from __future__ import annotations

import random
from typing import Any

from swarm_iac.model.resources.table import LIMITED, RESOURCES
from swarm_iac.model.stack import Stack
from tests.solver.fleets import PLACES, asking, limiting, stack_of, with_all

HARDWARE: dict[str, dict[str, Any]] = with_all(
    {
        "small": {"gpus": "2 x L40S", "vcpus": 4, "memory": "8 GB", "nvme": "100 GB", "nic": "10 Gbit/s"},
        "large": {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "nvme": "200 GB", "nic": "10 Gbit/s", "numa": 2},
        "cpu": {"vcpus": 4, "memory": "8 GB", "nvme": "100 GB", "nic": "10 Gbit/s"},
    }
)


#: What is asked for and limited in figures of its own; of all other rows some ask for a few.
OWN = {"gpus", "vcpus", "cores", "memory", "storage", "egress", "ingress", "replicas"}
REST = [row for row in RESOURCES if row.name not in OWN]
#: Of those a request has so many on average, however long the table is.
ASKED = 1.6
MORE = [limiting(key, 3) for key, rows in LIMITED.items() if rows[0].name not in OWN]


def _request(rng: random.Random) -> dict[str, Any]:
    gpus = rng.choice([0, 1, 1, 2, 2, 4, "1 x H100", "2 x H100", "1 x L40S", {"count": 1, "memory": "60 GB"}])
    each = {
        "gpus": gpus,
        "vcpus": rng.choice([1, 2, 3]),
        "memory": rng.choice(["1 GB", "3 GB", "5 GB"]),
        "pinned": rng.random() < 0.3,
        "scratch": rng.choice(["0 B", "0 B", "60 GB"]),
    }
    if gpus and rng.random() < 0.3:
        each["gpu_power"] = rng.choice(["300 W", "700 W"])
    request: dict[str, Any] = {
        "user": rng.choice(["ada", "bo"]),
        "priority": rng.choice(["low", "normal", "normal", "high"]),
        "each": each,
        rng.choice(["gang", "replicas"]): rng.choice([1, 2, 2, 3]),
    }
    for row in REST:
        request = asking(request, row, rng.choice([1, 2])) if rng.random() < ASKED / len(REST) else request
    if rng.random() < 0.3:
        request["network"] = {rng.choice(["egress", "ingress"]): rng.choice(["4 Gbit/s", "7 Gbit/s"])}
    if rng.random() < 0.4:
        request["place"] = rng.choice([*PLACES, {"select": {"zone": "a"}}, {"select": {"zone": "a", "disk": "fast"}}])
    return request


def crowded(seed: int) -> tuple[Stack, Stack]:
    """The stack of before, and the one of now: with other states, and with one wish more."""
    rng = random.Random(seed)
    count = rng.choice([1, 2, 2, 3])
    nodes: dict[str, dict[str, Any]] = {}
    for i in range(count):
        labels = {key: value for key, value in (("zone", rng.choice("ab")), ("disk", rng.choice(["fast", "slow"])))}
        nodes[f"n{i}"] = {"hardware": rng.choice(sorted(HARDWARE)), "rack": rng.choice(["r1", "r2"]), "labels": labels}
    requests = {f"w{i}": _request(rng) for i in range(rng.choice([2, 3, 4]))}
    limits = {
        "user": rng.choice([{}, {}, {"gpus": 3}, {"memory": "9 GB"}, {"bandwidth": "8 Gbit/s"}, *MORE]),
        "node": rng.choice([{}, {}, {"gpus": 3}, {"vcpus": 6}, *MORE]),
        "cluster": rng.choice([{}, {}, {"gpus": 5}, {"storage": "150 GB"}, *MORE]),
        "except": rng.choice([[], [{"user": "bo", "gpus": 2, "until": "2030-01-01", "reason": "test"}]]),
    }
    rest: dict[str, Any] = {
        "hardware": HARDWARE,
        "racks": {"r1": {"uplink": "8 Gbit/s", "power": "2500 W"}, "r2": {}},
        "limits": limits,
        "solve": {"moves": rng.choice([0, 0, 1, 4]), "effort": "quick"},
    }
    before = stack_of(nodes, requests, **rest)
    state = [rng.choice(["ready", "ready", "ready", "cordon", "drain"]) for _ in nodes]
    nodes = {name: node | {"state": state[i]} for i, (name, node) in enumerate(nodes.items())}
    more = _request(rng)
    while not _able(more, [node["hardware"] for node in nodes.values()]):
        more = _request(rng)
    return before, stack_of(nodes, requests | {"more": more}, **rest)


def _able(request: dict[str, Any], shapes: list[str]) -> bool:
    """Could one replica stand on one of the machines? Else a stack file would be refused."""
    asked = Stack.model_validate({"fleet": "x", "workloads": {"w": request}}).workloads["w"].each
    machines = Stack.model_validate({"fleet": "x", "hardware": HARDWARE}).hardware
    return any(
        asked.gpus.count <= one.gpus.count
        and (not asked.gpus.count or asked.gpus.model in (None, one.gpus.model))
        and (not asked.gpus.count or (asked.gpus.memory or 0) <= one.gpu_memory)
        and asked.memory <= one.memory
        for one in (machines[shape] for shape in shapes)
    )
