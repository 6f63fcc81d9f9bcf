"""Whose limits count a replica? A chain of scopes: its user, the teams around that, one inside the other, and the cluster.

Each has what may be held in it, in the order of COUNTED. A team without limits is in no chain.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from swarm_iac.model.stack import LimitException, NodeCeiling, Stack
from swarm_iac.solver.snapshot.layout import KEYS
from swarm_iac.solver.snapshot.snapshot import CLUSTER, ENDLESS, of_team, of_user

#: User → the scopes that count what it holds, innermost first.
Chains = dict[str, tuple[str, ...]]


def ceiling_of(ceiling: NodeCeiling) -> tuple[int, ...]:
    """What may be held at most, in the order of COUNTED."""
    return tuple([ENDLESS if (most := ceiling.limit(key)) is None else most for key in KEYS])


def scopes_of(stack: Stack, today: datetime.date | None) -> tuple[dict[str, tuple[int, ...]], Chains]:
    """The ceiling of each scope that counts a workload, and the chain of each of their users."""
    users = sorted({workload.user for workload in stack.workloads.values()})
    found = {of_user(user): ceiling_of(stack.limits.of_user(user, today)) for user in users}
    line = {user: _line(stack, name) for name, team in stack.teams.items() for user in team.users}
    known: dict[str, tuple[int, ...]] = {}
    for name in dict.fromkeys(name for user in users for name in line.get(user, ())):
        limits = stack.limits.of_team(name, stack.teams[name], today)
        ceiling = ceiling_of(limits)
        if limits.gpus_by_model or any(most < ENDLESS for most in ceiling):
            known[name] = ceiling
    found |= {of_team(name): ceiling for name, ceiling in known.items()}
    found[CLUSTER] = ceiling_of(stack.limits.cluster)
    teams = {user: [of_team(name) for name in line.get(user, ()) if name in known] for user in users}
    return found, {user: (of_user(user), *teams[user], CLUSTER) for user in users}


def _line(stack: Stack, name: str) -> tuple[str, ...]:
    return stack.line_of(name) if stack.teams[name].parent else (name,)


def paths_of(stack: Stack, chains: Chains, today: datetime.date | None) -> dict[tuple[str, int], str]:
    """Where in the stack file the ceiling of a scope stands, by scope and place in COUNTED: the key itself left out."""
    found = {(scope, i): path for scope, path in _plain(chains) for i in range(len(KEYS))}
    for scope in {scope for chain in chains.values() for scope in chain[1:-1]}:
        name = scope.partition(" ")[2]
        own = stack.teams[name].limits.given()
        found |= {(scope, i): f"teams.{name}.limits" for i, key in enumerate(KEYS) if key in own}
    most: dict[tuple[str, int], tuple[int, int]] = {}
    for number, one in enumerate(stack.limits.exceptions):
        scope = excepted(one)
        for i, key in enumerate(KEYS):
            value = one.limit(key)
            if value is not None and (today is None or today <= one.until):
                most[scope, i] = max(most.get((scope, i), (-1, 0)), (value, number))
    return found | {key: f"limits.except[{number}]" for key, (_, number) in most.items()}


def excepted(one: LimitException) -> str:
    """The scope whose limits an exception replaces."""
    return of_user(one.user) if one.user else of_team(one.team or "")


def _plain(chains: Chains) -> Iterator[tuple[str, str]]:
    """The path of each scope that nothing of its own is said of."""
    yield CLUSTER, "limits.cluster"
    for chain in chains.values():
        yield chain[0], "limits.user"
        for scope in chain[1:-1]:
            yield scope, "limits.team"
