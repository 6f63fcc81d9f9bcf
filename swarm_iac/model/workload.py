"""What does a user want to run?"""

from __future__ import annotations

import re
from operator import not_
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import CoreSchema

from swarm_iac.model.base import Account, Name, Value, value_at, with_former, with_value
from swarm_iac.model.hardware import Gpus, GpusField, Model
from swarm_iac.model.place.where import Where
from swarm_iac.model.service.scaling import Scaling
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.settings import HUGE_PAGE
from swarm_iac.units import (
    BandwidthRange,
    Bytes,
    CpuRange,
    Factor,
    Hertz,
    IopsRange,
    MemoryRange,
    Range,
    Seconds,
    ThroughputRange,
    Watts,
)

Kind = Literal["train", "serve", "batch"]
OnBoot = Literal["start", "wait"]
OnUpdate = Literal["surge", "roll", "recreate"]
OnVariant = Literal["now", "spare", "restart"]
Priority = Literal["low", "normal", "high"]
PRIORITIES: dict[str, int] = {"low": 0, "normal": 1, "high": 2}


class Replicas(Value):
    """`2`, or `2..6`: the lower end is guaranteed, the upper one is a ceiling."""

    least: int = Field(default=1, ge=0, le=100_000)
    most: int = Field(default=1, ge=0, le=100_000)

    @model_validator(mode="after")
    def _ordered(self) -> Replicas:
        if self.least > self.most:
            raise ValueError(f"{self.least}..{self.most}: the lower end is above the upper one")
        return self


