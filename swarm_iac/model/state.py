"""What is one node like, wanted or found? One shape for both, so that a plan is a plain diff of two values.

Everything here is written as the machine reads it back: bytes, watts, MHz, bit/s as plain integers in JSON with the
unit in the name, because this is what crosses to the node's own program.
"""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from swarm_iac.model import device
from swarm_iac.model.base import CPUS, Card, Name, Value
from swarm_iac.model.device import Device
from swarm_iac.model.settings import SettingsState
from swarm_iac.model.workload import OnBoot


def _list_form(text: str) -> str:
    """What the kernel writes for a set of CPUs or NUMA nodes: a node may say anything else, and plans are made with it."""
    count = 0
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit() and len(first) <= 5 and (not dash or (last.isascii() and last.isdigit()))):
            raise ValueError(f"{text[:40]!r} is no list of CPUs")
        count += int(last[:6] or first) - int(first) + 1
        if len(last) > 5 or int(last or first) < int(first) or count > CPUS:
            raise ValueError(f"{text[:40]!r} is no list of CPUs")
    return text


#: How a job ended that reached its time limit; the node's word.
TIME_LIMIT = "time-limit"

CpuList = Annotated[str, AfterValidator(_list_form)]


def _unknown(value: object) -> bool:
    return value is None


class GpuState(Value):
    """Settings of one GPU. None: not managed."""

    persistence: bool | None = None
    power_w: int | None = Field(default=None, description="Power limit. [W]")
    clock_mhz: int | None = Field(default=None, description="Locked graphics clock. [MHz]")


class SliceState(Value):
    """The cgroup of one allocation, as systemd and the kernel show it. None: no ceiling."""

    cpus: CpuList = Field(default="", description="cpuset in the kernel's list form, e.g. 0-3,8; empty: all.")
    mems: CpuList = Field(default="", description="NUMA nodes in list form; empty: all.")
    cpu_weight: int = 100
    cpu_quota_m: int | None = Field(default=None, description="Most CPU time, in thousandths of a CPU.")
    memory_low: int | None = Field(
        default=None, description="Reclaimed only when nobody else has any to spare; None: not managed. [bytes]"
    )
    memory_high: int | None = Field(default=None, description="[bytes]")
    memory_max: int | None = Field(default=None, description="[bytes]")
    memory_most: int | None = Field(
        default=None,
        exclude_if=_unknown,
        description="Up to which the node raises memory.max by what others of a range leave idle; None: not. [bytes]",
    )
    hugetlb_2m: int | None = Field(default=None, exclude_if=_unknown, description="Huge pages of 2 MiB. [bytes]")
    hugetlb_1g: int | None = Field(default=None, exclude_if=_unknown, description="Huge pages of 1 GiB. [bytes]")
    swap_max: int | None = Field(default=0, description="[bytes]")
    tasks_max: int | None = None
    io_read_bps: int | None = Field(default=None, description="[bytes/s]")
    io_write_bps: int | None = Field(default=None, description="[bytes/s]")
    io_read_iops: int | None = Field(default=None, exclude_if=_unknown, description="[1/s]")
    io_write_iops: int | None = Field(default=None, exclude_if=_unknown, description="[1/s]")
    io_weight: int | None = Field(
        default=None, exclude_if=_unknown, description="Part of the disk's guaranteed throughput, of 10,000; None: not managed."
    )
    gpus_open: bool | None = Field(
        default=None, description="True: the files of its GPUs let accounts outside all slices open them."
    )


class DirectoryState(Value):
    """A directory with a project quota."""

    quota: int = Field(description="Hard limit. [bytes]")
    owner: str
    mode: str = "0700"


class BandwidthState(Value):
    """Bandwidth of one slice. None: not shaped."""

    out_bps: int | None = Field(default=None, description="Guaranteed. [bit/s]")
    out_ceil_bps: int | None = Field(default=None, description="Most, while others leave it idle; None: no more. [bit/s]")
    in_bps: int | None = Field(default=None, description="As out. [bit/s]")
    in_ceil_bps: int | None = Field(default=None, description="As out. [bit/s]")


