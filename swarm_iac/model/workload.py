"""What does a user want to run?"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, TypeAdapter, WithJsonSchema, field_validator, model_validator
from pydantic_core import CoreSchema

from swarm_iac.model.base import Account, Name, Value, with_former
from swarm_iac.model.hardware import Gpus, GpusField
from swarm_iac.units import BitsPerSecond, Bytes, BytesPerSecond, Cpus, Hertz, Seconds, Watts

Kind = Literal["train", "serve", "batch"]
OnBoot = Literal["start", "wait"]
OnUpdate = Literal["surge", "roll", "recreate"]
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


class DiskIo(Value):
    """Limits on the scratch disk."""

    read: BytesPerSecond | None = Field(default=None, description="Maximum bytes read per second.")
    write: BytesPerSecond | None = Field(default=None, description="Maximum bytes written per second.")


class Each(Value):
    """What one replica holds."""

    gpus: GpusField = Field(
        default=Gpus(count=0),
        description="GPUs, or a part of one GPU; a part is time-shared and not isolated, see above.",
    )
    vcpus: Cpus = Field(default=Cpus(1000), description="vCPUs; thousandths allowed unless pinned.")
    pinned: bool = Field(default=False, description="Cores of its own, shared with no other replica, near its GPUs.")
    memory: Bytes = Field(default=Bytes(10**9), description="RAM: memory.max of its slice.")
    tasks: int = Field(default=4096, ge=1, le=4_194_304, description="Maximum number of processes and threads.")
    scratch: Bytes = Field(
        default=Bytes(0), description="Quota of its scratch directory, which is deleted when it leaves the node."
    )
    cache: Bytes = Field(default=Bytes(0), description="Quota of its cache directory, which is kept across restarts.")
    io: DiskIo = Field(default=DiskIo(), description="Limits on the scratch disk.")
    licences: int = Field(default=0, ge=0, le=1_000_000, description="Licences that it holds of those in `limits`.")
    gpu_power: Watts | None = Field(default=None, description="Power limit of its GPUs, instead of the node's.")
    gpu_clock: Hertz | None = Field(default=None, description="Locked clock of its GPUs, instead of the node's.")


class Network(Value):
    """Bandwidth of one replica."""

    egress: BitsPerSecond | None = Field(default=None, description="Bandwidth out, reserved and enforced.")
    ingress: BitsPerSecond | None = Field(default=None, description="Bandwidth in, reserved and enforced.")
    between: BitsPerSecond | None = Field(default=None, description="Bandwidth between members of a gang, in each direction.")


#: Kinds of groups of nodes, the smallest first: each is in one of the next.
Level = Literal["node", "rack", "site"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupRule:
    """What a key of `place` demands of groups of nodes: each node alone, each rack or each site, as the key's value says.

    Of a key whose value is a number, that is `each`, and `level` says what a group is. The solver derives all that it does
    from this; `limits` has a rule of its own for each, of the name `judged`.
    """

    rule: str  # its name in reasons
    judged: str
    each: int | None = None  # most replicas of the workload in one group
    together: bool = False  # all replicas in one group
    others: bool = False  # no replica of another workload that has the key; of two values the larger group counts
    text: str  # of a reason; {level} is the kind of group, {each} the most in one
    leaves: str  # which nodes it leaves, as in "of those …"
    bars: tuple[str, str]  # what it says of the others: a verb, and the rest
    level: Level = "node"
    key: str = ""  # in `place`; taken from there


@dataclass(frozen=True, slots=True)
class Group:
    """A rule on groups of nodes, as a workload has it."""

    of: GroupRule
    value: Level | int

    @property
    def level(self) -> Level:
        """What a group is."""
        return self.of.level if isinstance(self.value, int) else self.value

    @property
    def each(self) -> int | None:
        """The most replicas in one group."""
        return self.value if isinstance(self.value, int) else self.of.each

    def left(self, held: dict[str, int], group: str) -> int | None:
        """How many more replicas may go to a group, beside so many in each; None: any number."""
        if self.of.together and held.keys() - {group}:
            return 0
        return None if self.each is None else max(0, self.each - held.get(group, 0))

    def format(self, words: str) -> str:
        """Words of the rule, about this."""
        return words.format(level=self.level, each=self.each)

    def __str__(self) -> str:
        return f"`{self.of.key}: {self.value}`"


SPREAD = GroupRule(
    rule="spread_keeps_apart",
    judged="replicas_are_spread",
    each=1,
    text="no two replicas on one {level}: no other {level} has capacity",
    leaves="without a replica of it",
    bars=("hold", "a replica already"),
)
WITHIN = GroupRule(
    rule="within_keeps_together",
    judged="replicas_stay_within",
    together=True,
    text="all in one {level}: no {level} fits all",
    leaves="with its others",
    bars=("are", "outside its {level}"),
)
PER_NODE = GroupRule(
    rule="per_node_holds",
    judged="replicas_stay_under_per_node",
    text="at most {each} on one node: no other node has capacity",
    leaves="with fewer of its replicas",
    bars=("hold", "{each} of its replicas already"),
)
PER_RACK = GroupRule(
    rule="per_rack_holds",
    judged="replicas_stay_under_per_rack",
    text="at most {each} in one rack: no other rack has capacity",
    leaves="with fewer of its replicas",
    bars=("have", "{each} of its replicas in the rack already"),
    level="rack",
)
PER_SITE = GroupRule(
    rule="per_site_holds",
    judged="replicas_stay_under_per_site",
    text="at most {each} in one site: no other site has capacity",
    leaves="with fewer of its replicas",
    bars=("have", "{each} of its replicas in the site already"),
    level="site",
)
APART = GroupRule(
    rule="apart_keeps_away",
    judged="workloads_stay_apart",
    others=True,
    text="no other workload with `apart` near it: each node with capacity is too near to one",
    leaves="without another workload with `apart`",
    bars=("are", "too near to another workload with `apart`"),
)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value


class Where(Value):
    """Where replicas may be placed."""

    select: dict[Name, str] = Field(default={}, description="Labels a node must carry; `site` and `rack` count as labels.")
    spread: Annotated[Level | None, SPREAD] = Field(
        default=None, description="No two replicas on the same node (or in the same rack or site)."
    )
    within: Annotated[Level | None, WITHIN] = Field(
        default=None, description="All replicas on one node (or in one rack or site)."
    )
    per_node: Annotated[int | None, PER_NODE] = Field(
        default=None, ge=1, le=100_000, description="At most so many replicas on one node (`--ntasks-per-node` of Slurm)."
    )
    per_rack: Annotated[int | None, PER_RACK] = Field(
        default=None, ge=1, le=100_000, description="At most so many replicas in one rack."
    )
    per_site: Annotated[int | None, PER_SITE] = Field(
        default=None, ge=1, le=100_000, description="At most so many replicas in one site."
    )
    apart: Annotated[Level | None, APART] = Field(
        default=None,
        description="No other workload with `apart` on the same node (or in the same rack or site): for trainings that would "
        "share an uplink.",
    )
    numa: Literal["single"] | None = Field(
        default=None,
        description="single: each replica has its GPUs, pinned cores and memory on one NUMA node (`single-numa-node` of the "
        "Kubernetes Topology Manager), else it is pending. What already runs on several stays.",
    )

    def __hash__(self) -> int:
        return hash(tuple(map(_hashable, self.__dict__.values())))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The rules on groups of nodes that it has."""
        return tuple(Group(rule, value) for rule in GROUP_RULES if (value := getattr(self, rule.key)))

    @property
    def together(self) -> Level | None:
        """Have all replicas to be in one group of nodes, and in one of which kind?"""
        return together(self.groups)

    @property
    def each_node(self) -> tuple[Hashable, ...]:
        """All that it demands of a node whatever runs there: equal for workloads that suit the same nodes."""
        return tuple(_hashable(getattr(self, key)) for key in _EACH_NODE)

    @property
    def labels(self) -> Iterable[str]:
        """The labels that it looks at."""
        return self.select

    def suits(self, labels: Mapping[str, str]) -> bool:
        """May replicas be on a node with these labels, whatever runs there?"""
        return all(labels.get(label) == value for label, value in self.select.items())


