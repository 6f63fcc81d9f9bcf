"""Where may replicas be placed? The keys of `place`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema

from swarm_iac.model.base import Name, Value
from swarm_iac.model.place.groups import (
    APART,
    AWAY_FROM,
    BALANCE,
    PER_NODE,
    PER_RACK,
    PER_SITE,
    SPREAD,
    WITHIN,
    Balance,
    Group,
    GroupRule,
    Level,
    OrLevel,
    read_balance,
    read_named,
    together,
)
from swarm_iac.model.place.taints import ANY, Taint, Tolerated


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value


class _OrList:
    """Lets the schema take the list for nodes alone, too."""

    def __get_pydantic_json_schema__(self, source: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(source), {"type": "array", "items": TypeAdapter(Name).json_schema()}]}


class Where(Value):
    """Where replicas may be placed."""

    select: dict[Name, str] = Field(default={}, description="Labels a node must carry; `site` and `rack` count as labels.")
    tolerate: dict[Name, Tolerated] = Field(
        default={},
        description='Taints of nodes that it may be on nonetheless, as in `{dedicated: research}`; `"*"`: any value.',
    )
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
    balance: Annotated[Balance | None, BeforeValidator(read_balance), OrLevel(), BALANCE] = Field(
        default=None,
        description="No rack (or site) has more than one replica more than another one where a replica may be: `rack`, or "
        "`{over: rack, skew: 2}` for two more. What runs stays.",
    )
    prefer: dict[Name, str] = Field(
        default={},
        description="Labels that a node would better carry; `site` and `rack` count as labels. A preference: nothing is "
        "pending, moved or stopped for it, unlike `select`.",
    )
    near: Literal["rack", "site"] | None = Field(
        default=None,
        description="New replicas come to as few racks (or sites) as possible. A preference: nothing is pending, moved or "
        "stopped for it, unlike `within`.",
    )
    prefer_apart: Level | None = Field(
        default=None,
        description="New replicas come to nodes (or racks or sites) without another workload that says the same. A preference: "
        "nothing is pending, moved or stopped for it, unlike `apart`.",
    )
    prefer_with: Annotated[dict[Level, tuple[Name, ...]], BeforeValidator(read_named), _OrList()] = Field(
        default={},
        description="New replicas come to nodes with a replica of these workloads: `[cache]`, or `{rack: [cache]}`. "
        "A preference: nothing is pending, moved or stopped for it.",
    )
    apart: Annotated[Level | None, APART] = Field(
        default=None,
        description="No other workload with `apart` on the same node (or in the same rack or site): for trainings that would "
        "share an uplink.",
    )
    away_from: Annotated[dict[Level, tuple[Name, ...]], BeforeValidator(read_named), _OrList(), AWAY_FROM] = Field(
        default={},
        description="Not on a node with a replica of these workloads, nor they with one of it: `[chat]`, or `{rack: [chat]}`.",
    )
    only_with: Annotated[dict[Level, tuple[Name, ...]], BeforeValidator(read_named), _OrList()] = Field(
        default={},
        description="Only on nodes with a replica of each of these workloads, else it is pending: `[cache]`, or "
        "`{rack: [cache]}`. What already runs elsewhere stays.",
    )
    numa: Literal["single"] | None = Field(
        default=None,
        description="single: each replica has its GPUs, pinned cores and memory on one NUMA node (`single-numa-node` of the "
        "Kubernetes Topology Manager), else it is pending. What already runs on several stays.",
    )
    links: Literal["required"] | None = Field(
        default=None,
        description="required: each two GPUs of a replica are joined by NVLink, as `links` of the `hardware` says, else it is "
        "pending. What already runs on others stays. If omitted, linked GPUs are preferred.",
    )

    def __hash__(self) -> int:
        return hash(tuple(map(_hashable, self.__dict__.values())))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The rules on groups of nodes that it has, but for those that name other workloads."""
        return tuple(Group(rule, value) for rule in GROUP_RULES if not rule.named and (value := getattr(self, rule.key)))

    @property
    def named(self) -> frozenset[str]:
        """The other workloads that it names."""
        every = (self.away_from, self.prefer_with, self.only_with)
        return frozenset(name for kinds in every for names in kinds.values() for name in names)

    @property
    def together(self) -> Level | None:
        """Have all replicas to be in one group of nodes, and in one of which kind?"""
        return together(self.groups)

    @property
    def even(self) -> Group | None:
        """Has no group of nodes many more replicas than another one, and what are groups?"""
        return Group(BALANCE, self.balance) if self.balance else None

    @property
    def each_node(self) -> tuple[Hashable, ...]:
        """All that it demands of a node whatever runs there: equal for workloads that suit the same nodes."""
        return tuple(_hashable(getattr(self, key)) for key in _EACH_NODE)

    def tolerates(self, taints: Mapping[str, Taint], teams: tuple[str, ...]) -> bool:
        """May replicas of a user in these teams come to a node with these taints?"""
        return all(self.tolerate.get(key) in (taint.value, ANY) and taint.admits(teams) for key, taint in taints.items())

    @property
    def labels(self) -> Iterable[tuple[str, str]]:
        """The labels that it looks at, and the value of each that it looks for."""
        return {*self.select.items(), *self.prefer.items()}

    def lacks(self, labels: Mapping[str, str]) -> int:
        """How many of the labels that it prefers a node with these labels has not."""
        return sum(labels.get(label) != value for label, value in self.prefer.items())

    def suits(self, labels: Mapping[str, str]) -> bool:
        """May replicas be on a node with these labels, whatever runs there?"""
        return all(labels.get(label) == value for label, value in self.select.items())


#: Keys that are no rules but goals; the first is about single nodes.
PREFERENCES = ("prefer", "near", "prefer_apart", "prefer_with")
#: Of each key of `place` that has one, in their order.
GROUP_RULES: tuple[GroupRule, ...] = tuple(
    replace(one, key=key) for key, field in Where.model_fields.items() for one in field.metadata if isinstance(one, GroupRule)
)
_EACH_NODE = tuple(
    key for key in Where.model_fields if key not in {"numa", "links", *PREFERENCES[1:], *(rule.key for rule in GROUP_RULES)}
)