class UnitState(Value):
    """The workload's unit. An empty command is a holder that keeps the cgroup alive."""

    user: str
    command: str = ""
    env: dict[str, str] = {}
    stop_signal: str = "TERM"
    grace_s: int = 30
    time_limit_s: int | None = Field(
        default=None, description="Most that one run may take, its grace included; None: no limit. [s]"
    )
    healthy: str = Field(default="", description="'/path' with port, or a command; empty: running is healthy.")
    port: int | None = None
    active: bool = True
    restart: bool = Field(default=True, description="Started again when it fails.")
    gang: bool = Field(default=False, description="Never started again without its gang.")
    unconfined: bool | None = Field(default=None, description="True: it may do what jobs do not need.")
    links: tuple[tuple[Card, ...], ...] | None = Field(
        default=None,
        exclude_if=_unknown,
        description="For the topology file of NCCL: groups of its GPUs that NVLink joins; None: no file.",
    )
    on_boot: OnBoot = Field(default="start", description="After a reboot: started by the node itself, or waits for a run.")


class AllocationState(Value):
    """One allocation on one node."""

    workload: Name
    gpus: tuple[Device, ...] = Field(default=(), description="Its GPUs, numbered in the machine's own order by PCI address.")
    slice: SliceState = SliceState()
    scratch: DirectoryState | None = None
    cache: DirectoryState | None = None
    bandwidth: BandwidthState = BandwidthState()
    unit: UnitState

    @property
    def cards(self) -> tuple[int, ...]:
        """Numbers of its GPUs, also of those that it holds a part of."""
        return device.cards(self.gpus)


class TelemetryState(Value):
    """What measures a node, and whom it names."""

    port: int
    scrapers: tuple[str, ...] = Field(default=(), description="Addresses or networks; none: the node itself alone.")
    teams: dict[str, str] = Field(default={}, description="The team of each user who has an allocation on the node.")


class NodeState(Value):
    """All that is managed on one node."""

    settings: SettingsState = SettingsState()
    gpus: dict[Card, GpuState] = {}
    interface: str = Field(default="", description="The interface that is shaped; empty: none.")
    interface_bps: int = Field(default=0, description="Its whole bandwidth. [bit/s]")
    disk: str = Field(default="", description="The disk for scratch and caches; empty: none.")
    allocations: dict[str, AllocationState] = {}
    telemetry: TelemetryState | None = Field(default=None, exclude_if=_unknown, description="None: nothing is measured.")


class GpuFacts(Value):
    """One card as NVML shows it."""

    index: Card
    pci: str
    uuid: str
    model: str
    memory: int = Field(description="[bytes]")
    numa: int = -1
    power_min_w: int = 0
    power_max_w: int = 0
    power_default_w: int = 0
    processes: tuple[str, ...] = Field(default=(), description="'PID USER COMMAND' of each process on it.")
    mig: bool = Field(default=False, exclude_if=not_, description="It is in MIG mode.")
    instances: tuple[Annotated[str, Field(pattern=r"^[1-7]g@[0-7]/[1-8]$")], ...] = Field(
        default=(),
        max_length=8,
        exclude_if=not_,
        description="MIG instances that are there: compute slices@first/number of memory slices.",
    )
    nvlink: tuple[Card, ...] | None = Field(
        default=None, exclude_if=_unknown, description="GPUs that NVLink joins it with; None: nobody could tell."
    )
    pcie: tuple[Card, ...] = Field(default=(), exclude_if=not_, description="GPUs behind the same PCIe switch.")


class Facts(Value):
    """What the machine is, whatever is wanted of it."""

    hostname: str = ""
    kernel: str = ""
    cpus: int = Field(default=0, ge=0, le=CPUS)
    memory: int = Field(default=0, ge=0, description="[bytes]")
    numa: dict[int, CpuList] = Field(default={}, description="CPU list of each NUMA node.")
    gpus: tuple[GpuFacts, ...] = ()
    driver: str = ""
    disks: dict[str, int] = Field(default={}, description="Unused or swarm-managed disks and their size. [bytes]")
    interfaces: dict[str, int] = Field(default={}, description="Interfaces and their speed. [bit/s], 0 unknown")
    governors: tuple[str, ...] = ()


class LedgerHead(Value):
    """Whose the node is. `serial` only grows."""

    lineage: str
    serial: int = Field(ge=0, le=1 << 50)
    fleet: str


