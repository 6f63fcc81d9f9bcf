"""Does everyone stay under the ceilings of users, teams, nodes and the cluster, and how much of them is used?"""

from __future__ import annotations

import datetime
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field

from swarm_iac.limits import gpu_models
from swarm_iac.limits.index import GPUS, PlacementIndex, Violation, amounts, summed, totals
from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.row import LimitKey
from swarm_iac.model.resources.table import LIMITS
from swarm_iac.model.stack import Ceiling, NodeCeiling, Stack

#: The key of limits on single GPU models.
BY_MODEL = "gpus_by_model"


class Usage(Value):
    """How much of one ceiling is used. Both figures are in base units: 1/1000 GPU or vCPU, bytes, bit/s."""

    level: str = Field(description="user | team | node | cluster")
    subject: str = Field(description="Name of the user, the team, the node or the fleet.")
    resource: str = Field(description=" | ".join((*LIMITS, f"{BY_MODEL}.MODEL")))
    used: int
    ceiling: int | None = Field(default=None, description="None: no ceiling.")

    @property
    def noun(self) -> LimitKey:
        """How its amounts read."""
        return LIMITS["gpus" if self.resource.startswith(f"{BY_MODEL}.") else self.resource]

    @property
    def used_text(self) -> str:
        """What is used, with its unit."""
        return self.noun.text(self.used)

    @property
    def ceiling_text(self) -> str:
        """The ceiling with its unit; empty when there is none."""
        return "" if self.ceiling is None else self.noun.text(self.ceiling)


def users_stay_under_limit(placed: PlacementIndex) -> Iterator[Violation]:
    """For every user u and resource r:  Σ_{a of u} r_a ≤ max(limit_u,r, Σ_{a of u} min(r_a, r_held,a)); new ones held 0

    A limit that is lowered, or whose exception has expired, blocks growth and evicts nobody.
    """
    for user, ones in placed.by_user.items():
        ceiling = placed.stack.limits.of_user(user, placed.today)
        yield from _grown(placed, ones, _over("users_stay_under_limit", "user", user, ones, ceiling))


def teams_stay_under_limit(placed: PlacementIndex) -> Iterator[Violation]:
    """For every team t and resource r, over the allocations of the users of t and of all teams inside it:

    Σ_a r_a ≤ max(limit_t,r, Σ_a min(r_a, r_held,a)); new ones held 0

    It is counted where its user is now: who comes from another team, or whose team has another parent, evicts nobody.
    """
    found = by_team(placed.stack, placed.by_user) if placed.stack.limits_teams else {}
    for team, ones in found.items():
        ceiling, own = _of_team(placed.stack, team, placed.today), placed.stack.teams[team].limits.given()
        yield from _grown(placed, ones, _over("teams_stay_under_limit", "team", team, ones, ceiling, own))


def by_team(stack: Stack, by_user: Mapping[str, list[Allocation]]) -> dict[str, list[Allocation]]:
    """What the users of each team, and of all teams inside it, hold."""
    found: dict[str, list[Allocation]] = {}
    for name, team in stack.teams.items():
        ones = [one for user in team.users for one in by_user.get(user, ())]
        around: str | None = name
        seen = set[str]()
        while around in stack.teams and around not in seen:
            seen.add(around)
            found.setdefault(around, []).extend(ones)
            around = stack.teams[around].parent
    return found


def _of_team(stack: Stack, team: str, today: datetime.date | None) -> Ceiling:
    return stack.limits.of_team(team, stack.teams[team], today)