def read_replicas(value: Any) -> Any:
    """`3` or `"2..6"` to what Replicas takes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"least": value, "most": value}
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]{1,5})\s*(?:\.\.\s*([0-9]{1,5})\s*)?", value)
        if match:
            return {"least": int(match[1]), "most": int(match[2] or match[1])}
        raise ValueError(f"{value[:40]!r} is no number of replicas; write 2 or 2..6")
    if isinstance(value, (Replicas, dict)):
        return value
    raise ValueError("expected a number of replicas such as 2 or 2..6")


def _missing(value: object) -> bool:
    """Nothing is written of a key that is not there, so that what is on record without it stays as it is."""
    return value is None


#: A number of replicas, as a stack file has it.
ReplicasField = Annotated[
    Replicas,
    BeforeValidator(read_replicas),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[0-9]+(\.\.[0-9]+)?$"}]}),
]


class DiskIo(Value):
    """What one replica may do on the disk of its node."""

    read: ThroughputRange | None = Field(
        default=None,
        description="Bytes read per second. `100..500 MB/s` guarantees 100 where `hardware` says what its disk can do, "
        "and never allows more than 500.",
    )
    write: ThroughputRange | None = Field(default=None, description="Bytes written per second, in the same way.")
    iops: IopsRange | None = Field(
        default=None,
        exclude_if=_missing,
        description="Operations per second, in the same way: so many reads, and so many writes.",
    )


def _a_page(value: Bytes) -> Bytes:
    if 0 < value < HUGE_PAGE:
        raise ValueError("is less than one page; write 0, or at least 2 MiB")
    return value


class Each(Value):
    """What one replica holds."""

    gpus: GpusField = Field(
        default=Gpus(count=0),
        description="GPUs, a part of one GPU, or MIG instances; a part is time-shared and not isolated, see above.",
    )
    vcpus: CpuRange = Field(
        default=CpuRange(1000),
        description="vCPUs; thousandths allowed unless pinned. `2..8` guarantees 2, and allows 8 while others leave them idle.",
    )
    pinned: bool = Field(default=False, description="Cores of its own, shared with no other replica, near its GPUs.")
    memory: MemoryRange = Field(
        default=MemoryRange(10**9),
        description="RAM: memory.max of its slice. `64..128 GB` guarantees 64, and allows 128 of what its node has free.",
    )
    hugepages: Annotated[Bytes, AfterValidator(_a_page)] = Field(
        default=Bytes(0),
        exclude_if=not_,
        description="Huge pages of 2 MiB, beside `memory`: hugetlb.2MB.max of its slice. Taken from `hardware.hugepages`.",
    )
    hugepages_1g: Bytes = Field(
        default=Bytes(0), exclude_if=not_, description="Huge pages of 1 GiB, in the same way, rounded up to whole ones."
    )
    tasks: int = Field(default=4096, ge=1, le=4_194_304, description="Maximum number of processes and threads.")
    scratch: Bytes = Field(
        default=Bytes(0), description="Quota of its scratch directory, which is deleted when it leaves the node."
    )
    cache: Bytes = Field(default=Bytes(0), description="Quota of its cache directory, which is kept across restarts.")
    io: DiskIo = Field(default=DiskIo(), description="Throughput of the disk, guaranteed and at most.")
    licences: int = Field(default=0, ge=0, le=1_000_000, description="Licences that it holds of those in `limits`.")
    gpu_power: Watts | None = Field(default=None, description="Power limit of its GPUs, instead of the node's.")
    gpu_clock: Hertz | None = Field(default=None, description="Locked clock of its GPUs, instead of the node's.")


class Network(Value):
    """Bandwidth of one replica."""

    egress: BandwidthRange | None = Field(
        default=None,
        description="Bandwidth out, reserved and enforced. `1..10 Gbit/s` reserves 1, and allows 10 while others leave it idle",
    )
    ingress: BandwidthRange | None = Field(default=None, description="Bandwidth in, in the same way.")
    between: BandwidthRange | None = Field(
        default=None, description="Bandwidth between members of a gang, in each direction, in the same way."
    )


def _ranges(part: type[Value]) -> tuple[str, ...]:
    """The keys of a section that take a range."""
    kinds = {key: (field.annotation, *get_args(field.annotation)) for key, field in part.model_fields.items()}
    return tuple(key for key, each in kinds.items() if any(isinstance(one, type) and issubclass(one, Range) for one in each))


#: By section of a workload, the keys that take a range.
RANGES: dict[str, tuple[str, ...]] = {"each": _ranges(Each), "each.io": _ranges(DiskIo), "network": _ranges(Network)}


def _none_of_ansible(env: dict[str, str]) -> dict[str, str]:
    taken = [name for name in env if name.lower().startswith("__ansible")]
    if taken:
        raise ValueError(f"{taken[0][:40]} is no variable of a workload: names that begin with __ansible are Ansible's own")
    return env


#: Environment variables by name.
Env = Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str], AfterValidator(_none_of_ansible)]


class Run(Value):
    """What is started. A workload without it is a reservation."""

    command: str = Field(min_length=1, max_length=4000, description="Command line; split as a shell would, run without one.")
    env: Env = Field(default={}, description="Environment variables.")
    healthy: str = Field(
        default="", max_length=400, description="A path (`/ready`, requested on `port`) or a command that exits 0 when healthy."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Port that a service listens on.")
    confined: bool = Field(
        default=True,
        description="No namespaces, mounts or kernel settings, and no processes but its own. `false` is for containers "
        "without root (Apptainer, Podman, enroot) and 32-bit programs.",
    )


class Stop(Value):
    """How it is asked to stop."""

    signal: Literal["TERM", "INT", "QUIT", "HUP", "USR1", "USR2"] = Field(default="TERM", description="First signal.")
    grace: Seconds = Field(default=Seconds(30), description="Time before it is killed.")


#: More than any run takes; systemd passes over a limit that is too large for it.
LONGEST = Seconds.parse("3650 d")


class Time(Value):
    """How long one run may take, counted from its start, and again from each restart."""

    expected: Seconds | None = Field(default=None, description="Expected duration of one run; only informative.")
    limit: Seconds | None = Field(
        default=None,
        description="Maximum duration of one run. The stop signal comes `stop.grace` before, so that it can save.",
    )
    past: Literal["stop", "report"] = Field(
        default="stop",
        description="At the limit. stop: it is stopped, counts as failed, and is not started again; report: it continues, "
        "and is listed.",
    )

    @property
    def end(self) -> tuple[Seconds, bool] | None:
        """After how long a run is over, as far as anyone said, and whether it is ended then. None: nobody said."""
        if self.limit is not None and self.past == "stop":
            return self.limit, True
        known = self.expected if self.expected is not None else self.limit
        return None if known is None else (known, False)


def read_time(value: Any) -> Any:
    """`12 h` is the limit; else what Time takes."""
    return value if isinstance(value, (Time, dict)) else {"limit": value}


class _OrLimit:
    """Lets the schema take the limit alone, too."""

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(source), *TypeAdapter(Seconds).json_schema()["anyOf"]]}


def _worth(value: Factor) -> Factor:
    if not 0 < value <= 1_000_000:
        raise ValueError("a variant is worth more than 0 and at most 1000; write it like 0.95")
    return value


class RunPart(Value):
    """What a variant starts in another way; variables are added to those of the workload."""

    command: str | None = Field(default=None, min_length=1, max_length=4000, description="Command line, in place of the other.")
    env: Env = Field(default={}, description="Environment variables, beside the others or in place of those of the same name.")
    healthy: str | None = Field(default=None, max_length=400, description="A path or a command, in place of the other.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port, in place of the other.")


class Variant(Value):
    """Another form of a workload. What it leaves out is as the workload says; a key that it has replaces that one alone."""

    worth: Annotated[Factor, AfterValidator(_worth)] = Field(
        default=Factor(1000), description="What it is worth beside the other variants; no more than those before it."
    )
    replicas: ReplicasField | None = Field(default=None, description="How many, in place of the workload's.")
    gang: int | None = Field(default=None, ge=1, le=100_000, description="Members, in place of the workload's.")
    each: Each = Field(default=Each(), description="What one replica holds; keys that are given.")
    network: Network = Field(default=Network(), description="Bandwidth of one replica; keys that are given.")
    run: RunPart = Field(default=RunPart(), description="What is started; keys that are given.")


class Workload(Value):
    """What a user wants to run: so many replicas of this shape."""

    user: Account = Field(description="Unix account it runs as; a member of a team.")
    kind: Kind = Field(default="batch", description="train | serve | batch: how it may be stopped and moved.")
    replicas: ReplicasField = Field(
        default=Replicas(), description="How many: 2, or a range 2..6 whose lower end is guaranteed."
    )
    scale: Scaling | None = Field(
        default=None,
        exclude_if=_missing,
        description="What the number of replicas above the lower end of its range follows; see `swarm autopilot`.",
    )
    needs: Rate | None = Field(
        default=None,
        exclude_if=_missing,
        description="How much work all replicas together have to do, such as 100 kTok/s; instead of replicas. See above.",
    )
    speed: dict[Model, Rate] = Field(
        default={},
        exclude_if=not_,
        description="How much one replica does on each GPU model, in the unit of `needs`: `{H100: 25 kTok/s}`.",
    )
    gang: int | None = Field(
        default=None, ge=1, le=100_000, description="Members that run all together or not at all; instead of replicas."
    )
    priority: Priority = Field(default="normal", description="Who goes first if not everything fits.")
    each: Each = Field(default=Each(), description="What one replica holds.")
    network: Network = Field(default=Network(), description="Bandwidth of one replica.")
    place: Where = Field(default=Where(), description="Where replicas may be placed.")
    run: Run | None = Field(default=None, description="What is started; without it the resources are reserved.")
    stop: Stop = Field(default=Stop(), description="How it is asked to stop.")
    time: Annotated[Time, BeforeValidator(read_time), _OrLimit()] = Field(
        default=Time(), description="How long one run of a job may take: `12 h` is its limit."
    )
    on_update: OnUpdate = Field(
        default="surge",
        description="How a service changes. surge: never fewer healthy replicas than before or wanted, with an extra one while "
        "others restart; roll: one replica at a time may be down; recreate: all stop, then all start.",
    )
    on_grow: Literal["keep", "stop"] = Field(
        default="keep",
        description="What happens while there is no capacity for a new size. keep: it continues in its old size until there "
        "is; stop: it stops and waits.",
    )
    restart: Literal["never", "on-failure"] | None = Field(
        default=None, description="What follows a failure. Default: a service starts again, a job has failed."
    )
    on_boot: OnBoot | None = Field(
        default=None,
        description="After a reboot. start: by itself; wait: until the next `swarm up`, as it may run elsewhere by then. "
        "Default: services and reservations start, jobs and gangs wait.",
    )
    movable: bool = Field(
        default=True,
        description="false: while it runs, no change and no rebalance moves its replicas for others; see above.",
    )
    hold: bool = Field(
        default=False, description="A finished job keeps its GPUs, memory and bandwidth; it always keeps its files."
    )
    variants: dict[Name, Variant] = Field(
        default={},
        exclude_if=not_,
        description="Forms of it in order of preference, such as bf16 and int8; a lighter one runs where that places more.",
    )
    lighter_for: Priority | None = Field(
        default=None,
        exclude_if=_missing,
        description="The lowest priority that a lighter variant is taken for. Default: its own.",
    )
    on_variant: OnVariant | None = Field(
        default=None,
        exclude_if=_missing,
        description="How a running one changes its variant. now: it restarts for that, as for an update; spare: it returns to "
        "a preferred one where one replica more has capacity meanwhile; restart: only when it starts anyway. Default: "
        "now for a service with `on_update: roll`, spare with surge, else restart.",
    )
    renamed_from: Name | None = Field(
        default=None,
        description="Its former name: what runs under that name continues. Keep the key as long as it runs.",
    )

    _former = model_validator(mode="before")(with_former("renamed_from"))

    @property
    def scales(self) -> bool:
        """May replicas above the guaranteed ones come and go with the load?"""
        return self.scale is not None and self.gang is None and self.replicas.most > self.replicas.least

    @property
    def changes_variant(self) -> OnVariant:
        """May it restart for another variant? What loses its work by a restart does not, unless it says so."""
        smooth = self.kind == "serve" and self.gang is None and self.movable
        by_update: dict[OnUpdate, OnVariant] = {"surge": "spare", "roll": "now", "recreate": "restart"}
        return self.on_variant or (by_update[self.on_update] if smooth else "restart")

    @property
    def boots(self) -> OnBoot:
        """What a reboot does to its replicas: only what may run twice for a while is started by the node alone."""
        safe = self.run is None or (self.kind == "serve" and self.gang is None)
        return self.on_boot or ("start" if safe else "wait")

    @property
    def guaranteed(self) -> Workload:
        """The same without the ceilings of its ranges: what a placement is decided from."""
        found = self
        for section, keys in RANGES.items():
            part = value_at(self, section)
            for key in keys:
                value = getattr(part, key)
                if value is not None and value.open:
                    found = with_value(found, f"{section}.{key}", type(value)(int(value)))
        return found

    @property
    def members(self) -> int:
        """Replicas that are guaranteed: the gang's size, or the lower end of the range."""
        return self.gang if self.gang is not None else self.replicas.least