class RolloutFailure(Value):
    """A value that a roll-out tried on a node in vain; what was there before was put back."""

    value: Any = Field(default=None, description="What was tried, as JSON; see Change.new.")
    why: str = Field(default="", description="The node's own words.")
    serial: int = Field(default=0, description="The run that tried it.")


class Observed(Value):
    """One node as it was found. When `error` is set the rest is what was last known, or empty."""

    node: Name
    error: str = Field(default="", description="Why it could not be read, in the node's (or ssh's) own words.")
    asleep: bool = Field(
        default=False, exclude_if=not_, description="It was not asked: it is powered off on purpose, and `error` says so."
    )
    facts: Facts = Facts()
    ledger: LedgerHead | None = None
    state: NodeState = NodeState()
    agent: str = Field(default="", description="Digest of the node program installed there; empty: none.")
    health: dict[str, str] = Field(
        default={},
        description="Of each allocation: healthy | starting | stopping | stopped | failed | done | waiting (since the reboot) "
        "| unknown (no answer in time).",
    )
    started: dict[str, Annotated[int, Field(ge=0, le=10**11)]] = Field(
        default={}, description="Of each allocation that runs: when this run of it began. [s since 1970]"
    )
    ends: dict[str, str] = Field(
        default={}, description=f"Of each that ended: systemd's word for how (success, oom-kill, …), or {TIME_LIMIT}."
    )
    lent: dict[str, Annotated[int, Field(ge=0, le=1 << 60)]] = Field(
        default={},
        exclude_if=not_,
        description="memory.max of now of each allocation to which its node lends more or less than the plan. [bytes]",
    )
    rollout_failures: dict[str, RolloutFailure] = Field(default={}, description="By path; see Change.path.")
    booted: int = Field(default=0, ge=0, le=10**11, description="When it booted, if something waits since. [s since 1970]")
    foreign: tuple[str, ...] = Field(default=(), description="What looks like ours and is in no ledger; left alone.")
    troubles: tuple[str, ...] = Field(default=(), description="What is wrong with the machine, although it could be read.")
    unverified: tuple[str, ...] = Field(
        default=(), exclude_if=not_, description="Values of the state that a driver failed to tell: what is recorded stands."
    )


#: How an allocation changes: it stops before it starts; its service keeps min(before, desired) healthy replicas; its
#: service keeps all of those but one; the members of its gang all stop before any of them starts.
Handover = Literal["stop-first", "healthy-first", "one-by-one", "together"]


class Declared(Value):
    """What the stack file says the machine is made of, as far as the machine can be asked."""

    gpus: int = 0
    gpu_model: str = Field(default="", description="As stack files name it, `|` between several; empty: any.")
    cpus: int = 0
    memory: int = Field(default=0, description="[bytes]")
    numa: int = 1
    hugepages: int = Field(default=0, exclude_if=not_, description="Huge pages of 2 MiB for workloads. [bytes]")
    hugepages_1g: int = Field(default=0, exclude_if=not_, description="Huge pages of 1 GiB for workloads. [bytes]")
    nvlink: tuple[tuple[Card, ...], ...] = Field(
        default=(), exclude_if=not_, description="Groups of GPUs that NVLink joins with each other."
    )


class Desired(Value):
    """One node as it should be."""

    node: Name
    address: str = Field(description="user@host[:port] or local.")
    fleet: Name
    state: NodeState = NodeState()
    handover: dict[str, Handover] = Field(default={}, description="Of each allocation here; left out: stop-first.")
    hold: tuple[str, ...] = Field(default=(), description="Allocations that keep what they hold after their end.")
    ended: tuple[str, ...] = Field(
        default=(), description="Finished allocations, as the lock file says: they are never started, and keep "
        "their files where they ran."
    )  # fmt: skip
    managed: bool = Field(default=True, description="False: restore everything (destroy, or the node left the stack).")
    hardware: Declared | None = Field(default=None, description="None: not checked.")
    rack: str = Field(default="", description="Its rack, when that has a power budget.")
    rack_power_w: int = Field(default=0, description="What the power limits of that rack's GPUs may add up to. [W]")
    power_w: int = Field(
        default=0, exclude_if=lambda watts: not watts, description="What those of its own GPUs may add up to; 0: any sum. [W]"
    )
