"""Whose limits on GPUs of one model count a replica on a node? Those of its chain, each as a scope beside the plain one.

A scope of this kind is named `user ada on H100` and bounds GPUs alone. Which of them count a replica depends on the node: the
limit of the model where it runs. Who holds more than such a limit keeps what runs, and of each of their workloads as much
as ran on the model may run on it: a scope of the workload's own says so, since it may still grow on other models.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Ceiling, LimitException, Stack
from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED
from swarm_iac.solver.snapshot.snapshot import CLUSTER, ENDLESS, NodeCapacity, Over, WorkloadRequest, of_model, of_team, of_user

#: Scope → GPU model → the most thousandths of GPUs.
Limits = dict[str, dict[str, int]]


def limits_of(stack: Stack, scopes: Iterable[str], today: datetime.date | None) -> Limits:
    """The limits on single models of users, teams and the cluster, of the models that some node has."""
    shapes = (stack.hardware[node.hardware].gpus for node in stack.nodes.values() if node.hardware in stack.hardware)
    there = {gpus.model for gpus in shapes if gpus.count and gpus.model}
    found = {}
    for scope in scopes:
        most = {model: int(most) for model, most in _ceiling(stack, scope, today).gpus_by_model.items() if model in there}
        if most:
            found[scope] = most
    return found


def _ceiling(stack: Stack, scope: str, today: datetime.date | None) -> Ceiling:
    if scope == CLUSTER:
        return stack.limits.cluster
    level, _, name = scope.partition(" ")
    if level == "user":
        return stack.limits.of_user(name, today)
    return stack.limits.of_team(name, stack.teams[name], today)


def chains_of(
    request: WorkloadRequest, limits: Mapping[str, Mapping[str, int]]
) -> tuple[tuple[str, tuple[tuple[int, str], ...]], ...]:
    """By model that it may run on: the scopes that count it there, each with the place in its chain of who sets the limit."""
    if not request.gpus:
        return ()
    models = sorted({model for scope in request.chain for model in limits.get(scope, ())})
    asked = None if request.model is None else request.model.split("|")
    return tuple(
        (
            model,
            tuple((i, of_model(scope, model)) for i, scope in enumerate(request.chain) if model in limits.get(scope, ())),
        )
        for model in models
        if asked is None or model in asked
    )


def only(most: int) -> tuple[int, ...]:
    """A ceiling on GPUs alone, in the order of COUNTED."""
    return tuple([most if i == ALL_GPUS else ENDLESS for i in range(len(COUNTED))])


def over_of(
    limits: Limits,
    requests: Mapping[str, WorkloadRequest],
    running: Mapping[str, tuple[Allocation, ...]],
    nodes: Mapping[str, NodeCapacity],
) -> tuple[list[Over], dict[tuple[str, str], int]]:
    """Who holds more of a model than they may, and what each workload holds of each model. [thousandths of GPUs]"""
    sums: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, str], int] = {}
    for name, ones in running.items():
        request = requests[name]
        for one in ones if request.models else ():
            host = nodes.get(one.node)
            if host is None or host.model is None or one.user not in (None, request.user):
                continue
            use = min(one.gpu_milli, request.usage[ALL_GPUS])
            held[name, host.model] = held.get((name, host.model), 0) + use
            for scope in request.chain:
                sums[scope, host.model] = sums.get((scope, host.model), 0) + use
    over = [
        Over(scope, ALL_GPUS, sums[scope, model], most, model)
        for scope, of in limits.items()
        for model, most in of.items()
        if sums.get((scope, model), 0) > most
    ]
    return over, held


def kept(
    request: WorkloadRequest, over: Iterable[Over], held: Mapping[tuple[str, str], int]
) -> tuple[WorkloadRequest, dict[str, tuple[int, ...]]]:
    """The workload with a scope of its own on each model of which it, or others of its chain, hold too much; those scopes."""
    found: dict[str, tuple[int, ...]] = {}
    models = []
    for model, counted in request.models:
        scopes = counted
        first = min(
            (request.chain.index(one.scope) for one in over if one.model == model and one.scope in request.chain), default=None
        )
        if first is not None:
            own = of_model(f"workload {request.name}", model)
            found[own] = only(held.get((request.name, model), 0))
            scopes = (*scopes, (first, own))
        models.append((model, scopes))
    return (replace(request, models=tuple(models)) if found else request), found


def paths_of(stack: Stack, limits: Limits, today: datetime.date | None) -> Iterator[tuple[tuple[str, int], str]]:
    """Where in the stack file each of these limits stands, its key included, by scope and place in COUNTED."""
    for scope, models in limits.items():
        level, _, name = scope.partition(" ")
        for model in models:
            own = level == "team" and model in stack.teams[name].limits.gpus_by_model
            path = f"teams.{name}.limits" if own else "limits.cluster" if scope == CLUSTER else f"limits.{level}"
            most = -1
            for number, one in enumerate(stack.limits.exceptions):
                value = one.gpus_by_model.get(model)
                if value is not None and _excepted(one) == scope and (today is None or today <= one.until) and value > most:
                    path, most = f"limits.except[{number}]", int(value)
            yield (of_model(scope, model), ALL_GPUS), f"{path}.gpus_by_model.{model}"


def _excepted(one: LimitException) -> str:
    return of_user(one.user) if one.user else of_team(one.team or "")
