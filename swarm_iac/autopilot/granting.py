"""Where do live replicas go, beside everything that has a place, and which of them go first?

Nothing is moved or stopped for them: all that is placed is fixed, and they take what is free, within every rule of `limits`.
Nothing is granted while a guarantee waits for capacity that it could have.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from swarm_iac.live.layer import Grant, Layer
from swarm_iac.live.overlay import Overlay, RanBefore, overlay
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Node, Stack
from swarm_iac.model.workload import Replicas
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.conflict import capacity_of, conflict
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify, fixed_by, repair_task


@dataclass(frozen=True)
class World:
    """A stack with the placement of its lock. `before`: what ran before that, as `limits` takes it; `today`: for exceptions.

    `asleep`: nodes that are powered off; they are used after all others, and only if something powers them on (`wakes`).
    """

    stack: Stack
    lock: Placement
    today: datetime.date
    before: RanBefore = field(default_factory=RanBefore)
    asleep: frozenset[str] = frozenset()
    wakes: bool = False

    @property
    def closed(self) -> dict[str, Node]:
        """Nodes that are powered off, closed to what is new."""
        ready = (self.stack.nodes[name] for name in self.asleep & self.stack.nodes.keys())
        return {one.name: one.model_copy(update={"state": "cordon"}) for one in ready if one.state == "ready"}


@dataclass(frozen=True)
class Granted:
    """The live replicas from now on, and why some of those that the load asks for are not among them, by workload."""

    live: Mapping[str, Grant]
    refused: Mapping[str, str] = field(default_factory=dict)


def granted(
    world: World, live: Mapping[str, Grant], wanted: Mapping[str, int], reasons: Mapping[str, str], now: float
) -> Granted:
    """The live replicas with which each workload comes to its `wanted` number of replicas, guaranteed ones included.

    `live`: those in force. `reasons`: why, by workload. `now`: [s since 1970]. Takes away the newest numbers first.
    """
    guaranteed = Counter(one.workload for one in world.lock.allocations)
    kept: dict[str, Grant] = {}
    for name, grant in sorted(live.items(), key=lambda one: (one[1].allocation.workload, one[1].allocation.index)):
        workload = grant.allocation.workload
        if guaranteed[workload] < wanted.get(workload, guaranteed[workload] + len(live)):
            guaranteed[workload] += 1
            kept[name] = grant
    more = {name: count for name, count in wanted.items() if count > guaranteed[name]}
    if not more:
        return Granted(kept)
    if why := waiting(world, more):
        return Granted(kept, dict.fromkeys(more, why))
    if not world.closed:
        return _placed(world, kept, more, guaranteed, reasons, now)
    first = _placed(world, kept, more, guaranteed, reasons, now, world.closed)
    have = guaranteed + Counter(one.allocation.workload for name, one in first.live.items() if name not in kept)
    more = {name: count for name, count in more.items() if count > have[name]}
    if not more or not world.wakes:
        return first
    return _placed(world, dict(first.live), more, have, reasons, now)


def waiting(world: World, more: Mapping[str, int] = {}) -> str:
    """Why nothing may be granted: a guarantee without a place could have one. Empty where none could."""
    if world.lock.growing:
        return f"{world.lock.growing[0].workload} waits to grow, and what is free is kept for it"
    missing = {one.workload for one in world.lock.unplaced}
    if own := sorted(missing & more.keys()):
        return f"{own[0]} has guaranteed replicas without a place"
    if missing:
        snapshot = snapshot_of(world.stack, world.lock, world.today)
        capacity = capacity_of(snapshot, world.lock)
        for name in sorted(missing & snapshot.requests.keys()):
            request = snapshot.requests[name]
            if request.members > capacity.counts[name].total() and not conflict(capacity, request):
                return f"{name} is pending and fits: `swarm solve` comes first"
    return ""


def _placed(
    world: World,
    kept: dict[str, Grant],
    more: Mapping[str, int],
    now_placed: Counter[str],
    reasons: Mapping[str, str],
    now: float,
    closed: Mapping[str, Node] = {},
) -> Granted:
    """With the replicas that find a place in one greedy pass, in which everything else is fixed.

    `closed`: nodes as they count in it.
    """
    stack = _asking(world.stack, more, now_placed)
    stack = stack.model_copy(update={"nodes": {**stack.nodes, **closed}}) if closed else stack
    ones = (*world.lock.allocations, *(grant.allocation for grant in kept.values()))
    base = world.lock.model_copy(update={"allocations": tuple(sorted(ones, key=lambda one: one.name)), "unplaced": ()})
    snapshot = snapshot_of(stack, base, world.today)
    classified = classify(snapshot)
    if leaves := sorted(one.name for one in base.going() if one.name not in classified.stay):
        why = f"{leaves[0]} has to move or restart first: `swarm up`"
        return Granted(kept, dict.fromkeys(more, why))
    task = repair_task(snapshot, classified)
    task = replace(task, free={name: count for name, count in task.free.items() if name in more}, budget=0)
    found = assemble(snapshot, classified, fixed_by(task) + greedy(task))
    known = base.by_name()
    touched = {one.node for one in found if one.name in known and known[one.name] != _as_was(one, known[one.name])}
    fresh = [one for one in found if one.name not in known and one.node not in touched]
    grants = {
        one.name: Grant(allocation=one, reason=reasons.get(one.workload, "")[:300], at=now) for one in _owned(stack, fresh)
    }
    beside = checked(world, {**kept, **grants}, now)
    result = {name: grant for name, grant in {**kept, **grants}.items() if name in beside.live}
    counts = now_placed + Counter(grants[name].allocation.workload for name in grants if name in result)
    short = {name: count - counts[name] for name, count in more.items() if counts[name] < count}
    one, many = "more finds no place: nothing is moved for it", "more find no place: nothing is moved for them"
    return Granted(result, {name: pluralize(count, one, many) for name, count in short.items()})


def _as_was(one: Allocation, was: Allocation) -> Allocation:
    """The same where nothing but the name of its user was written down since."""
    return one.model_copy(update={"user": was.user})


def _owned(stack: Stack, ones: list[Allocation]) -> list[Allocation]:
    return [one if one.user else one.model_copy(update={"user": stack.workloads[one.workload].user}) for one in ones]


def checked(world: World, live: Mapping[str, Grant], now: float) -> Overlay:
    """What `limits` says of them, apart from how they were found."""
    layer = Layer(at=now, grants=tuple(live.values()))
    return overlay(world.stack, world.lock, layer, now=now, today=world.today, before=world.before)


def _asking(stack: Stack, more: Mapping[str, int], placed: Counter[str]) -> Stack:
    """The stack that asks for as many replicas as there are or are to be, and in which nothing moves."""
    others = {}
    for name, one in stack.workloads.items():
        count = max(more.get(name, 0), placed[name] if one.scales else 0)
        if count > one.members:
            others[name] = one.model_copy(update={"replicas": Replicas(least=count, most=max(count, one.replicas.most))})
    solve = stack.solve.model_copy(update={"moves": 0})
    return stack.model_copy(update={"workloads": {**stack.workloads, **others}, "solve": solve})