def together(groups: Iterable[Group]) -> Level | None:
    """Have all replicas to be in one group of nodes, by these rules, and in one of which kind?"""
    return min((group.level for group in groups if group.of.together), key=LEVELS.index, default=None)


#: Of each key of `place` that has one, in their order.
GROUP_RULES: tuple[GroupRule, ...] = tuple(
    replace(one, key=key) for key, field in Where.model_fields.items() for one in field.metadata if isinstance(one, GroupRule)
)
_EACH_NODE = tuple(key for key in Where.model_fields if key not in {"numa", *(rule.key for rule in GROUP_RULES)})


class Run(Value):
    """What is started. A workload without it is a reservation."""

    command: str = Field(min_length=1, max_length=4000, description="Command line; split as a shell would, run without one.")
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        default={}, description="Environment variables."
    )
    healthy: str = Field(
        default="", max_length=400, description="A path (`/ready`, requested on `port`) or a command that exits 0 when healthy."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Port that a service listens on.")
    confined: bool = Field(
        default=True,
        description="No namespaces, mounts or kernel settings, and no processes but its own. `false` is for containers "
        "without root (Apptainer, Podman, enroot) and 32-bit programs.",
    )

    @field_validator("env")
    @classmethod
    def _none_of_ansible(cls, env: dict[str, str]) -> dict[str, str]:
        taken = [name for name in env if name.lower().startswith("__ansible")]
        if taken:
            raise ValueError(f"{taken[0][:40]} is no variable of a workload: names that begin with __ansible are Ansible's own")
        return env


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


class Workload(Value):
    """What a user wants to run: so many replicas of this shape."""

    user: Account = Field(description="Unix account it runs as; a member of a team.")
    kind: Kind = Field(default="batch", description="train | serve | batch: how it may be stopped and moved.")
    replicas: Annotated[
        Replicas,
        BeforeValidator(read_replicas),
        WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[0-9]+(\.\.[0-9]+)?$"}]}),
    ] = Field(default=Replicas(), description="How many: 2, or a range 2..6 whose lower end is guaranteed.")
    gang: int | None = Field(
        default=None, ge=1, le=100_000, description="Members that run all together or not at all; instead of replicas."
    )
    priority: Literal["low", "normal", "high"] = Field(default="normal", description="Who goes first if not everything fits.")
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
    hold: bool = Field(
        default=False, description="A finished job keeps its GPUs, memory and bandwidth; it always keeps its files."
    )
    renamed_from: Name | None = Field(
        default=None,
        description="Its former name: what runs under that name continues. Keep the key as long as it runs.",
    )

    _former = model_validator(mode="before")(with_former("renamed_from"))

    @property
    def boots(self) -> OnBoot:
        """What a reboot does to its replicas: only what may run twice for a while is started by the node alone."""
        safe = self.run is None or (self.kind == "serve" and self.gang is None)
        return self.on_boot or ("start" if safe else "wait")

    @property
    def members(self) -> int:
        """Replicas that are guaranteed: the gang's size, or the lower end of the range."""
        return self.gang if self.gang is not None else self.replicas.least
