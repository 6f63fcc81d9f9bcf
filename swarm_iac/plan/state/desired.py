"""What should each node be, given the stack and the placement?"""

from __future__ import annotations

from typing import Any

from swarm_iac.model.gpus.links import Links
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.power import caps
from swarm_iac.model.resources.row import PAGE
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.settings import Tuning, settings
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import (
    AllocationState,
    BandwidthState,
    Desired,
    DirectoryState,
    GpuState,
    Handover,
    NodeState,
    SliceState,
    TelemetryState,
    UnitState,
)
from swarm_iac.model.workload import Workload
from swarm_iac.plan.state import cpulist, lending
from swarm_iac.plan.state.disk_io import disk_io
from swarm_iac.plan.state.mismatch import declared
from swarm_iac.units import Bytes, Watts


def desired(stack: Stack, placement: Placement) -> dict[str, Desired]:
    """The wanted state of every node that is not lost, by name.

    A drained node keeps its settings and the files of finished jobs, and nothing else. Raises KeyError for an
    allocation of an unknown workload.
    """
    standing: dict[str, list[Allocation]] = {name: [] for name in stack.nodes}
    for allocation in placement.allocations:
        standing.setdefault(allocation.node, []).append(allocation)
    powers = caps(stack, placement)
    return {
        name: _node(stack, name, powers.get(name), tuple(one for one in standing[name] if one.ended or node.state != "drain"))
        for name, node in sorted(stack.nodes.items())
        if node.state != "lost"
    }


