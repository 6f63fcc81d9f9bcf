"""Whom do limits on single GPU models bound, and does anybody hold more? From docs/stack-file.md alone."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack

#: Who has limits on GPU models, and by model how many thousandths.
Ceilings = Iterator[tuple[str, dict[str, int]]]


def ceilings(stack: Stack, user: str, day: datetime.date) -> Ceilings:
    """Of everybody who counts what the user holds: `user ada`, `team a`, `the cluster`."""

    def of(key: str, name: str, *bases: Any) -> dict[str, int]:
        found: dict[str, int] = {}
        for base in bases:
            found |= {model: int(most) for model, most in base.gpus_by_model.items()}
        given = [e.gpus_by_model for e in stack.limits.exceptions if getattr(e, key) == name and day <= e.until]
        for model in {model for one in given for model in one}:
            found[model] = max(int(one[model]) for one in given if model in one)
        return found

    yield f"user {user}", of("user", user, stack.limits.user)
    name = next((name for name, team in stack.teams.items() if user in team.users), None)
    while name is not None:
        yield f"team {name}", of("team", name, stack.limits.team, stack.teams[name].limits)
        name = stack.teams[name].parent
    yield "the cluster", {model: int(most) for model, most in stack.limits.cluster.gpus_by_model.items()}


def holding(stack: Stack, ones: list[Allocation], who: str, model: str, day: datetime.date) -> list[Allocation]:
    """Those with GPUs of the model that count in somebody's limit."""
    return [
        a
        for a in ones
        if a.gpus
        and stack.hardware_of(a.node).gpus.model == model
        and any(who == other for other, _ in ceilings(stack, stack.workloads[a.workload].user, day))
    ]


def held(ones: list[Allocation]) -> int:
    """Thousandths of GPUs."""
    return sum(one.part for a in ones for one in a.gpus)


def broken(
    stack: Stack, allocations: list[Allocation], last: Placement, day: datetime.date
) -> Iterator[tuple[str, frozenset[str]]]:
    """Who holds more of a model than they may, unless no workload holds more of it than ran there."""
    most: dict[tuple[str, str], int] = {}
    for user in {stack.workloads[a.workload].user for a in allocations}:
        most |= {(who, model): limit for who, limits in ceilings(stack, user, day) for model, limit in limits.items()}
    for (who, model), limit in most.items():
        ones = holding(stack, allocations, who, model, day)
        if held(ones) <= limit:
            continue
        now, ran = defaultdict[str, int](int), Counter[str]()
        for a in ones:
            now[a.workload] += held([a])
        for a in last.allocations:
            there = stack.hardware_of(a.node).gpus.model if a.node in stack.nodes else None
            if there == model and a.workload in now and a.user in (None, stack.workloads[a.workload].user):
                each = stack.workloads[a.workload].each.gpus
                ran[a.workload] += min(held([a]), each.count * each.part)
        if any(now[name] > ran[name] for name in now):
            yield f"{who} holds {held(ones)} on {model}, and may hold {limit}", frozenset(a.name for a in ones)
