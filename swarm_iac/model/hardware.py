"""What is a machine made of?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from decimal import Decimal
from operator import not_
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from swarm_iac.model.base import CPUS, Name, Value
from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.links import Groups, Links, within
from swarm_iac.model.gpus.mig import MODELS, PROFILES, Profile, part_of, profile_names, profiles_of
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, GpuCount, Iops, Watts

#: Memory of one card by model, where the stack file does not say otherwise (vendors' data sheets).
GPU_MEMORY: dict[str, Bytes] = {
    name: Bytes.parse(size)
    for name, size in {
        "P40": "24 GB", "P100": "16 GB", "V100": "32 GB", "T4": "16 GB", "A2": "16 GB", "A10": "24 GB", "A16": "16 GB",
        "A30": "24 GB", "A40": "48 GB", "A100": "80 GB", "A800": "80 GB", "A4000": "16 GB", "A4500": "20 GB", "A5000": "24 GB",
        "A6000": "48 GB", "L4": "24 GB", "L40": "48 GB", "L40S": "48 GB", "H20": "96 GB", "H100": "80 GB", "H800": "80 GB",
        "H200": "141 GB", "B200": "180 GB", "RTX3090": "24 GB", "RTX4080": "16 GB", "RTX4090": "24 GB", "RTX5080": "16 GB",
        "RTX5090": "32 GB",
    }.items()
}  # fmt: skip

#: At the end of a model's name, as in A100-40GB.
_SIZE = re.compile(r"-([0-9]{1,4})GB$")

#: The name of a GPU model, as in `8 x H100`.
Model = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}$")]

#: One of several models will do, as in `A100|H100`.
Models = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}(\|[A-Za-z0-9][A-Za-z0-9-]{0,31}){0,15}$")]

_GPUS = re.compile(
    r"\s*([0-9]{1,4}(?:\.[0-9]{1,12})?)\s*(?:x\s*([A-Za-z0-9][A-Za-z0-9-]{0,31}(?:\|[A-Za-z0-9][A-Za-z0-9-]{0,31})*)\s*"
    r"(?:/\s*([A-Za-z0-9.+]{1,16})\s*)?)?"
)


def memory_of(model: str) -> Bytes:
    """Memory of one card: as its name says at the end, else from GPU_MEMORY; 0 where nobody knows."""
    size = _SIZE.search(model)
    return Bytes(int(size[1]) * 10**9) if size else GPU_MEMORY.get(model, Bytes(0))


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
    """A number of GPUs, perhaps of one model, perhaps with a least memory each. One GPU may be held in part.

    With a `profile` it is a number of MIG instances instead.
    """

    count: int = Field(ge=0, le=1024, description="How many GPUs.")
    model: Models | None = Field(
        default=None, description="The model, as in `8 x H100`; any if omitted; `|` between several acceptable ones."
    )
    memory: Bytes | None = Field(default=None, description="Least memory of each GPU.")
    share: GpuCount = Field(
        default=GpuCount(WHOLE), description="Part of a single GPU, as in `0.25 x H100`; others may hold the rest of it."
    )
    profile: str = Field(
        default="", max_length=16, exclude_if=not_, description="MIG profile, as in `2 x H100/1g.10gb`: instances, not GPUs."
    )

    @model_validator(mode="after")
    def _only_one_is_shared(self) -> Gpus:
        if not 0 < self.share <= WHOLE:
            raise ValueError(f"a share of {self.share} is no part of one GPU; write 0.001 to 1")
        if self.share < WHOLE and self.count != 1:
            raise ValueError("only a single GPU can be held in part")
        return self

    @model_validator(mode="after")
    def _instances_are_of_a_card(self) -> Gpus:
        if not self.profile:
            return self
        if self.share < WHOLE:
            raise ValueError("a MIG instance is held as a whole; leave `share` out")
        if self.model is None:
            raise ValueError(f"a MIG profile is one of a GPU model; write 1 x H100/{self.profile}")
        for model in self.model.split("|"):
            if model not in MODELS:
                raise ValueError(f"{model} has no MIG; models that have it: {', '.join(sorted(MODELS))}")
            if not part_of(model, self.profile):
                raise ValueError(f"{self.profile} is no MIG profile of {model}; it has {', '.join(profile_names(model))}")
        if len({part_of(model, self.profile) for model in self.model.split("|")}) > 1:
            raise ValueError(f"{self.profile} is another part of each of {self.model}; name one model")
        return self

    @property
    def part(self) -> int:
        """What each of them is of a GPU, in thousandths: less than all of it for a part or an instance."""
        return part_of(self.model or "", self.profile) if self.profile else int(self.share)

    @property
    def whole(self) -> bool:
        """Are they whole GPUs, of which nobody else has any part?"""
        return not self.profile and self.share == WHOLE

    @property
    def milli(self) -> int:
        """All of them, in thousandths of one."""
        return self.count * self.part

    def allows(self, model: str | None) -> bool:
        """May it be a GPU of this model?"""
        return self.model is None or model in self.model.split("|")

    def __str__(self) -> str:
        count = self.count if self.profile else GpuCount(self.milli)
        model = f"{self.model}/{self.profile}" if self.profile else self.model
        text = f"{count} x {model}" if model else str(count)
        return f"{text} of {self.memory}" if self.memory else text


def numa_part(total: int, numa: int, part: int) -> range:
    """What NUMA node `part` has of `total` GPUs, CPUs or bytes: [part·total/numa, (part+1)·total/numa)."""
    return range(part * total // numa, (part + 1) * total // numa)


def read_gpus(value: Any) -> Any:
    """`2`, `0.5`, `"8 x H100"`, `"0.25 x H100"` or a mapping to what Gpus takes."""
    if isinstance(value, bool):
        raise ValueError("expected GPUs such as 2, '8 x H100' or '0.25 x H100'")
    if isinstance(value, int):
        return {"count": value}
    if isinstance(value, (float, str)):
        match = _GPUS.fullmatch(str(value))
        if not match:
            raise ValueError(f"{str(value)[:40]!r} is no number of GPUs; write 2, '8 x H100' or '0.25 x H100'")
        named = {key: text for key, text in (("model", match[2]), ("profile", match[3])) if text}
        return _counted(match[1]) | named
    return {"count": 1, **value} if isinstance(value, dict) and "share" in value else value


def _counted(number: str) -> dict[str, Any]:
    """Whole GPUs, or a part of one. Raises ValueError for what is neither."""
    count = Decimal(number)
    if not count and "." in number:
        raise ValueError(f"{number} of a GPU is nothing; write 0 for none, or a part from 0.001 on")
    if count == int(count):
        return {"count": int(count)}
    if count > 1:
        raise ValueError(f"{number} is neither whole GPUs nor a part of one; write {int(count)} or {int(count) + 1}")
    if count * WHOLE != int(count * WHOLE):
        raise ValueError(f"{number} of a GPU is finer than thousandths; write at most three decimals")
    return {"count": 1, "share": f"{int(count * WHOLE)}m"}


_KEYS = {
    "count": {"type": "integer", "description": "How many GPUs."},
    "model": {"type": "string", "description": "The model, as in `8 x H100`."},
    "memory": {"type": "string", "description": "Least memory of each GPU."},
}
_SHARE = {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "A part of one GPU, in place of `count`."}
_PROFILE = {"type": "string", "description": "MIG profile, as in `2 x H100/1g.10gb`: so many instances, not GPUs."}


def _written(number: str, example: str, keys: dict[str, Any], *needed: str) -> WithJsonSchema:
    """How GPUs are written: a number, text, or a table."""
    profile = r"(\s*/\s*[A-Za-z0-9.]+)?" if "profile" in keys else ""
    pattern = rf"^\s*{number}\s*(x\s*[A-Za-z0-9|-]+{profile})?\s*$"
    table = {
        "type": "object",
        "additionalProperties": False,
        "properties": keys,
        "anyOf": [{"required": [one]} for one in needed],
    }
    plain = {"type": "number" if "share" in keys else "integer", "minimum": 0}
    return WithJsonSchema({"anyOf": [plain, {"type": "string", "pattern": pattern, "examples": ["8 x H100", example]}, table]})


def _all_of_them(gpus: Gpus) -> Gpus:
    """Parts are what replicas have of it."""
    if not gpus.whole:
        hint = "; write `mig: true` beside it where its GPUs may be cut" if gpus.profile else ""
        raise ValueError(f"a machine has whole GPUs, and {gpus} is none{hint}")
    return gpus


#: What a replica asks for, and what a machine has.
GpusField = Annotated[
    Gpus,
    BeforeValidator(read_gpus),
    _written(r"[0-9]+(\.[0-9]{1,3})?", "0.25 x H100", {**_KEYS, "share": _SHARE, "profile": _PROFILE}, "count", "share"),
]
WholeGpus = Annotated[
    Gpus, BeforeValidator(read_gpus), AfterValidator(_all_of_them), _written("[0-9]+", "4 x L40S", _KEYS, "count")
]


def _no_more_than_there_are(value: Cpus) -> Cpus:
    """Each is counted and may be pinned by its number."""
    if value > 1000 * CPUS:
        raise ValueError(f"{value} hardware threads are more than any machine has; at most {CPUS:,}")
    return value


class Hardware(Value):
    """A named machine shape. Declared, so that a plan needs no fleet."""

    gpus: WholeGpus = Field(default=Gpus(count=0), description="GPUs of the machine, as in `8 x H100`.")
    mig: bool = Field(
        default=False, exclude_if=not_, description="Its GPUs may be cut into MIG instances, for workloads that ask for such."
    )
    vcpus: Annotated[Cpus, AfterValidator(_no_more_than_there_are)] = Field(description="Hardware threads.")
    memory: Bytes = Field(description="RAM that workloads may use.")
    hugepages: Bytes = Field(
        default=Bytes(0),
        exclude_if=not_,
        description="How much of the memory is kept in huge pages of 2 MiB, for workloads that ask for them.",
    )
    hugepages_1g: Bytes = Field(default=Bytes(0), exclude_if=not_, description="The same in huge pages of 1 GiB, rounded down.")
    nvme: Bytes = Field(default=Bytes(0), description="Local scratch storage.")
    nic: BitsPerSecond = Field(default=BitsPerSecond(0), description="Bandwidth of the network card, in each direction.")
    numa: int = Field(default=1, ge=1, le=16, description="NUMA nodes; GPUs, CPUs and memory are divided evenly among them.")
    links: Links = Field(
        default=Links(),
        exclude_if=lambda links: links == Links(),
        description="Which GPUs are joined by NVLink, or a PCIe switch.",
    )
    interface: str = Field(
        default="", pattern=r"^([a-z0-9.@_-]{1,15})?$", description="Network interface to shape; the fleet's own, not ssh's."
    )
    disk: str = Field(
        default="",
        pattern=r"^(/dev/[A-Za-z0-9/_.:-]+)?$",
        description="Disk for scratch and caches; formatted only if blank. Empty: none is managed.",
    )
    disk_read: BytesPerSecond = Field(
        default=BytesPerSecond(0),
        exclude_if=not_,
        description="What that disk can read; `each.io` is guaranteed from it. Left out: nothing is.",
    )
    disk_write: BytesPerSecond = Field(default=BytesPerSecond(0), exclude_if=not_, description="What it can write.")
    disk_iops: Iops = Field(
        default=Iops(0), exclude_if=not_, description="Operations per second that it can do, of reads and of writes."
    )

    power: Watts | None = Field(
        default=None,
        exclude_if=lambda power: power is None,
        description="Power budget of the machine: what the power limits of its GPUs may add up to.",
    )

    @model_validator(mode="after")
    def _cards_can_be_cut(self) -> Hardware:
        if self.mig and not self.profiles:
            size = f" of {self.gpu_memory}" if self.gpus.model in MODELS else ""
            has = f"{self.gpus.model}{size} has no MIG" if self.gpus.model and self.gpus.count else "no GPU model is given"
            raise ValueError(f"{has}; models that have it: {', '.join(f'{one} {gb} GB' for one, gb in PROFILES)}")
        return self

    @model_validator(mode="after")
    def _huge_pages_are_of_its_memory(self) -> Hardware:
        pages = Bytes(int(self.hugepages) + int(self.hugepages_1g))
        if pages and pages >= self.memory:
            raise ValueError(f"{pages} of huge pages leave nothing of its {self.memory} of memory")
        return self

    @model_validator(mode="after")
    def _links_join_its_gpus(self) -> Hardware:
        if self.links != Links() and self.gpus.count < 2:
            raise ValueError("`links` join GPUs, and it has fewer than two; leave them out")
        if self.links.highest >= self.gpus.count:
            raise ValueError(f"links name GPU {self.links.highest}, and it has GPUs 0 to {self.gpus.count - 1}")
        return self

    @property
    def nvlink(self) -> Groups:
        """Groups of GPUs in which each two are joined by NVLink."""
        return self.links.of(self.links.nvlink, self.gpus.count)

    @property
    def pcie(self) -> Groups:
        """Groups of GPUs behind one PCIe switch."""
        return self.links.of(self.links.pcie, self.gpus.count)

    def linked(self, gpus: tuple[int, ...]) -> bool:
        """Is each two of these GPUs joined by NVLink?"""
        return within(self.nvlink, gpus)

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """The MIG profiles that its GPUs may be cut into; none where they may not be cut."""
        return profiles_of(self.gpus.model or "", int(self.gpu_memory)) if self.mig and self.gpus.count else {}

    @property
    def gpu_memory(self) -> Bytes:
        """Memory of each GPU: declared, else that of its model; 0 where nobody knows."""
        return self.gpus.memory or memory_of(self.gpus.model or "")

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


class Site(Value):
    """A place with nodes, and what joins it to others."""

    links: dict[Name, BitsPerSecond] = Field(
        default={},
        description="Bandwidth of the link to each other site, in each direction, as in `{paris: 100 Gbit/s}`; at one end.",
    )


class Rack(Value):
    """What the nodes of one rack share."""

    power: Watts | None = Field(default=None, description="Power budget of the rack.")
    uplink: BitsPerSecond | None = Field(
        default=None, description="Bandwidth of the rack to the rest of the fleet, in each direction."
    )
