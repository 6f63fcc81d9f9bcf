"""What is a machine made of?"""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from swarm_iac.model.base import CPUS, Value
from swarm_iac.units import BitsPerSecond, Bytes, Cpus, Watts

#: Memory of one card by model, where the stack file does not say otherwise (vendors' data sheets).
GPU_MEMORY: dict[str, Bytes] = {
    name: Bytes.parse(size)
    for name, size in {
        "V100": "32 GB", "T4": "16 GB", "P100": "16 GB", "A10": "24 GB", "A30": "24 GB", "A40": "48 GB",
        "A100": "80 GB", "L4": "24 GB", "L40": "48 GB", "L40S": "48 GB", "H100": "80 GB", "H200": "141 GB",
        "B200": "180 GB", "RTX4090": "24 GB", "RTX5090": "32 GB",
    }.items()
}  # fmt: skip

#: The name of a GPU model, as in `8 x H100`.
Model = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}$")]

#: One of several models will do, as in `A100|H100`.
Models = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}(\|[A-Za-z0-9][A-Za-z0-9-]{0,31}){0,15}$")]

_GPUS = re.compile(r"\s*([0-9]{1,4})\s*(?:x\s*([A-Za-z0-9][A-Za-z0-9-]{0,31}(?:\|[A-Za-z0-9][A-Za-z0-9-]{0,31})*)\s*)?")


def gpu_model(product: str) -> str:
    """The model as stack files name it, from the name that the driver gives: 'NVIDIA H100 80GB HBM3' is H100.

    The longest known model among the words counts; an unknown card keeps its words, joined by '-'.
    """
    words = [word for word in re.split(r"[^A-Za-z0-9]+", product) if word]
    joined = words + [first + second for first, second in itertools.pairwise(words)]
    known = [word for word in joined if word in GPU_MEMORY]
    rest = [word for word in words if word not in ("NVIDIA", "GeForce", "Tesla")]
    return max(known, key=len) if known else "-".join(rest or words)[:32]


class Gpus(Value):
    """A number of GPUs, perhaps of one model, perhaps with a least memory each. One GPU may be held in part."""

    count: int = Field(ge=0, le=1024, description="How many GPUs.")
    model: Models | None = Field(
        default=None, description="The model, as in `8 x H100`; any if omitted; `|` between several acceptable ones."
    )
    memory: Bytes | None = Field(default=None, description="Least memory of each GPU.")
    share: int = Field(default=1000, ge=1, le=1000, description="Thousandths of a single GPU; others may hold the rest of it.")

    @model_validator(mode="after")
    def _only_one_is_shared(self) -> Gpus:
        if self.share < 1000 and self.count != 1:
            raise ValueError("only a single GPU can be held in part")
        return self

    def allows(self, model: str | None) -> bool:
        """May it be a GPU of this model?"""
        return self.model is None or model in self.model.split("|")

    def __str__(self) -> str:
        text = f"{self.count} x {self.model}" if self.model else str(self.count)
        return f"{text} of {self.memory}" if self.memory else text


def numa_part(total: int, numa: int, part: int) -> range:
    """What NUMA node `part` has of `total` GPUs, CPUs or bytes: [part·total/numa, (part+1)·total/numa)."""
    return range(part * total // numa, (part + 1) * total // numa)


def read_gpus(value: Any) -> Any:
    """`2`, `"8 x H100"` or a mapping to what Gpus takes."""
    if isinstance(value, bool):
        raise ValueError("expected GPUs such as 2 or '8 x H100'")
    if isinstance(value, int):
        return {"count": value}
    if isinstance(value, str):
        match = _GPUS.fullmatch(value)
        if not match:
            raise ValueError(f"{value[:40]!r} is no number of GPUs; write 2 or '8 x H100'")
        return {"count": int(match[1]), "model": match[2]}
    return value


GpusField = Annotated[
    Gpus,
    BeforeValidator(read_gpus),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*[0-9]+\s*(x\s*[A-Za-z0-9|-]+)?\s*$", "examples": ["8 x H100"]},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["count"],
                    "properties": {"count": {"type": "integer"}, "model": {"type": "string"}, "memory": {"type": "string"}},
                },
            ]
        }
    ),
]


def _no_more_than_there_are(value: Cpus) -> Cpus:
    """Each is counted and may be pinned by its number."""
    if value > 1000 * CPUS:
        raise ValueError(f"{value} hardware threads are more than any machine has; at most {CPUS:,}")
    return value


class Hardware(Value):
    """A named machine shape. Declared, so that a plan needs no fleet."""

    gpus: GpusField = Field(default=Gpus(count=0), description="GPUs of the machine, as in `8 x H100`.")
    vcpus: Annotated[Cpus, AfterValidator(_no_more_than_there_are)] = Field(description="Hardware threads.")
    memory: Bytes = Field(description="RAM that workloads may use.")
    nvme: Bytes = Field(default=Bytes(0), description="Local scratch storage.")
    nic: BitsPerSecond = Field(default=BitsPerSecond(0), description="Bandwidth of the network card, in each direction.")
    numa: int = Field(default=1, ge=1, le=16, description="NUMA nodes; GPUs, CPUs and memory are divided evenly among them.")
    interface: str = Field(
        default="", pattern=r"^([a-z0-9.@_-]{1,15})?$", description="Network interface to shape; the fleet's own, not ssh's."
    )
    disk: str = Field(
        default="",
        pattern=r"^(/dev/[A-Za-z0-9/_.:-]+)?$",
        description="Disk for scratch and caches; formatted only if blank. Empty: none is managed.",
    )

    @property
    def gpu_memory(self) -> Bytes:
        """Memory of each GPU: declared, else from GPU_MEMORY, else 0."""
        return self.gpus.memory or GPU_MEMORY.get(self.gpus.model or "", Bytes(0))

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """GPUs, whole cores and bytes of memory of each NUMA node."""
        totals = (self.gpus.count, int(self.vcpus) // 1000, int(self.memory))
        found = [tuple(len(numa_part(total, self.numa, j)) for total in totals) for j in range(self.numa)]
        return tuple((gpus, cores, memory) for gpus, cores, memory in found)

    def split(self, gpus: tuple[int, ...], cpus: tuple[int, ...]) -> tuple[int, ...]:
        """The NUMA nodes that these GPUs and CPUs lie on, where they are more than one; else none."""
        cores = int(self.vcpus) // 1000
        parts = [(numa_part(self.gpus.count, self.numa, j), numa_part(cores, self.numa, j)) for j in range(self.numa)]
        found = tuple(j for j, (own, pins) in enumerate(parts) if any(i in own for i in gpus) or any(i in pins for i in cpus))
        return found if len(found) > 1 else ()

    def apart(self, gpus: tuple[int, ...], cpus: tuple[int, ...]) -> tuple[int, ...]:
        """The same where one NUMA node is large enough for so many; empty for what no NUMA node could hold."""
        large = len(gpus) * self.numa > self.gpus.count or len(cpus) * self.numa > int(self.vcpus) // 1000
        return () if large else self.split(gpus, cpus)


class Rack(Value):
    """What the nodes of one rack share."""

    power: Watts | None = Field(default=None, description="Power budget of the rack.")
    uplink: BitsPerSecond | None = Field(
        default=None, description="Bandwidth of the rack to the rest of the fleet, in each direction."
    )
