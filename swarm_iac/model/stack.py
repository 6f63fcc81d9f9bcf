"""What did someone ask for? A stack: fleet, teams, limits, nodes and workloads."""

from __future__ import annotations

import datetime
from functools import lru_cache
from operator import not_
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, model_validator

from swarm_iac.model.base import Account, Moment, Name, Network, Value, with_former
from swarm_iac.model.gpus.past_use import PastUse
from swarm_iac.model.gpus.worth import Worth
from swarm_iac.model.hardware import Hardware, Model, Rack, Site
from swarm_iac.model.place.groups import Level
from swarm_iac.model.place.taints import TaintField
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources import table as resource
from swarm_iac.model.service.power_saving import PowerSaving
from swarm_iac.model.settings import Tuning
from swarm_iac.model.workload import Workload
from swarm_iac.price import Price
from swarm_iac.units import Bytes, GpuCount

NodeState = Literal["ready", "cordon", "drain", "lost"]
#: So many teams may be one inside the other.
DEPTH = 8


if TYPE_CHECKING:

    class _Limits(Value):
        """A field for each key of `resource.LIMITS`."""

else:
    _Limits = create_model("_Limits", __base__=Value, __module__=__name__, **resource.limits())


class NodeCeiling(_Limits):
    """Limits on the resources that are counted; what is omitted has none."""

    def limit(self, key: str) -> int | None:
        """What stands under a key, in base units; None: no limit."""
        value: int | None = getattr(self, key)
        return None if value is None else int(value)

    def given(self) -> dict[str, int]:
        """The limits that there are, by their keys; those of single GPU models are not among them."""
        return {key: value for key in resource.LIMITS if (value := getattr(self, key)) is not None}


class Ceiling(NodeCeiling):
    """Limits on the resources that are counted, and on GPUs of single models; what is omitted has none."""

    gpus_by_model: dict[Model, GpuCount] = Field(
        default={},
        exclude_if=not_,
        description="GPUs of single models, beside `gpus`: `{H100: 8, A100: 16}`. A model that is omitted has no limit.",
    )


def _unlimited(value: object) -> bool:
    """Has it no limit? Then nothing is written of it, and digests from before the key hold."""
    return value == Ceiling()


class Guarantee(Value):
    """What a team has whatever its share is."""

    gpus: GpuCount = Field(default=GpuCount(0), description="GPUs; a part of one counts as much as it is.")


def _nothing(value: object) -> bool:
    return value == Guarantee()


class Team(Value):
    """People who share a weight and limits. A team may be inside another one, whose limits hold for both together."""

    share: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        exclude_if=resource.missing,
        description="Weight of the team beside the others when GPUs are short. 1 if only others say theirs; "
        "if nobody does, GPUs are not shared by teams.",
    )
    guarantee: Guarantee = Field(
        default=Guarantee(),
        exclude_if=_nothing,
        description="Up to so much, what the team has running is not stopped for another team, whatever its priority, "
        "nor for work of its own that holds fewer GPUs; and it comes before shares.",
    )
    users: tuple[Account, ...] = Field(default=(), description="Unix accounts of the team's members.")
    parent: Name | None = Field(
        default=None,
        exclude_if=resource.missing,
        description="The team that it is inside of; what it holds counts there as well.",
    )
    limits: Ceiling = Field(
        default=Ceiling(),
        exclude_if=_unlimited,
        description="Limits of the team with all teams inside it, in place of those of `limits.team`.",
    )


class LimitException(Ceiling):
    """Other limits for one user or one team until a day. Their expiry blocks growth and never evicts."""

    user: Account | None = Field(default=None, exclude_if=resource.missing, description="The user whose limits are replaced.")
    team: Name | None = Field(
        default=None, exclude_if=resource.missing, description="The team whose limits are replaced; in place of `user`."
    )
    until: datetime.date = Field(description="Last day on which it applies.")
    reason: str = Field(max_length=200, description="Why, for the next reader.")

    _former = model_validator(mode="before")(with_former("reason"))


