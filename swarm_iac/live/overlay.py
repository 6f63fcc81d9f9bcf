"""Which live replicas are in force beside a placement, and why are the others called back?

The placement of the lock comes first, always: the solver never sees what is live, so whatever it decides is feasible once the
live replicas are gone. Those that no longer fit beside it are called back in the same plan.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from swarm_iac.limits import Amounts, judge
from swarm_iac.live.layer import Grant, Layer
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import demand_of, held_of
from swarm_iac.model.stack import Stack


@dataclass(frozen=True)
class RanBefore:
    """What ran before a change, as `limits.judge` takes it."""

    kept: frozenset[str] = frozenset()
    held: Mapping[str, Amounts] = field(default_factory=dict)
    ran: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Overlay:
    """`placement`: the lock's with the live replicas in force; `live`: those, by name; `recalled`: name → why."""

    placement: Placement
    live: Mapping[str, Grant] = field(default_factory=dict)
    recalled: Mapping[str, str] = field(default_factory=dict)


def without_failed(stack: Stack, layer: Layer) -> Stack:
    """The stack in which nodes that failed to power on take nothing new, so that it finds another place."""
    closed = {
        name: stack.nodes[name].model_copy(update={"state": "cordon", "reason": words[:200]})
        for name, words in layer.failed.items()
        if name in stack.nodes and stack.nodes[name].state == "ready"
    }
    return stack.model_copy(update={"nodes": stack.nodes | closed}) if closed else stack


def overlay(
    stack: Stack,
    placement: Placement,
    layer: Layer,
    *,
    now: float,
    today: datetime.date | None = None,
    before: RanBefore = RanBefore(),
) -> Overlay:
    """The placement with what is live beside it. `now`: [s since 1970]."""
    if not layer.grants:
        return Overlay(placement)
    recalled: dict[str, str] = {}
    live: dict[str, Grant] = {}
    locked = placement.by_name()
    counts = Counter(one.workload for one in placement.allocations)
    for grant in sorted(layer.grants, key=lambda one: (one.allocation.workload, one.allocation.index)):
        one = grant.allocation
        if one.name in locked:
            continue  # it is guaranteed by now
        why = "its lease has ended" if layer.left(now) <= 0 else _outdated(stack, one, counts)
        if why:
            recalled[one.name] = why
        else:
            counts[one.workload] += 1
            live[one.name] = grant
    while live:
        both = _with(placement, live)
        broken = judge(stack, both, today, kept=before.kept, held=before.held, ran=before.ran)
        if not broken:
            return Overlay(both, live, recalled)
        named = {one.subject for one in broken} & live.keys()
        newest = sorted(live, key=lambda name: (live[name].at, name))
        # A sum names nobody: of those that it is about the newest half goes first.
        for name in named or newest[len(newest) // 2 :]:
            del live[name]
            recalled[name] = f"what is guaranteed needs its capacity ({broken[0].rule})"
    return Overlay(placement, {}, recalled)


def _outdated(stack: Stack, one: Allocation, counts: Counter[str]) -> str:
    """Why the stack file of now has no such replica; empty where it has."""
    workload, node = stack.workloads.get(one.workload), stack.nodes.get(one.node)
    if workload is None or not workload.scales:
        return f"the stack has no workload {one.workload}" if workload is None else f"{one.workload} does not scale"
    if one.index >= workload.replicas.most or counts[one.workload] >= workload.replicas.most:
        return f"{one.workload} has at most {workload.replicas.most} replicas"
    if node is None or node.state != "ready":
        return f"{one.node} is {'gone' if node is None else f'in state {node.state}'}"
    if one.user != workload.user or held_of(one) != demand_of(workload):
        return f"{one.workload} requests another size, or has another user"
    return ""


def _with(placement: Placement, live: Mapping[str, Grant]) -> Placement:
    ones = (*placement.allocations, *(grant.allocation for grant in live.values()))
    return placement.model_copy(update={"allocations": tuple(sorted(ones, key=lambda one: one.name))})


def sentences(found: Overlay, layer: Layer, now: float) -> tuple[str, ...]:
    """One line for each live replica, and for each that is called back, for a plan."""
    left = round(layer.left(now))
    granted = (f"live: {name} on {one.allocation.node}: {one.reason}; for {left} s more" for name, one in found.live.items())
    return (*granted, *(f"live: {name} is called back: {why}" for name, why in sorted(found.recalled.items())))
