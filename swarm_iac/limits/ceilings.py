"""Does everyone stay under the ceilings of users, nodes and the cluster, and how much of them is used?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from pydantic import Field

from swarm_iac.limits.index import PlacementIndex, Violation, amounts, summed, totals
from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resource import LIMITS
from swarm_iac.model.stack import Ceiling, Stack


class Usage(Value):
    """How much of one ceiling is used. Both figures are in base units: 1/1000 GPU or vCPU, bytes, bit/s."""

    level: str = Field(description="user | node | cluster")
    subject: str = Field(description="Name of the user, the node or the fleet.")
    resource: str = Field(description=" | ".join(LIMITS))
    used: int
    ceiling: int | None = Field(default=None, description="None: no ceiling.")

    @property
    def used_text(self) -> str:
        """What is used, with its unit."""
        return LIMITS[self.resource].text(self.used)

    @property
    def ceiling_text(self) -> str:
        """The ceiling with its unit; empty when there is none."""
        return "" if self.ceiling is None else LIMITS[self.resource].text(self.ceiling)


def users_stay_under_limit(placed: PlacementIndex) -> Iterator[Violation]:
    """For every user u and resource r:  Σ_{a of u} r_a ≤ max(limit_u,r, Σ_{a of u} min(r_a, r_held,a)); new ones held 0

    A limit that is lowered, or whose exception has expired, blocks growth and evicts nobody.
    """
    for user, ones in placed.by_user.items():
        ceiling = placed.stack.limits.of_user(user, placed.today)
        yield from _grown(placed, ones, _over("users_stay_under_limit", "user", user, ones, ceiling))


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
    """Names of the allocations of users who hold more than they may; of all where the cluster holds more."""
    placed = PlacementIndex(stack, placement, today, frozenset())
    levels = [("user", ones, stack.limits.of_user(user, today)) for user, ones in placed.by_user.items()]
    levels.append(("cluster", placed.known, stack.limits.cluster))
    over = (ones for level, ones, ceiling in levels if any(_over("", level, "", ones, ceiling)))
    return frozenset(one.name for ones in over for one in ones)


def usage(stack: Stack, placement: Placement, today: datetime.date | None = None) -> tuple[Usage, ...]:
    """What is used of every ceiling, by level, then name, then resource. Users and nodes without allocations count too."""
    placed = PlacementIndex(stack, placement, today, frozenset())
    rows: list[Usage] = []
    for user in sorted(stack.users()):
        rows += _rows("user", user, placed.by_user.get(user, []), stack.limits.of_user(user, today))
    for node in sorted(stack.nodes):
        rows += _rows("node", node, placed.by_node.get(node, []), stack.limits.node)
    rows += _rows("cluster", stack.fleet, placed.known, stack.limits.cluster)
    return tuple(rows)


def _rows(level: str, subject: str, ones: list[Allocation], ceiling: Ceiling) -> Iterator[Usage]:
    for resource, used in totals(ones).items():
        yield Usage(level=level, subject=subject, resource=resource, used=used, ceiling=ceiling.limit(resource))


def _over(rule: str, level: str, subject: str, ones: list[Allocation], ceiling: Ceiling) -> Iterator[tuple[Violation, str]]:
    used = totals(ones)
    for resource, it in LIMITS.items():
        limit = ceiling.limit(resource)
        if limit is not None and used[resource] > limit:
            over = used[resource] - limit
            who = {"user": f"user {subject} holds", "node": f"node {subject} carries", "cluster": "the cluster carries"}[level]
            text = f"{who} {it.amount(used[resource])}; the limit is {it.text(limit)} ({it.text(over)} over)"
            yield Violation(rule=rule, text=text, subject=subject, path=f"limits.{level}.{resource}"), resource