def _node(stack: Stack, name: str, power: Watts | None, allocations: tuple[Allocation, ...]) -> Desired:
    hardware = stack.hardware_of(name)
    tuning = stack.tuning_of(name)
    pinned = {cpu for allocation in allocations for cpu in allocation.cpus}
    shared = cpulist.write(set(range(int(hardware.vcpus) // 1000)) - pinned)
    going = [one for one in allocations if not one.ended]
    # Only where memory may be lent has anyone to be protected from it.
    protects = any(stack.workloads[one.workload].each.memory.open for one in going)
    most = lending.most(hardware, going, stack.workloads) if protects else {}
    reach = lending.reach(hardware, going, stack.workloads, most)
    return Desired(
        node=name,
        address=stack.nodes[name].ssh,
        fleet=stack.fleet,
        state=NodeState(
            settings=settings(tuning, {key: int(getattr(hardware, key)) for key in ("hugepages", "hugepages_1g")}),
            gpus=_gpus(stack, hardware, tuning, power, allocations),
            interface=hardware.interface,
            interface_bps=int(hardware.nic) if hardware.interface else 0,
            disk=hardware.disk,
            telemetry=_telemetry(stack, allocations),
            allocations={
                name: _protected(
                    _allocation(stack.workloads[allocation.workload], allocation, hardware, shared, name),
                    most.get(allocation.name, 0) if protects and not allocation.ended else None,
                    reach.get(allocation.name),
                )
                for name, allocation in sorted((stack.runs_as(each), each) for each in allocations)
            },
        ),
        hardware=declared(stack.hardware[stack.nodes[name].hardware]),
        ended=tuple(sorted(stack.runs_as(each) for each in allocations if each.ended)),
        hold=tuple(sorted(stack.runs_as(each) for each in allocations if stack.workloads[each.workload].hold)),
        handover={stack.runs_as(allocation): handover(stack.workloads[allocation.workload]) for allocation in allocations},
        **_rack(stack, name),
        power_w=int(stack.hardware_of(name).power or 0),
    )


def _telemetry(stack: Stack, allocations: tuple[Allocation, ...]) -> TelemetryState | None:
    """With the teams of those alone who have something on the node: nobody else's name is left there."""
    if stack.telemetry is None:
        return None
    users = {stack.workloads[one.workload].user for one in allocations}
    teams = {user: line[0] for user in sorted(users) if (line := stack.teams_of(user))}
    return TelemetryState(port=stack.telemetry.port, scrapers=stack.telemetry.scrapers, teams=teams)


def _rack(stack: Stack, name: str) -> dict[str, Any]:
    rack = stack.nodes[name].rack
    power = stack.racks[rack].power if rack in stack.racks else None
    return {} if power is None else {"rack": rack, "rack_power_w": int(power)}


def handover(workload: Workload) -> Handover:
    """How its replicas change place."""
    if workload.gang is not None:
        return "together"
    ways: dict[str, Handover] = {"surge": "healthy-first", "roll": "one-by-one", "recreate": "stop-first"}
    return ways[workload.on_update] if workload.kind == "serve" else "stop-first"


def _gpus(
    stack: Stack, hardware: Hardware, tuning: Tuning, cap: Watts | None, allocations: tuple[Allocation, ...]
) -> dict[int, GpuState]:
    """Settings of each GPU: those of the one who has all of it, else the node's. A GPU with none is left out."""
    holder = {one.index: stack.workloads[each.workload].each for each in allocations for one in each.gpus if one.whole}
    found: dict[int, GpuState] = {}
    for gpu in range(hardware.gpus.count):
        own = holder.get(gpu)
        power = (own and own.gpu_power) or cap
        clock = (own and own.gpu_clock) or tuning.gpu_clock
        state = GpuState(
            persistence=tuning.gpu_persistence,
            power_w=None if power is None else int(power),
            clock_mhz=None if clock is None else int(clock) // 10**6,
        )
        if state != GpuState():
            found[gpu] = state
    return found


def _allocation(workload: Workload, allocation: Allocation, hardware: Hardware, shared: str, name: str) -> AllocationState:
    if allocation.ended:
        cache = min(workload.each.cache, allocation.storage)
        return AllocationState(
            workload=name.rpartition("-")[0],
            scratch=_directory(Bytes(int(allocation.storage) - int(cache)), workload, hardware),
            cache=_directory(cache, workload, hardware),
            unit=_unit(workload),
        )
    held = _held(workload, allocation, hardware)
    return AllocationState(
        workload=name.rpartition("-")[0],
        gpus=allocation.gpus,
        slice=_slice(workload, allocation, hardware, shared, held["slice"]),
        scratch=_directory(workload.each.scratch, workload, hardware),
        cache=_directory(workload.each.cache, workload, hardware),
        bandwidth=BandwidthState(**held["bandwidth"]),
        unit=_unit(workload).model_copy(update={"links": _links(allocation, hardware)}),
    )


def _held(workload: Workload, allocation: Allocation, hardware: Hardware) -> dict[str, dict[str, Any]]:
    """By section and key of AllocationState, the amounts that the node enforces, rounded to what the kernel counts in.

    With the ceiling, of those that may be more while others leave it idle; none is above what the machine has.

    Directories are made by `_directory`: the workload says how large each of the two is.
    """
    found: dict[str, dict[str, Any]] = {"slice": {}, "bandwidth": {}}
    for row, how in COUNTED:
        if len(how.at) == 1 and (not how.needs or getattr(hardware, how.needs)):
            section, _, key = next(iter(how.at)).partition(".")
            held = found[section][key] = how.rounded(row.held(allocation))
            if how.ceiling and held and row.capacity:
                most = how.rounded(min(row.may_use(allocation, workload), row.capacity.amount(hardware))) or 0
                found[section][how.ceiling.partition(".")[2]] = most if most > held else None
    return found


def _protected(state: AllocationState, most: int | None, reach: int | None) -> AllocationState:
    """The same with all that it may use, and its guarantee out of reach for those who borrow; None: nobody borrows there.

    `reach`: up to where its node may raise that.
    """
    held = state.slice.memory_max
    if most is None or not held:
        return state
    return state.model_copy(update={"slice": state.slice.model_copy(update=lending.limits(held, max(held, most), reach))})


def _slice(workload: Workload, allocation: Allocation, hardware: Hardware, shared: str, held: dict[str, Any]) -> SliceState:
    """Ceilings of the cgroup.

    CPU weight is the allocation's part of the machine in ten-thousandths, so weights on one node are proportional to what is
    guaranteed: under load each has at least that, and takes what is idle up to its quota. Who pins has no quota: nobody else
    is on its cores.
    """
    most = min(int(workload.each.vcpus.most), int(hardware.vcpus)) if workload.each.vcpus.open else 0
    quota = max(int(allocation.vcpus), most)
    return SliceState(
        cpus=cpulist.write(allocation.cpus) or shared,
        mems=cpulist.write(allocation.numa),
        cpu_weight=min(10_000, max(1, int(allocation.vcpus) * 10_000 // max(1, int(hardware.vcpus)))),
        cpu_quota_m=None if allocation.cpus else quota,
        **held,
        memory_high=lending.high(held["memory_max"]),
        swap_max=0,
        tasks_max=workload.each.tasks,
        **(disk_io(workload, allocation, hardware) if hardware.disk else {}),
    )


def _directory(size: Bytes, workload: Workload, hardware: Hardware) -> DirectoryState | None:
    """None without a size, or where the machine declares no disk to hold quotas."""
    if not size or not hardware.disk:
        return None
    return DirectoryState(quota=int(size) // PAGE * PAGE, owner=workload.user)


def _links(allocation: Allocation, hardware: Hardware) -> tuple[tuple[int, ...], ...] | None:
    """What its hardware says of the links of its GPUs; None where that says nothing, or there are no two whole ones."""
    mine = {one.index for one in allocation.gpus if one.whole}
    if hardware.links == Links() or len(mine) < 2:
        return None
    return tuple(found for group in hardware.nvlink if len(found := tuple(i for i in group if i in mine)) > 1)


def _unit(workload: Workload) -> UnitState:
    """Jobs (train, batch) are not started again when they end or fail: their end is an answer. Services and holders are.

    `restart` says otherwise for failures; it never starts again what ended well.
    """
    run = workload.run
    lasting = run is None or workload.kind == "serve"
    return UnitState(
        user=workload.user,
        command=run.command if run else "",
        env=dict(sorted(run.env.items())) if run else {},
        stop_signal=workload.stop.signal,
        grace_s=int(workload.stop.grace),
        time_limit_s=int(workload.time.limit) if workload.time.limit is not None and workload.time.past == "stop" else None,
        healthy=run.healthy if run else "",
        port=run.port if run else None,
        restart=lasting if workload.restart is None else workload.restart == "on-failure",
        gang=workload.gang is not None,
        on_boot=workload.boots,
        unconfined=None if run is None or run.confined else True,
    )
