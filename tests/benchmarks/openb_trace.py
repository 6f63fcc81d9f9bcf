"""What does an openb trace ask for? Reads Alibaba's GPU cluster trace of 2023 and resamples its pods as the FGD paper does.

    nodes: sn, cpu_milli, memory_mib, gpu, model        pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli [, gpu_spec, …]

Pods that are alike become one workload with replicas. Source of the resampling: Weng et al., "Beware of
Fragmentation", ATC 2023, and its simulator: pods sorted by name, shuffled, then cut or repeated at random until they
ask for `arrival` times the GPUs that there are.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm_iac.model.device import gpu
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.units import Bytes

MIB = 2**20


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What one pod asks for. `milli`: thousandths of each GPU; `models`: the GPU models it accepts, all when empty."""

    gpus: int
    milli: int
    cpu: int  # thousandths
    memory: int  # bytes
    models: tuple[str, ...]

    @property
    def size(self) -> int:
        """Thousandths of a GPU in all."""
        return self.gpus * self.milli


@dataclass(frozen=True, slots=True, order=True)
class Machine:
    """What one node has."""

    gpus: int
    cpu: int  # thousandths
    memory: int  # bytes
    model: str


@dataclass(frozen=True)
class Trace:
    """Nodes and pods, both in the order of the trace and of arrival."""

    name: str
    nodes: tuple[tuple[str, Machine], ...]
    pods: tuple[Shape, ...]

    @property
    def capacity(self) -> int:
        """Thousandths of a GPU that there are."""
        return sum(1000 * machine.gpus for _, machine in self.nodes)


def read(folder: Path, name: str, arrival: float, seed: int) -> Trace:
    """The trace `openb_pod_list_NAME.csv` of a folder, resampled."""
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        nodes = tuple((row["sn"], _machine(row)) for row in csv.DictReader(file))
    with (folder / f"openb_pod_list_{name}.csv").open() as file:
        pods = [_shape(row) for row in sorted(csv.DictReader(file), key=lambda row: row["name"])]
    return Trace(name, nodes, resampled(pods, int(arrival * sum(1000 * machine.gpus for _, machine in nodes)), seed))


def resampled(pods: list[Shape], wanted: int, seed: int) -> tuple[Shape, ...]:
    """Shuffled, then cut or repeated until they ask for `wanted` thousandths of a GPU."""
    rng = random.Random(seed)
    found = list(pods)
    rng.shuffle(found)
    total = sum(pod.size for pod in found)
    while total > wanted:
        total -= found.pop().size
    while total < wanted and any(pod.size for pod in pods):
        pod = rng.choice(pods)
        found.append(pod)
        total += pod.size
    return tuple(found)


def _machine(row: dict[str, str]) -> Machine:
    return Machine(int(row["gpu"]), int(row["cpu_milli"]), int(row["memory_mib"]) * MIB, row["model"])


def _shape(row: dict[str, str]) -> Shape:
    models = tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model}))
    gpus = int(row["num_gpu"])
    return Shape(gpus, int(row["gpu_milli"]) if gpus else 0, int(row["cpu_milli"]), int(row["memory_mib"]) * MIB, models)


def workloads(trace: Trace) -> dict[str, tuple[Shape, int]]:
    """Name, shape and replicas of every workload: one for each shape of pods."""
    return {f"w{i:04d}": pair for i, pair in enumerate(sorted(Counter(trace.pods).items(), reverse=True))}


def stack(trace: Trace) -> Stack:
    """The stack that asks for what the trace asks for."""
    machines = sorted({machine for _, machine in trace.nodes})
    names = {machine: f"m{i:02d}" for i, machine in enumerate(machines)}
    return Stack.model_validate(
        {
            "fleet": "openb",
            "hardware": {
                names[one]: {
                    "gpus": {"count": one.gpus, "model": one.model},
                    "vcpus": f"{one.cpu}m",
                    "memory": f"{one.memory} B",
                }
                for one in machines
            },
            "nodes": {name: {"name": name, "hardware": names[one], "ssh": "local"} for name, one in trace.nodes},
            "workloads": {name: _workload(*pair) for name, pair in workloads(trace).items()},
        }
    )


def _workload(shape: Shape, count: int) -> dict[str, Any]:
    gpus: dict[str, Any] = {"count": shape.gpus}
    if shape.gpus:
        gpus |= {"share": f"{shape.milli}m"} | ({"model": "|".join(shape.models)} if shape.models else {})
    each = {"gpus": gpus, "vcpus": f"{shape.cpu}m", "memory": f"{shape.memory} B"}
    return {"user": "openb", "replicas": {"least": count, "most": count}, "each": each}


def placement(stack: Stack, where: list[tuple[str, str, tuple[int, ...]]]) -> Placement:
    """A placement from (workload, node, GPUs) of every replica that found a place."""
    indices: Counter[str] = Counter()
    found = []
    for name, node, gpus in where:
        each = stack.workloads[name].each
        values = {"vcpus": each.vcpus, "memory": each.memory, "storage": Bytes(0), "egress": 0, "ingress": 0}
        label = f"{name}-{indices[name]}"
        found.append(
            Allocation.model_construct(
                name=label,
                workload=name,
                index=indices[name],
                node=node,
                cpus=(),
                numa=(),
                **values,
                gpus=tuple(gpu(card, each.gpus.share) for card in gpus),
            )
        )
        indices[name] += 1
    return Placement.model_construct(allocations=tuple(found), unplaced=())