class Limits(Value):
    """Ceilings at four levels; all hold at once."""

    user: Ceiling = Field(default=Ceiling(), description="Limits of each user over the whole fleet.")
    node: NodeCeiling = Field(default=NodeCeiling(), description="Limits of what is placed on each node.")
    cluster: Ceiling = Field(default=Ceiling(), description="Limits of the whole fleet.")
    team: Ceiling = Field(default=Ceiling(), exclude_if=_unlimited, description="Limits of each team with the teams inside it.")
    exceptions: tuple[LimitException, ...] = Field(
        default=(), alias="except", description="Other limits for single users or teams, each with its last day."
    )

    def of_user(self, user: str, today: datetime.date | None = None) -> Ceiling:
        """The ceiling of `user` on a day: exceptions that still hold replace it value by value, the largest first.

        Without a day, expired exceptions count as well.
        """
        return self._excepted(self.user, [one for one in self.exceptions if one.user == user], today)

    def of_team(self, name: str, team: Team, today: datetime.date | None = None) -> Ceiling:
        """The ceiling of a team on a day: its own values in place of those of each team, and exceptions as for users."""
        models = {**self.team.gpus_by_model, **team.limits.gpus_by_model}
        base = self.team.model_copy(update={**team.limits.given(), "gpus_by_model": models})
        return self._excepted(base, [one for one in self.exceptions if one.team == name], today)

    @staticmethod
    def _excepted(base: Ceiling, exceptions: list[LimitException], today: datetime.date | None) -> Ceiling:
        held = [one for one in exceptions if today is None or today <= one.until]
        if not held:
            return base
        values: dict[str, Any] = {name: getattr(base, name) for name in Ceiling.model_fields}
        for name in resource.LIMITS:
            given = [getattr(one, name) for one in held if getattr(one, name) is not None]
            values[name] = max(given) if given else values[name]
        models: dict[str, GpuCount] = {}
        for model, most in (pair for one in held for pair in one.gpus_by_model.items()):
            models[model] = max(most, models.get(model, most))
        values["gpus_by_model"] = {**base.gpus_by_model, **models}
        return Ceiling.model_construct(**values)


class Node(Value):
    """One machine."""

    name: Name = Field(description="Name of the node.")
    hardware: Name = Field(description="Name of its shape under `hardware`.")
    rack: Name | None = Field(default=None, description="Name of its rack under `racks`.")
    site: Name | None = Field(default=None, description="Where the node is.")
    tuning: Name | None = Field(default=None, description="Name of its settings under `tuning`.")
    power_saving: Name | None = Field(
        default=None,
        exclude_if=resource.missing,
        description="Name under `power_saving` of when it may be powered off; omitted: never.",
    )
    ssh: str = Field(
        pattern=r"^(local|([a-z_][a-z0-9_-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?)$",
        description="How it is reached: user@host[:port], or `local` for this machine. `{name}` is the node's name.",
    )
    labels: dict[Name, str] = Field(default={}, description="Labels that `place.select` can ask for.")
    taints: dict[Name, TaintField] = Field(default={}, description="Keep new work off it that does not tolerate them.")
    state: NodeState = Field(
        default="ready", description="ready | cordon (no new work) | drain (all work leaves) | lost (given up)."
    )
    drain_by: Moment | None = Field(
        default=None,
        description="With `state: drain`: until this time no new work, and jobs may finish; then all work leaves.",
    )
    reason: str = Field(default="", max_length=200, description="Why it is in this state.")

    _former = model_validator(mode="before")(with_former("reason"))

    @property
    def labelled(self) -> dict[str, str]:
        """All that `place.select` can ask for: its labels, and its site and rack under these names."""
        own = {"site": self.site, "rack": self.rack}
        return self.labels | {key: value for key, value in own.items() if value is not None}


class Solve(Value):
    """Budgets of one change."""

    moves: int = Field(default=4, ge=0, description="Running allocations that one change may move.")
    stops: int = Field(default=8, ge=0, description="Running allocations that one change may stop.")
    reclaim: bool = Field(
        default=False,
        exclude_if=not_,
        description="What a team runs beyond its share may be stopped for a team that has less than its own; see above.",
    )
    share_by: Literal["gpus", "dominant_resource"] = Field(
        default="gpus",
        exclude_if=lambda value: value == "gpus",
        description="What counts where teams share: GPUs, or of each replica what it takes the largest part of; see above.",
    )
    max_unavailable: int = Field(
        default=10, ge=1, description="Nodes whose settings change at a time, after the first one succeeded."
    )
    effort: Literal["quick", "normal", "thorough"] = Field(
        default="normal", description="Deterministic effort of the solver, in units of work instead of seconds."
    )


class Telemetry(Value):
    """What measures each node: an exporter for Prometheus, which `swarm top` reads as well."""

    port: int = Field(default=9418, ge=1024, le=65535, description="TCP port of the exporter.")
    scrapers: tuple[Network, ...] = Field(
        default=(),
        max_length=32,
        description="Addresses or networks that may read what is measured, names of teams and users included: "
        "`[10.0.0.5, 10.1.0.0/16]`. None: the node itself alone.",
    )


