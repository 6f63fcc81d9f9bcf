"""What does the autopilot decide now? One pass: what is in force, what the load asks for, what is granted and what taken away.

Pure: the same world, layer, readings and times give the same decision. What is decided is a layer, with its certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.autopilot.certificate import broken, certify
from swarm_iac.autopilot.granting import Granted, World, checked, granted
from swarm_iac.autopilot.power import PowerChange
from swarm_iac.autopilot.reading import Reading
from swarm_iac.autopilot.tracking import History, ReplicaBounds, ReplicaTarget, target
from swarm_iac.errors import Refused
from swarm_iac.live.layer import MOST, Grant, LastChange, Layer
from swarm_iac.model.stack import Stack

NOT_MEASURED = Reading(None, "nothing was measured")


@dataclass(frozen=True)
class Times:
    """`wall`: [s since 1970], may jump; `steady`: [s], never does."""

    wall: float
    steady: float


@dataclass
class Recollection:
    """What one autopilot remembers between two ticks; a new one knows nothing, and takes no replica away for a while."""

    since: float
    histories: dict[str, History] = field(default_factory=dict)
    #: When it changed the number of replicas of a workload itself [s of the steady clock].
    changed: dict[str, float] = field(default_factory=dict)

    def history(self, workload: str) -> History:
        """Of one workload."""
        return self.histories.setdefault(workload, History(self.since))

    def since_change(self, workload: str, layer: Layer, times: Times) -> float:
        """Time since the last change: by the steady clock where it was ours, else as the layer says. [s]

        Another autopilot's was before this one began, whatever the clock on the wall says.
        """
        mine = self.changed.get(workload)
        if mine is not None:
            return max(0.0, times.steady - mine)
        return max(layer.age(workload, times.wall), times.steady - self.since)


@dataclass(frozen=True)
class WorkloadDecision:
    """One workload: how many replicas it has, how many it gets, and why."""

    workload: str
    before: int
    after: int
    reason: str
    measured: float | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self)}


@dataclass(frozen=True)
class Tick:
    """`layer`: to be written if it `changed`; `nodes`: where replicas come or go; `stops`: how many go.

    `power`: nodes that would be powered off or on, of a dry run.
    """

    layer: Layer
    decided: tuple[WorkloadDecision, ...]
    nodes: tuple[str, ...] = ()
    stops: int = 0
    changed: bool = False
    power: tuple[PowerChange, ...] = ()


def tick(world: World, layer: Layer, readings: Mapping[str, Reading], times: Times, memory: Recollection) -> Tick:
    """One decision. Raises Refused if its certificate would not hold, which is a bug."""
    renewed = layer.model_copy(update={"at": times.wall})
    beside = checked(world, {one.allocation.name: one for one in renewed.grants}, times.wall)
    live = dict(beside.live)
    current = Counter(one.workload for one in beside.placement.allocations)
    aims = {
        name: _aim(world.stack, name, current[name], readings.get(name, NOT_MEASURED), layer, times, memory)
        for name, one in sorted(world.stack.workloads.items())
        if one.scales
    }
    stopping = _within_budget(world.stack, current, {name: aim.count for name, aim in aims.items()})
    reasons = {name: aim.reason for name, aim in aims.items()}
    found = granted(world, live, stopping, reasons, times.wall)
    after = Counter(one.workload for one in world.lock.allocations)
    after.update(one.allocation.workload for one in found.live.values())
    decided = tuple(_decided(name, current[name], after[name], aim, found, readings) for name, aim in aims.items())
    return _outcome(world, layer, found.live, decided, beside.recalled, times, memory)


def _lapsed(layer: Layer, live: Mapping[str, Grant], times: Times) -> set[str]:
    """Nodes whose live replicas may be gone: their lease had ended, and an `up` since then has taken them away."""
    return {one.allocation.node for one in live.values()} if layer.left(times.wall) <= 0 else set()


def _aim(
    stack: Stack, name: str, current: int, measured: Reading, layer: Layer, times: Times, memory: Recollection
) -> ReplicaTarget:
    one = stack.workloads[name]
    assert one.scale is not None
    bounds = ReplicaBounds(one.replicas.least, one.replicas.most, current)
    since = memory.since_change(name, layer, times)
    return target(one.scale, measured, bounds, memory.history(name), now=times.steady, since_change=since)


def _within_budget(stack: Stack, current: Counter[str], wanted: dict[str, int]) -> dict[str, int]:
    """At most `solve.stops` replicas go in one tick, as in one change; the rest goes in the next ones."""
    left, found = max(1, int(stack.solve.stops)), {}
    for name, count in wanted.items():
        less = min(max(0, current[name] - count), left)
        left -= less
        found[name] = count if count >= current[name] else current[name] - less
    return found


def _decided(
    name: str, before: int, after: int, aim: ReplicaTarget, found: Granted, readings: Mapping[str, Reading]
) -> WorkloadDecision:
    reason = aim.reason + (f"; {found.refused[name]}" if name in found.refused else "")
    return WorkloadDecision(name, before, after, reason, readings.get(name, NOT_MEASURED).value)


def _outcome(
    world: World,
    layer: Layer,
    live: Mapping[str, Grant],
    decided: tuple[WorkloadDecision, ...],
    recalled: Mapping[str, str],
    times: Times,
    memory: Recollection,
) -> Tick:
    was, now = {one.allocation.name: one.allocation for one in layer.grants}, {n: g.allocation for n, g in live.items()}
    # One that was called back may have been granted again under its number, in another place.
    gone, come = ({n for n in a if a[n] != b.get(n)} for a, b in ((was, now), (now, was)))
    called = tuple(WorkloadDecision(name, 1, 0, f"called back: {why}") for name, why in sorted(recalled.items()))
    certificate = certify(world.stack, world.lock, now.values())
    if wrong := broken(world.stack, world.lock, now.values(), certificate):
        raise Refused(f"what the autopilot decided could not be revoked: {wrong}", hint="this is a bug; please report it")
    changes = dict(layer.changed)
    for one in decided:
        if one.after != one.before:
            memory.changed[one.workload] = times.steady
            changes[one.workload] = LastChange(at=times.wall, direction="up" if one.after > one.before else "down")
    scaling = {name for name, one in world.stack.workloads.items() if one.scales}
    nodes = {was[name].node for name in gone} | {now[name].node for name in come} | _lapsed(layer, live, times)
    fresh = layer.model_copy(
        update={
            "fleet": world.stack.fleet,
            "at": times.wall,
            "grants": tuple(sorted(live.values(), key=lambda one: one.allocation.name)),
            "changed": {name: change for name, change in changes.items() if name in scaling},
            "certificate": certificate if live else None,
            "stopping": min(MOST, layer.stopping + len(gone)),
            "unapplied": tuple(sorted({*layer.unapplied, *nodes} & world.stack.nodes.keys())),
        }
    )
    return Tick(fresh, (*decided, *called), tuple(sorted(nodes)), len(gone), bool(gone or nodes))
