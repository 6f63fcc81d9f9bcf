"""How much of each limit is in use? The cluster, in it the teams, one inside the other, and in each its users."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.decision import Decision
from swarm_iac.limits import Usage, usage
from swarm_iac.model.resources.table import LIMITS
from swarm_iac.model.stack import Stack


@dataclass(frozen=True)
class Scope:
    """One scope, how deep it is inside others, and what is used of each resource, by its key."""

    level: str
    subject: str
    inside: str  # the team around it; empty where that is the cluster
    depth: int
    of: dict[str, Usage] = field(default_factory=dict)


def rows(decision: Decision, today: datetime.date) -> list[Scope]:
    """The tree, each scope before what is inside it; teams and users in the order of the file."""
    stack = decision.stack
    used: dict[tuple[str, str], dict[str, Usage]] = {}
    for one in usage(stack, decision.placement, today, teams=True):
        used.setdefault((one.level, one.subject), {})[one.resource] = one
    found = [Scope("cluster", stack.fleet, "", 0, used["cluster", stack.fleet])]
    for level, subject, depth in _inside(stack, None, 1, frozenset()):
        around = next((name for name, team in stack.teams.items() if subject in team.users), "")
        parent = (stack.teams[subject].parent or "") if level == "team" else around
        found.append(Scope(level, subject, parent, depth, used[level, subject]))
    return found


def _inside(stack: Stack, parent: str | None, depth: int, seen: frozenset[str]) -> Iterator[tuple[str, str, int]]:
    for name, team in stack.teams.items():
        if team.parent == parent and name not in seen:
            yield "team", name, depth
            yield from _inside(stack, name, depth + 1, seen | {name})
            for user in team.users:
                yield "user", user, depth + 1


def heads(found: list[Scope]) -> tuple[str, ...]:
    """`limit of`, and each resource of which anything is used or limited."""
    return ("limit of", *(LIMITS[key].noun if key in LIMITS else key.partition(".")[2] for key in _shown(found)))


def cells(found: list[Scope]) -> Iterator[tuple[str, ...]]:
    """One row for each scope: `12 of 16`, or only what is used where there is no limit."""
    for row in found:
        used = (_cell(row.of[key]) for key in _shown(found))
        yield (f"{'  ' * row.depth}{row.level} {row.subject}", *used)


def _shown(found: list[Scope]) -> list[str]:
    return [key for key in found[0].of if any(row.of[key].used or row.of[key].ceiling is not None for row in found)]


def _cell(one: Usage) -> str:
    if one.ceiling is None:
        return one.used_text if one.used else "-"
    over = " (over)" if one.used > one.ceiling else ""
    return f"{one.used_text} of {one.ceiling_text}{over}"


def as_json(found: list[Scope]) -> list[dict[str, Any]]:
    """The same; amounts in base units, null where there is no limit."""
    return [
        {
            "level": row.level,
            "subject": row.subject,
            "inside": row.inside or None,
            "used": {key: one.used for key, one in row.of.items()},
            "limits": {key: one.ceiling for key, one in row.of.items()},
        }
        for row in found
    ]
