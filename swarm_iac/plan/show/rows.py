"""Which rows does Pulumi show, and how do their values read?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from swarm_iac.model import device
from swarm_iac.model.base import value_at
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.settings import HELD, Held, SettingsState
from swarm_iac.model.state import (
    AllocationState,
    Desired,
    DirectoryState,
    GpuState,
    NodeState,
    Observed,
    SliceState,
    TelemetryState,
)
from swarm_iac.plan.state import format
from swarm_iac.printable import printable_all
from swarm_iac.units import Cpus, Seconds, Watts, span

Properties = dict[str, Any]
Rows = dict[tuple[str, str], Properties]


def rows(nodes: Mapping[str, NodeState] | Mapping[str, Observed] | Mapping[str, Desired]) -> Rows:
    """A row ("Node", name) and one ("Allocation", name) for each, with values as people write them.

    Equal states give equal rows, whether wanted or found; what is not managed is not there. A node to be restored has
    none. Where an allocation is found on two nodes (it is moving), the one that runs is shown.
    """
    found: Rows = {}
    known: Mapping[str, NodeState | Observed | Desired] = {**nodes}
    for name, node in sorted(known.items()):
        if isinstance(node, Desired) and not node.managed:
            continue
        state = node if isinstance(node, NodeState) else node.state
        found["Node", name] = _node(state)
        health = {one: health_words(node, one) for one in node.health} if isinstance(node, Observed) else {}
        for allocation, one in sorted(state.allocations.items()):
            key = ("Allocation", allocation)
            if key not in found or one.unit.active:
                found[key] = _allocation(name, one, health.get(allocation, ""))
    return {key: printable_all(properties) for key, properties in found.items()}


def health_words(seen: Observed, name: str) -> str:
    """How an allocation is; of one that waits, for what and since when."""
    health = seen.health.get(name, "")
    if health != "waiting":
        return health
    booted = datetime.datetime.fromtimestamp(seen.booted, datetime.UTC)
    return f"waits for a run since the reboot of {booted:%Y-%m-%d %H:%M} UTC"


def _given(properties: Properties) -> Properties:
    return {key: value for key, value in properties.items() if value not in (None, "", {}, ())}


def _node(state: NodeState) -> Properties:
    return _given({
        "sysctl": dict(sorted(state.settings.sysctl.items())),
        **{_name(key): _held(state.settings, held) for key, held in HELD.items()},
        "gpus": {str(gpu): _gpu(one) for gpu, one in sorted(state.gpus.items()) if one != GpuState()},
        "interface": state.interface,
        "bandwidth": format.bandwidth(state.interface_bps) if state.interface_bps else None,
        "disk": state.disk,
        "telemetry": _telemetry(state.telemetry),
    })  # fmt: skip


def _telemetry(state: TelemetryState | None) -> str | None:
    if state is None:
        return None
    return f"port {state.port}, for {', '.join(state.scrapers) or 'the node itself'}"


def _name(key: str) -> str:
    """A key of the stack file as rows call it: `on_boot` is onBoot."""
    first, *others = key.split("_")
    return first + "".join(word.capitalize() for word in others)


def _held(state: SettingsState, held: Held) -> str | None:
    found = getattr(state, held.field)
    return None if found is None else held.read(found)


def _gpu(state: GpuState) -> Properties:
    return _given({
        "power": None if state.power_w is None else str(Watts(state.power_w)),
        "clock": None if state.clock_mhz is None else f"{state.clock_mhz} MHz",
        "persistence": state.persistence,
    })  # fmt: skip


def _allocation(node: str, state: AllocationState, health: str) -> Properties:
    return _given({
        "node": node,
        "workload": state.workload,
        "gpus": device.marked(state.gpus),
        **_slice(state),
        **_amounts(state),
        **_directory("scratch", state.scratch, state.unit.user),
        **_directory("cache", state.cache, state.unit.user),
        **_unit(state, health),
    })  # fmt: skip


def _amounts(state: AllocationState) -> Properties:
    """What it holds of each counted resource."""
    found: Properties = {}
    for row, how in COUNTED:
        for path, key in how.at.items():
            value = value_at(state, path)
            found[key] = format.amount(row.unit, how.grain)(value) if value or (value == 0 and how.unlimited) else None
            if how.ceiling and value and (most := value_at(state, how.ceiling)):
                found[key] = span(row.unit(value), row.unit(most))
    return found


def _slice(state: AllocationState) -> Properties:
    own = state.slice
    return {
        "cpus": own.cpus,
        "numa": own.mems,
        "cpuWeight": own.cpu_weight,
        "cpuQuota": None if own.cpu_quota_m is None else str(Cpus(own.cpu_quota_m)),
        "memoryLow": None if own.memory_low is None else format.size(own.memory_low),
        "memoryHigh": format.high(own.memory_high, own.memory_max),
        "memoryMost": None if own.memory_most is None else format.size(own.memory_most),
        "swap": {None: "unlimited", 0: None}.get(own.swap_max, format.size(own.swap_max or 0)),
        "tasks": own.tasks_max,
        "ioRead": None if own.io_read_bps is None else format.throughput(own.io_read_bps),
        "ioWrite": None if own.io_write_bps is None else format.throughput(own.io_write_bps),
        "iops": _iops(own),
        "ioWeight": own.io_weight,
        "gpuFiles": "open to all accounts" if own.gpus_open else None,
    }


def _iops(own: SliceState) -> str | None:
    """One figure, for both ways are the same unless somebody changed one by hand."""
    ways = (own.io_read_iops, own.io_write_iops)
    return None if ways == (None, None) else " / ".join(dict.fromkeys("-" if one is None else str(one) for one in ways))


def _directory(kind: str, state: DirectoryState | None, user: str) -> Properties:
    """Owner and mode only where they are not the usual ones."""
    if state is None:
        return {}
    return {
        f"{kind}Owner": None if state.owner == user else state.owner,
        f"{kind}Mode": None if state.mode == "0700" else state.mode,
    }


def _unit(state: AllocationState, health: str) -> Properties:
    unit = state.unit
    plain = "ok" if unit.active else "stopped"
    return {
        "user": unit.user,
        "command": unit.command,
        "env": dict(sorted(unit.env.items())),
        "stop": f"{unit.stop_signal}, {Seconds(unit.grace_s)}",
        "timeLimit": None if unit.time_limit_s is None else str(Seconds(unit.time_limit_s)),
        "check": unit.healthy,
        "port": unit.port,
        "restart": unit.restart,
        "confined": False if unit.unconfined else None,
        "onBoot": "waits for a run" if unit.on_boot == "wait" else None,
        "health": "ok" if health == "done" else plain if health in ("", "healthy") else health,
    }
