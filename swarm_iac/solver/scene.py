"""What does the solver see? The stack as plain integers: asks, bins, ceilings, and what runs.

Everything is in base units (thousandths of a vCPU, bytes, bit/s, watts). A bin is a node; an ask is a workload.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Ceiling, Node, Stack
from swarm_iac.model.workload import PRIORITIES, Workload

#: No ceiling.
ENDLESS = 1 << 60
#: What a node has: the hardware's seven, then the five that `limits.node` caps.
NODE_DIMS = (
    "gpus", "vcpus", "cores", "memory", "storage", "egress", "ingress",
    "limit_gpus", "limit_vcpus", "limit_memory", "limit_storage", "limit_bandwidth",
)  # fmt: skip
#: What users and the cluster are limited in.
CEILINGS = ("gpus", "vcpus", "memory", "storage", "bandwidth")
#: What a rack has.
RACK_DIMS = ("egress", "ingress", "power")


@dataclass(frozen=True, slots=True)
class Ask:
    """One workload. `need` follows NODE_DIMS and `usage` CEILINGS, both for one replica."""

    name: str
    user: str
    priority: int
    members: int
    gang: bool
    need: tuple[int, ...]
    usage: tuple[int, ...]
    model: str | None
    gpu_memory: int
    select: tuple[tuple[str, str], ...]
    spread: str | None
    within: str | None
    power: int | None  # per GPU [W]; None: the node's

    @property
    def gpus(self) -> int:
        return self.need[0]


@dataclass(frozen=True, slots=True)
class Bin:
    """One node. `room` follows NODE_DIMS; `power` is the cap of each GPU, 0 where unknown [W]."""

    name: str
    rack: str | None
    labels: dict[str, str]
    state: str
    model: str | None
    gpu_memory: int
    room: tuple[int, ...]
    power: int

    def power_of(self, ask: Ask) -> int:
        """Watts that one replica of `ask` adds to the rack: GPUs × (its own cap, else the node's)."""
        return ask.gpus * (self.power if ask.power is None else ask.power)


@dataclass(frozen=True)
class Scene:
    """All that is decided from. `running` holds what stood last time and is still wanted, by workload."""

    stack: Stack
    asks: dict[str, Ask]
    bins: dict[str, Bin]
    users: dict[str, tuple[int, ...]]
    cluster: tuple[int, ...]
    racks: dict[str, tuple[int, ...]]
    running: dict[str, tuple[Allocation, ...]] = field(default_factory=dict)


def scene_of(stack: Stack, last: Placement, today: datetime.date | None = None) -> Scene:
    """Read the stack into integers. An exception that ended before `today` lets its user keep what runs, not grow."""
    running: dict[str, list[Allocation]] = {}
    for allocation in last.allocations:
        workload = stack.workloads.get(allocation.workload)
        if workload is not None and allocation.index < workload.members:
            running.setdefault(allocation.workload, []).append(allocation)
    asks = {name: ask_of(name, stack.workloads[name]) for name in sorted(stack.workloads)}
    users = {user: _user_ceiling(stack, user, last, today) for user in sorted({ask.user for ask in asks.values()})}
    return Scene(
        stack=stack,
        asks=asks,
        bins={name: _bin_of(stack, stack.nodes[name]) for name in sorted(stack.nodes)},
        users=users,
        cluster=_ceiling(stack.limits.cluster),
        racks={name: _rack_of(stack, name) for name in sorted(stack.racks)},
        running={name: tuple(sorted(found, key=lambda a: a.index)) for name, found in sorted(running.items())},
    )


def ask_of(name: str, workload: Workload) -> Ask:
    """One workload as integers. Pinned vCPUs are rounded up to whole cores."""
    each = workload.each
    cores = -(-int(each.vcpus) // 1000) if each.pinned else 0
    vcpus = cores * 1000 if each.pinned else int(each.vcpus)
    out, into = int(workload.egress), int(workload.ingress)
    usage = (each.gpus.count, vcpus, int(each.memory), int(workload.storage), max(out, into))
    return Ask(
        name=name,
        user=workload.user,
        priority=PRIORITIES[workload.priority],
        members=workload.members,
        gang=workload.gang is not None,
        need=(each.gpus.count, vcpus, cores, int(each.memory), int(workload.storage), out, into, *usage),
        usage=usage,
        model=each.gpus.model if each.gpus.count else None,
        gpu_memory=int(each.gpus.memory or 0) if each.gpus.count else 0,
        select=tuple(sorted(workload.place.select.items())),
        spread=workload.place.spread,
        within=workload.place.within,
        power=None if each.gpu_power is None else int(each.gpu_power),
    )


def _bin_of(stack: Stack, node: Node) -> Bin:
    hardware = stack.hardware_of(node.name)
    pseudo = {"site": node.site, "rack": node.rack, "node": node.name}
    nic, vcpus = int(hardware.nic), int(hardware.vcpus)
    whole = (hardware.gpus.count, vcpus, vcpus // 1000, int(hardware.memory), int(hardware.nvme), nic, nic)
    return Bin(
        name=node.name,
        rack=node.rack,
        labels=node.labels | {key: value for key, value in pseudo.items() if value},
        state=node.state,
        model=hardware.gpus.model if hardware.gpus.count else None,
        gpu_memory=int(hardware.gpu_memory) if hardware.gpus.count else 0,
        room=(*whole, *_ceiling(stack.limits.node)),
        power=int(stack.tuning_of(node.name).gpu_power or 0),
    )


def _rack_of(stack: Stack, name: str) -> tuple[int, ...]:
    rack = stack.racks[name]
    uplink = ENDLESS if rack.uplink is None else int(rack.uplink)
    return (uplink, uplink, ENDLESS if rack.power is None else int(rack.power))


def _ceiling(ceiling: Ceiling, default: tuple[int, ...] = (ENDLESS,) * 5) -> tuple[int, ...]:
    values = (getattr(ceiling, name) for name in CEILINGS)
    return tuple(other if value is None else int(value) for value, other in zip(values, default, strict=True))


def _user_ceiling(stack: Stack, user: str, last: Placement, today: datetime.date | None) -> tuple[int, ...]:
    """Ceiling of one user; exceptions replace single values, the last one named wins."""
    plain = result = _ceiling(stack.limits.user)
    for exception in stack.limits.exceptions:
        if exception.user != user:
            continue
        special = _ceiling(exception, result)
        if today is not None and today > exception.until:
            held = _held(stack, user, last)
            special = tuple(max(p, min(s, h)) for p, s, h in zip(plain, special, held, strict=True))
        result = special
    return result


def _held(stack: Stack, user: str, last: Placement) -> tuple[int, ...]:
    """What the user's allocations held last time, in the order of CEILINGS."""
    mine = [a for a in last.allocations if (w := stack.workloads.get(a.workload)) is not None and w.user == user]
    return (
        sum(len(a.gpus) for a in mine),
        sum(int(a.vcpus) for a in mine),
        sum(int(a.memory) for a in mine),
        sum(int(a.storage) for a in mine),
        sum(max(int(a.egress), int(a.ingress)) for a in mine),
    )