@lru_cache(maxsize=256)
def _beside(shape: Hardware, pages: Bytes) -> Hardware:
    """The kernel takes huge pages from the memory, evenly from all NUMA nodes, and no cgroup gets them."""
    return Hardware.model_construct(**{**dict(shape), "memory": Bytes(max(0, int(shape.memory) - int(pages)))})


class Stack(Value):
    """A whole stack file, with defaults filled in and node ranges expanded."""

    fleet: Name
    teams: dict[Name, Team] = {}
    limits: Limits = Limits()
    tuning: dict[Name, Tuning] = {}
    hardware: dict[Name, Hardware] = {}
    racks: dict[Name, Rack] = {}
    sites: dict[Name, Site] = Field(default={}, exclude_if=not_)
    power_saving: dict[Name, PowerSaving] = Field(default={}, exclude_if=not_)
    prices: dict[Model, Price] = {}
    worth: dict[Model, Worth] = Field(default={}, exclude_if=not_)
    past_use: PastUse | None = Field(default=None, exclude_if=resource.missing)
    nodes: dict[Name, Node] = {}
    workloads: dict[Name, Workload] = {}
    solve: Solve = Solve()
    telemetry: Telemetry | None = Field(default=None, exclude_if=resource.missing)

    @model_validator(mode="after")
    def _names_agree(self) -> Stack:
        for name, node in self.nodes.items():
            if node.name != name:
                raise ValueError(f"node {name} is named {node.name}")
        return self

    def hardware_of(self, node: str) -> Hardware:
        """The shape of `node`, with the memory that its huge pages leave. Raises KeyError for an unknown one."""
        one = self.nodes[node]
        own, shape = self.tuning[one.tuning] if one.tuning else Tuning(), self.hardware[one.hardware]
        pages = [size for size in (own.hugepages, own.hugepages_1g, shape.hugepages, shape.hugepages_1g) if size]
        return _beside(shape, Bytes(sum(map(int, pages)))) if pages else shape

    def group_of(self, node: str, level: Level) -> tuple[str, ...]:
        """The group of nodes of a kind that a node is in. Without a rack it is one alone, and so is a rack without a site."""
        one = self.nodes[node]
        if level == "node" or (one.rack is None and (level == "rack" or one.site is None)):
            return ("node", node)
        return ("site", one.site) if level == "site" and one.site else ("rack", one.rack or "")

    def tuning_of(self, node: str) -> Tuning:
        """The settings of `node`; empty when it names none."""
        name = self.nodes[node].tuning
        return self.tuning[name] if name else Tuning()

    def runs_as(self, allocation: Allocation) -> str:
        """Name of the allocation on its node: that of the workload it was renamed from, where there is one."""
        workload = self.workloads[allocation.workload].renamed_from or allocation.workload
        return f"{workload}-{allocation.index}"

    def teams_of(self, user: str) -> tuple[str, ...]:
        """The team of a user and those that it is inside of, innermost first."""
        return next((self.line_of(name) for name, team in self.teams.items() if user in team.users), ())

    @property
    def site_links(self) -> dict[tuple[str, str], int]:
        """What the links between sites carry each way, by the site that says so and the other one. [bit/s]"""
        return {(one, other): int(rate) for one, site in self.sites.items() for other, rate in site.links.items()}

    def users(self) -> frozenset[str]:
        """All known users."""
        return frozenset(user for team in self.teams.values() for user in team.users)

    @property
    def limits_models(self) -> bool:
        """Has anybody limits on GPUs of single models?"""
        limits = self.limits
        every = (limits.user, limits.team, limits.cluster, *limits.exceptions, *(one.limits for one in self.teams.values()))
        return any(one.gpus_by_model for one in every)

    @property
    def limits_teams(self) -> bool:
        """Has any team limits?"""
        excepted = any(one.team for one in self.limits.exceptions)
        return excepted or not _unlimited(self.limits.team) or any(not _unlimited(one.limits) for one in self.teams.values())

    @property
    def fair(self) -> bool:
        """Are GPUs shared by teams? They are where any says its share or has a guarantee."""
        return any(one.share is not None or one.guarantee.gpus for one in self.teams.values())

    def line_of(self, team: str) -> tuple[str, ...]:
        """The team and those that it is inside of, innermost first. A cycle, which no file may have, ends where it closes."""
        line: dict[str, None] = {}
        name: str | None = team
        while name is not None and name in self.teams and name not in line:
            line[name] = None
            name = self.teams[name].parent
        return tuple(line)


__all__ = [
    "Ceiling", "Guarantee", "LimitException", "Limits", "Node", "NodeCeiling", "NodeState", "Solve", "Stack", "Team",
    "Telemetry", "Tuning",
]  # fmt: skip
