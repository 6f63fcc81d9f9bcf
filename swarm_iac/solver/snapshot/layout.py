"""Where in the solver's tuples does each resource stand, and which rule bounds it there? Worked out once, from the table.

NODE     need of a WorkloadRequest, capacity of a node, free of FreeCapacity: what machines have, what `limits.node` allows,
         then the power budget of the node, of which a request needs differently much on each: power_of of a node
COUNTED  usage of a WorkloadRequest, scopes of FreeCapacity: what `limits` count; each direction counts alone
RACK     of_rack of a node, racks of FreeCapacity: what goes through the uplink, then power
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from swarm_iac.model.resources.row import Noun, Resource
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.stack import DEPTH
from swarm_iac.units import Watts

Level = Literal["machine", "rack", "node", "supply", "user", "team", "cluster"]


@dataclass(frozen=True, slots=True)
class Budget:
    """One figure that is not exceeded, and the rule that says so."""

    rule: str  # `user_stays_under_limits gpus`: its name among rules
    shown_as: str  # `user_stays_under_limits`: its name in a reason
    level: Level
    place: int  # in the tuples of the level
    noun: Noun
    #: What it counts; None: power.
    row: Resource | None
    #: Its key: under `racks.NAME`, or under `limits` of the level; empty for machines.
    key: str = ""
    #: Of teams: how many scopes are further inside. 1: the innermost team that has limits, 2: the next one around it.
    depth: int = 0
    #: Does it count the GPUs of each model by themselves? Then it speaks about single nodes, as their model does.
    by_model: bool = False


#: What machines have, and what `limits` count.
MACHINE: tuple[Resource, ...] = tuple(row for row in RESOURCES if row.capacity)
COUNTED: tuple[Resource, ...] = tuple(row for row in RESOURCES if row.limit)
#: Where in COUNTED the replica itself is counted, and nothing that it asks for.
ITSELF: frozenset[int] = frozenset(i for i, row in enumerate(COUNTED) if row.itself)
#: The key of each of COUNTED under `limits`.
KEYS: tuple[str, ...] = tuple(row.limit.key for row in COUNTED if row.limit)


def _limits(level: Literal["node", "user", "team", "cluster"], rule: str, first: int = 0, depth: int = 0) -> tuple[Budget, ...]:
    rows, around = enumerate(zip(COUNTED, KEYS, strict=True), first), f" {depth}" if depth > 1 else ""
    return tuple(Budget(f"{rule} {row.name}{around}", rule, level, i, row, row, key, depth) for i, (row, key) in rows)


_RULES = tuple(row.capacity.rule for row in MACHINE if row.capacity)
_UPLINKS = tuple((row, row.uplink.rule) for row in RESOURCES if row.uplink)
NODE: tuple[Budget, ...] = (
    *(Budget(_RULES[i], _RULES[i], "machine", i, row.of_machines, row) for i, row in enumerate(MACHINE)),
    *_limits("node", "node_stays_under_limits", len(MACHINE)),
    Budget(
        "power_stays_under_node_budget", "power_stays_under_node_budget", "supply", len(MACHINE) + len(COUNTED),
        Noun(Watts, "power"), None, "power",
    ),
)  # fmt: skip
#: Where in NODE the power budget of the node is.
SUPPLY = len(NODE) - 1
USER: tuple[Budget, ...] = _limits("user", "user_stays_under_limits")
#: A team and those around it, of which each bounds what it holds.
TEAMS: tuple[tuple[Budget, ...], ...] = tuple(
    _limits("team", "team_stays_under_limits", depth=depth) for depth in range(1, DEPTH + 1)
)
CLUSTER: tuple[Budget, ...] = _limits("cluster", "cluster_stays_under_limits")
TEAM: tuple[Budget, ...] = tuple(one for depth in TEAMS for one in depth)
#: Where in COUNTED the GPUs are.
ALL_GPUS = next(i for i, row in enumerate(COUNTED) if row.name == "gpus")


def _on_models(level: Literal["user", "team", "cluster"], depth: int = 0) -> Budget:
    row, around = COUNTED[ALL_GPUS], f" {depth}" if depth > 1 else ""
    rule = f"{level}_stays_under_limits"
    return Budget(f"{rule} gpus_by_model{around}", rule, level, ALL_GPUS, row, row, "gpus_by_model", depth, by_model=True)


#: What bounds the GPUs of each model: of a user, of a team and of those around it, of the cluster.
USER_MODELS = _on_models("user")
TEAM_MODELS: tuple[Budget, ...] = tuple(_on_models("team", depth) for depth in range(1, DEPTH + 1))
CLUSTER_MODELS = _on_models("cluster")
MODELS: tuple[Budget, ...] = (USER_MODELS, *TEAM_MODELS, CLUSTER_MODELS)
#: What all replicas of somebody share, wherever they are.
CEILINGS: tuple[Budget, ...] = (*USER, *TEAM, *CLUSTER)
#: Where in RACK the power is: after what goes through the uplink.
POWER = len(_UPLINKS)
RACK: tuple[Budget, ...] = (
    *(Budget(rule, rule, "rack", i, row, row, "uplink") for i, (row, rule) in enumerate(_UPLINKS)),
    Budget(
        "power_stays_under_rack_budget", "power_stays_under_rack_budget", "rack", POWER, Noun(Watts, "power"), None, "power"
    ),
)
#: All of them by rule.
BUDGETS: dict[str, Budget] = {one.rule: one for one in (*NODE, *USER, *TEAM, *CLUSTER, *MODELS, *RACK)}

_PLACES = {row.name: i for i, row in enumerate(MACHINE)}
#: Where in NODE those stand that have rules beside their sum (cards, NUMA nodes), or decide who comes first.
GPUS, VCPUS, CORES, MEMORY = (_PLACES[name] for name in ("gpus", "vcpus", "cores", "memory"))
#: Where in NODE the rows of RACK stand that go through the uplink.
UPLINK: tuple[int, ...] = tuple(_PLACES[row.name] for row, _ in _UPLINKS)
#: Files, which outlive their job: where in NODE, and where in COUNTED.
FILES_ON_NODE: tuple[int, ...] = tuple(one.place for one in NODE if one.row and one.row.files)
FILES: tuple[int, ...] = tuple(i for i, row in enumerate(COUNTED) if row.files)


@functools.cache
def of_chain(length: int) -> tuple[tuple[Budget, ...], ...]:
    """What bounds each scope of a chain so long: a user, the teams around it, the cluster."""
    return (USER, *TEAMS[: length - 2], CLUSTER)


@functools.cache
def models_of_chain(length: int) -> tuple[Budget, ...]:
    """What bounds the GPUs of each model in each scope of a chain so long."""
    return (USER_MODELS, *TEAM_MODELS[: length - 2], CLUSTER_MODELS)


@functools.cache
def beyond_chain(length: int, *, models: bool = True) -> frozenset[str]:
    """The rules about teams that a chain so long has not; without `models`, those about GPU models as well."""
    beyond = [budget.rule for depth in TEAMS[length - 2 :] for budget in depth]
    return frozenset((*beyond, *(one.rule for one in (TEAM_MODELS[length - 2 :] if models else MODELS))))