def nodes_stay_under_limit(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n and resource r:  Σ_{a∈n} r_a ≤ limit_node,r, or every a∈n with r_a > 0 has ended"""
    for node, ones in placed.by_node.items():
        for violation, resource in _over("nodes_stay_under_limit", "node", node, ones, placed.stack.limits.node):
            if totals(one for one in ones if not one.ended)[resource]:
                yield violation


def cluster_stays_under_limit(placed: PlacementIndex) -> Iterator[Violation]:
    """For every resource r:  Σ_a r_a ≤ max(limit_cluster,r, Σ_a min(r_a, r_held,a)); new ones held 0"""
    ceiling = placed.stack.limits.cluster
    over = _over("cluster_stays_under_limit", "cluster", placed.stack.fleet, placed.known, ceiling)
    yield from _grown(placed, placed.known, over)


def gpus_stay_under_limit_of_model(placed: PlacementIndex) -> Iterator[Violation]:
    """For every user, team or cluster s and GPU model m that it has a limit on, n_a the node of a:

    Σ_{a of s, m(n_a) = m} gpus_a ≤ max(limit_s,m, Σ_w min(Σ_{a of w, m(n_a) = m} gpus_a, Σ_{a of w} gpus_held,a,m))

    gpus_held,a,m: the GPUs of a that it held already where it ran, if that was on m; of a new one 0.
    """
    for level, subject, ones, ceiling, own in _everybody(placed) if placed.stack.limits_models else ():
        used = gpu_models.held_of(placed.stack, ones) if ceiling.gpus_by_model else {}
        for model, most in ceiling.gpus_by_model.items():
            limit, now, noun = int(most), used.get(model, 0), LIMITS["gpus"]
            if now > max(limit, gpu_models.before(placed, ones, GPUS, model) if now > limit else 0):
                who = "the cluster carries" if level == "cluster" else f"{level} {subject} holds"
                text = f"{who} {noun.amount(now)} on {model}; the limit is {noun.text(limit)} ({noun.text(now - limit)} over)"
                path = f"teams.{subject}.limits" if model in own else f"limits.{level}"
                yield Violation(
                    rule="gpus_stay_under_limit_of_model", text=text, subject=subject, path=f"{path}.{BY_MODEL}.{model}"
                )


def _everybody(placed: PlacementIndex) -> Iterator[tuple[str, str, list[Allocation], Ceiling, Container[str]]]:
    """All who may have limits on GPU models: level, name, what they hold, the ceiling, and the models that a team sets."""
    stack = placed.stack
    for user, ones in placed.by_user.items():
        yield "user", user, ones, stack.limits.of_user(user, placed.today), ()
    for team, ones in by_team(stack, placed.by_user).items() if stack.limits_teams else ():
        yield "team", team, ones, _of_team(stack, team, placed.today), stack.teams[team].limits.gpus_by_model
    yield "cluster", stack.fleet, placed.known, stack.limits.cluster, ()


def _grown(placed: PlacementIndex, ones: list[Allocation], over: Iterator[tuple[Violation, str]]) -> Iterator[Violation]:
    """Those of the violations to which something was added."""
    for violation, resource in over:
        # What has ended adds nothing: its files were there.
        old = [(amounts(one), placed.held[one.name]) for one in ones if one.name in placed.held and not one.ended]
        old += [(amounts(one), amounts(one)) for one in ones if one.ended]
        before = summed(tuple(map(min, now, was)) for now, was in old)
        if totals(ones)[resource] > before[resource]:
            yield violation


def above(stack: Stack, placement: Placement, today: datetime.date | None = None) -> frozenset[str]:
    """Names of the allocations of users and teams that hold more than they may; of all where the cluster holds more."""
    placed = PlacementIndex(stack, placement, today, frozenset())
    levels = [("user", ones, stack.limits.of_user(user, today)) for user, ones in placed.by_user.items()]
    held = by_team(stack, placed.by_user) if stack.limits_teams else {}
    levels += [("team", ones, _of_team(stack, team, today)) for team, ones in held.items()]
    levels.append(("cluster", placed.known, stack.limits.cluster))
    over = (
        ones for level, ones, ceiling in levels if any(_over("", level, "", ones, ceiling)) or _over_model(stack, ones, ceiling)
    )
    return frozenset(one.name for ones in over for one in ones)


def _over_model(stack: Stack, ones: list[Allocation], ceiling: Ceiling) -> bool:
    """Do these hold more of a GPU model than they may?"""
    used = gpu_models.held_of(stack, ones) if ceiling.gpus_by_model else {}
    return any(used.get(model, 0) > int(most) for model, most in ceiling.gpus_by_model.items())


def usage(
    stack: Stack,
    placement: Placement,
    today: datetime.date | None = None,
    *,
    teams: bool = False,
    models: Iterable[str] = (),
    limited: bool = False,
) -> tuple[Usage, ...]:
    """What is used of every ceiling, by level, then name, then resource. Users and nodes without allocations count too.

    Teams are among them where any has limits; with `teams`, in any case. GPU models are where any limit names them; `models`
    in any case. `limited`: only what has a limit.
    """
    placed = PlacementIndex(stack, placement, today, frozenset())
    holders = _Holders(placed.by_user, placed.by_node, placed.known)
    return _usage(stack, holders, sorted(stack.users()), sorted(stack.nodes), today, teams, models, limited)


def usage_before_and_after(
    stack: Stack, before: Placement, after: Placement, today: datetime.date | None = None, *, limited: bool = False
) -> list[tuple[Usage, Usage]]:
    """The same of two placements, with the limits of today, so the two compare; also of users and nodes that are gone.

    Before is what each held then, under its own user and on its own node, whatever became of its workload, its owner or its
    node since. Teams are those of today: a lock names none. So are GPU models: of a node that is gone nobody knows its own.
    """
    placed = PlacementIndex(stack, after, today, frozenset())
    was, now = _recorded(stack, before), _Holders(placed.by_user, placed.by_node, placed.known)
    users, nodes = sorted({*stack.users(), *was.by_user}), sorted({*stack.nodes, *was.by_node})
    both = (_usage(stack, one, users, nodes, today, False, (), limited) for one in (was, now))
    return list(zip(*both, strict=True))


@dataclass(frozen=True)
class _Holders:
    """Who holds what: by user, by node, and all of it."""

    by_user: Mapping[str, list[Allocation]]
    by_node: Mapping[str, list[Allocation]]
    every: list[Allocation]


def _recorded(stack: Stack, placement: Placement) -> _Holders:
    """As a lock records it. Where it does not say whose something is, it is who has its workload now."""
    by_user: dict[str, list[Allocation]] = {}
    by_node: dict[str, list[Allocation]] = {}
    # Of what has ended only files are left, and they went with its node.
    every = [one for one in placement.allocations if one.node in stack.nodes or not one.ended]
    for one in every:
        by_node.setdefault(one.node, []).append(one)
        asked = stack.workloads.get(one.workload)
        user = one.user or (asked.user if asked else None)
        if user is not None:
            by_user.setdefault(user, []).append(one)
    return _Holders(by_user, by_node, every)


def _usage(
    stack: Stack,
    held: _Holders,
    users: Iterable[str],
    nodes: Iterable[str],
    today: datetime.date | None,
    teams: bool,
    models: Iterable[str],
    limited: bool,
) -> tuple[Usage, ...]:
    rows: list[Usage] = []
    every = sorted({*gpu_models.limited_models(stack), *models})

    def add(level: str, subject: str, ones: list[Allocation], ceiling: Ceiling) -> None:
        rows.extend(_rows(level, subject, ones, ceiling, limited=limited))
        used = gpu_models.held_of(stack, ones) if every else {}
        for model in every:
            most = ceiling.gpus_by_model.get(model)
            limit = None if most is None else int(most)
            if limited and limit is None:
                continue
            rows.append(
                Usage(level=level, subject=subject, resource=f"{BY_MODEL}.{model}", used=used.get(model, 0), ceiling=limit)
            )

    for user in users:
        add("user", user, held.by_user.get(user, []), stack.limits.of_user(user, today))
    of_teams = by_team(stack, held.by_user) if teams or stack.limits_teams else {}
    for team in sorted(of_teams):
        add("team", team, of_teams[team], _of_team(stack, team, today))
    for node in nodes:
        rows += _rows("node", node, held.by_node.get(node, []), stack.limits.node, limited=limited)
    add("cluster", stack.fleet, held.every, stack.limits.cluster)
    return tuple(rows)


def _rows(level: str, subject: str, ones: list[Allocation], ceiling: NodeCeiling, *, limited: bool) -> Iterator[Usage]:
    most = {resource: ceiling.limit(resource) for resource in LIMITS}
    shown = [resource for resource in LIMITS if most[resource] is not None] if limited else [*LIMITS]
    used = totals(ones) if shown else {}
    for resource in shown:
        yield Usage(level=level, subject=subject, resource=resource, used=used[resource], ceiling=most[resource])


def _over(
    rule: str, level: str, subject: str, ones: list[Allocation], ceiling: NodeCeiling, own: Container[str] = ()
) -> Iterator[tuple[Violation, str]]:
    """Each limit that is exceeded. `own`: the keys that a team sets for itself."""
    used = totals(ones)
    for resource, it in LIMITS.items():
        limit = ceiling.limit(resource)
        if limit is not None and used[resource] > limit:
            over = used[resource] - limit
            who = {
                "user": f"user {subject} holds",
                "team": f"team {subject} holds",
                "node": f"node {subject} carries",
                "cluster": "the cluster carries",
            }[level]
            text = f"{who} {it.amount(used[resource])}; the limit is {it.text(limit)} ({it.text(over)} over)"
            path = f"teams.{subject}.limits" if resource in own else f"limits.{level}"
            yield Violation(rule=rule, text=text, subject=subject, path=f"{path}.{resource}"), resource
