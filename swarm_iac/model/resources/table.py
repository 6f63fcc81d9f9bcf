"""Which resources are counted? One row each: what sums, limits, locks, messages and advice say of it is derived from here.

All amounts are whole numbers in the base unit: one, a thousandth of a GPU or vCPU, bytes, bit/s. What a row can say is in
`row`.

What is not in the table has rules of its own: which GPU or core is whose, NUMA nodes, the power of racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, not_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from swarm_iac.model.base import value_at, with_value
from swarm_iac.model.device import WHOLE
from swarm_iac.model.hardware import Gpus, Hardware
from swarm_iac.model.resources.row import PAGE, Capacity, Enforced, LimitKey, Resource, Uplink, lower
from swarm_iac.model.settings import GIANT_PAGE, HUGE_PAGE
from swarm_iac.model.step import Verb
from swarm_iac.units import BandwidthRange, BitsPerSecond, Bytes, BytesPerSecond, Cpus, GpuCount, Iops, Range

if TYPE_CHECKING:
    from swarm_iac.model.placement import Allocation
    from swarm_iac.model.state import Declared, Facts, NodeState
    from swarm_iac.model.workload import Workload


def one_by_one(need: int) -> int:
    """Whole ones."""
    return 1


def milli_step(need: int) -> int:
    """Whole vCPUs and GPUs; of less than one, twentieths."""
    return 1000 if need >= 1000 else 50


def giga_step(need: int) -> int:
    """GB and Gbit/s; of less than four, MB and Mbit/s."""
    return 10**9 if need >= 4 * 10**9 else 10**6


def _gpus_edit(workload: Workload, amount: int) -> tuple[str, object]:
    """As it is written: whole ones, or a part of one."""
    gpus, count = workload.each.gpus, amount // WHOLE or GpuCount(amount)
    if gpus.profile:
        few = max(1, amount // gpus.part)
        return ("each.gpus.count", few) if gpus.memory else ("each.gpus", f"{few} x {gpus.model}/{gpus.profile}")
    if gpus.memory:
        return ("each.gpus.count", count) if amount >= WHOLE else ("each.gpus.share", str(count))
    return "each.gpus", f"{count} x {gpus.model}" if gpus.model else amount / WHOLE if amount < WHOLE else count


def _fewer_gpus(workload: Workload, amount: int) -> Workload:
    """Whole ones, or a part of one: of one and a half that is one."""
    part: dict[str, Any] = {"count": max(1, amount // WHOLE), "share": GpuCount(min(amount, WHOLE))}
    gpus = workload.each.gpus
    if gpus.profile:
        part = {"count": max(1, amount // gpus.part)}
    return with_value(workload, "each.gpus", gpus.model_copy(update=part) if amount else Gpus(count=0))


def _pinned(workload: Workload) -> int:
    return int(workload.each.vcpus) // 1000 if workload.each.pinned else 0


def _unpinned(workload: Workload, amount: int) -> Workload:
    """Fewer pinned cores are fewer vCPUs, which have a row of their own; none are shared ones."""
    return workload if amount else with_value(workload, "each.pinned", False)


def _memory(facts: Facts, old: NodeState, new: NodeState, declared: Declared | None) -> int:
    """min(found, declared): what a machine has beyond its declaration is its own. 0 where nobody looked. [bytes]"""
    return min(facts.memory, declared.memory) if declared and declared.memory else facts.memory


def _disk(workload: Workload) -> int:
    return int(workload.each.scratch) + int(workload.each.cache)


def _disk_key(workload: Workload) -> str:
    return "each.cache" if workload.each.cache and not workload.each.scratch else "each.scratch"


def _disk_edit(workload: Workload, amount: int) -> tuple[str, object]:
    key, each = _disk_key(workload), workload.each
    other = each.cache if key == "each.scratch" else each.scratch
    return key, str(Bytes(max(0, amount - int(other))))


def _less_disk(workload: Workload, amount: int) -> Workload:
    """Of local disk the lock knows the sum: what has changed is taken to be the scratch."""
    cache = min(int(workload.each.cache), amount)
    return with_value(with_value(workload, "each.cache", Bytes(cache)), "each.scratch", Bytes(amount - cache))


def _rate(way: str) -> Callable[[Workload], int]:
    def rate(workload: Workload) -> int:
        """What members send each other counts each way."""
        return int(getattr(workload.network, way) or 0) + int(workload.network.between or 0)

    return rate


def _rate_key(way: str) -> Callable[[Workload], str]:
    def key(workload: Workload) -> str:
        return f"network.{way}" if getattr(workload.network, way) or not workload.network.between else "network.between"

    return key


def _rate_most(way: str) -> Callable[[Workload], int]:
    def most(workload: Workload) -> int:
        """As the rate, of the upper ends."""
        rates: tuple[Range | None, ...] = (getattr(workload.network, way), workload.network.between)
        return sum([int(rate.most) for rate in rates if rate])

    return most


def _rate_edit(way: str) -> Callable[[Workload, int], tuple[str, object]]:
    def edit(workload: Workload, amount: int) -> tuple[str, object]:
        key, between = _rate_key(way)(workload), int(workload.network.between or 0)
        rest = amount if key == "network.between" else max(0, amount - between)
        return key, str(lower(value_at(workload, key), rest, BitsPerSecond))

    return edit


def _lower_rate(way: str) -> Callable[[Workload, int], Workload]:
    def lowered(workload: Workload, amount: int) -> Workload:
        between = min(int(workload.network.between or 0), amount)
        less = with_value(
            workload, "network.between", lower(workload.network.between, between, BandwidthRange) if between else None
        )
        return with_value(less, f"network.{way}", lower(getattr(workload.network, way), amount - between, BandwidthRange))

    return lowered


def _shaped(path: str, row: str, *, in_line: bool = True) -> Enforced:
    """A rate, kept in whole bytes per second: that is what the kernel's classes count in."""
    return Enforced(
        {path: row}, Verb.TRAFFIC, "bandwidth", lambda facts, old, new, declared: new.interface_bps or old.interface_bps,
        grain=8, needs="interface", in_line=in_line, ceiling=path.replace("_bps", "_ceil_bps"),
    )  # fmt: skip


def kilo_step(need: int) -> int:
    """Thousands; of less than four, ones."""
    return 10**3 if need >= 4 * 10**3 else 1


def gib_step(need: int) -> int:
    """Whole pages of 1 GiB."""
    return GIANT_PAGE


#: What a disk can do whose hardware does not say it: more than any. Nothing is guaranteed of it, and ceilings hold.
UNDECLARED = 10**13


def _io(key: str) -> Callable[[Workload], int]:
    def asked(workload: Workload) -> int:
        return int(getattr(workload.each.io, key) or 0)

    return asked


def _io_most(key: str) -> Callable[[Workload], int]:
    def most(workload: Workload) -> int:
        own: Range | None = getattr(workload.each.io, key)
        return int(own.most) if own else 0

    return most


def _disk_rate(key: str) -> Callable[[Hardware], int]:
    def has(hardware: Hardware) -> int:
        return int(getattr(hardware, key)) or UNDECLARED

    return has


def _pages(key: str, path: str, row: str, page: int) -> Enforced:
    """Huge pages that workloads may have of a machine, whatever it keeps for itself. 0: it has none."""
    return Enforced(
        {path: row}, Verb.SLICE, "huge pages", lambda facts, old, new, declared: getattr(declared, key) if declared else 0,
        grain=page, needs=key, unlimited=True,
    )  # fmt: skip


def _giant_pages(workload: Workload) -> int:
    """Whole ones: of less there is none."""
    return -(-int(workload.each.hugepages_1g) // GIANT_PAGE) * GIANT_PAGE


def _whole_giant(amount: int) -> Bytes:
    return Bytes(amount // GIANT_PAGE * GIANT_PAGE)


_HUGE_PAGES = LimitKey(Bytes, "huge pages", "hugepages", "Memory in huge pages, of each size.")

_THROUGHPUT = LimitKey(BytesPerSecond, "disk throughput", "io", "Throughput of disks, the larger of read and written.")

_BANDWIDTH = LimitKey(BitsPerSecond, "bandwidth", "bandwidth", "Network bandwidth, the larger of in and out.")

#: Every countable resource. What machines have comes first; the order is that of every tuple, message and column.
RESOURCES: tuple[Resource, ...] = (
    Resource(
        GpuCount, "GPUs", "gpus", "each.gpus", lambda request: request.each.gpus.milli, milli_step,
        pieces="gpus", measured="gpu_milli",
        capacity=Capacity("gpus", lambda has: has.gpus.count, "gpus_fit_node", per=WHOLE),
        taken=lambda request: request.each.gpus.count if request.each.gpus.whole else 0,  # the rest is counted by cards
        limit=LimitKey(GpuCount, "GPUs", "gpus", "GPUs; a part of one counts as much as it is."),
        enforced=Enforced({"gpus": "gpus"}, Verb.SLICE, "GPUs", live=False),
        editing=_gpus_edit, lowering=_fewer_gpus,
    ),
    Resource(
        Cpus, "vCPUs", "vcpus", "each.vcpus", lambda request: int(request.each.vcpus), milli_step,
        capacity=Capacity("vcpus", lambda has: int(has.vcpus), "vcpus_fit_node", "vcpus_fit_node"),
        ceiling=lambda request: int(request.each.vcpus.most),
        limit=LimitKey(Cpus, "vCPUs", "vcpus", "vCPUs."),
        zero="lock and JSON", head="CPUs",
    ),
    Resource(
        int, "pinned cores", "cores", "each.vcpus", _pinned, one_by_one,
        pieces="cpus", part_of="vcpus",
        capacity=Capacity("vcpus", lambda has: int(has.vcpus) // 1000, "cores_fit_node"),
        enforced=Enforced({"slice.cpus": "cpus"}, Verb.SLICE, "cores"),
        editing=lambda request, amount: ("each.pinned", False), lowering=_unpinned,
    ),
    Resource(
        Bytes, "memory", "memory", "each.memory", lambda request: int(request.each.memory), giga_step,
        capacity=Capacity("memory", lambda has: int(has.memory), "memory_fits_node", "memory_fits_node"),
        limit=LimitKey(Bytes, "memory", "memory", "RAM."),
        enforced=Enforced(
            {"slice.memory_max": "memoryMax"}, Verb.SLICE, "memory", _memory,
            grain=PAGE, unlimited=True, beside=("slice.memory_high", "slice.memory_low", "slice.memory_most"),
        ),
        # What is lent of it is a part of `memory_max`, see plan.state.lending: until it is given back nobody else can have it.
        ceiling=lambda request: int(request.each.memory.most),
        zero="lock and JSON",
    ),
    Resource(
        Bytes, "storage", "storage", "each.scratch", _disk, giga_step,
        capacity=Capacity("nvme", lambda has: int(has.nvme), "storage_fits_node", "storage_fits_node"),
        limit=LimitKey(Bytes, "storage", "storage", "Scratch and cache directories on local disks."),
        enforced=Enforced(
            {"scratch.quota": "scratch", "cache.quota": "cache"}, Verb.DIRECTORIES, "disk",
            lambda facts, old, new, declared: facts.disks.get(new.disk or old.disk, 0), grain=PAGE, needs="disk",
        ),
        files=True, zero="JSON", key_in=_disk_key, editing=_disk_edit, lowering=_less_disk,
    ),
    Resource(
        BitsPerSecond, "bandwidth out", "egress", "network.egress", _rate("egress"), giga_step, ceiling=_rate_most("egress"),
        capacity=Capacity("nic", lambda has: int(has.nic), "egress_fits_nic", "nic_carries_node"),
        limit=_BANDWIDTH, enforced=_shaped("bandwidth.out_bps", "bandwidthOut"),
        uplink=Uplink("egress_fits_uplink", "leave"),
        zero="JSON", head="out",
        key_in=_rate_key("egress"), editing=_rate_edit("egress"), lowering=_lower_rate("egress"),
    ),
    Resource(
        BitsPerSecond, "bandwidth in", "ingress", "network.ingress", _rate("ingress"), giga_step, ceiling=_rate_most("ingress"),
        capacity=Capacity("nic", lambda has: int(has.nic), "ingress_fits_nic", "nic_carries_node"),
        limit=_BANDWIDTH, enforced=_shaped("bandwidth.in_bps", "bandwidthIn", in_line=False),
        uplink=Uplink("ingress_fits_uplink", "enter"),
        zero="JSON", head="in",
        key_in=_rate_key("ingress"), editing=_rate_edit("ingress"), lowering=_lower_rate("ingress"),
    ),
    Resource(
        int, "licences", "licences", "each.licences", lambda request: request.each.licences, one_by_one,
        limit=LimitKey(int, "licences", "licences", "Licences held at once; no machine has any."),
    ),
    Resource(
        int, "replicas", "replicas", "replicas", lambda request: 1, one_by_one,
        measured="running",
        limit=LimitKey(int, "replicas", "replicas", "Running replicas; what has finished does not count."),
        key_in=lambda request: "replicas" if request.gang is None else "gang",
    ),
    Resource(
        BytesPerSecond, "disk reads", "io_read", "each.io.read", _io("read"), giga_step, ceiling=_io_most("read"),
        capacity=Capacity("disk_read", _disk_rate("disk_read"), "reads_fit_disk", "reads_fit_disk"),
        limit=_THROUGHPUT,
    ),
    Resource(
        BytesPerSecond, "disk writes", "io_write", "each.io.write", _io("write"), giga_step, ceiling=_io_most("write"),
        capacity=Capacity("disk_write", _disk_rate("disk_write"), "writes_fit_disk", "writes_fit_disk"),
        limit=_THROUGHPUT,
    ),
    Resource(
        Iops, "IOPS", "iops", "each.io.iops", _io("iops"), kilo_step, ceiling=_io_most("iops"),
        capacity=Capacity("disk_iops", _disk_rate("disk_iops"), "iops_fit_disk", "iops_fit_disk"),
        limit=LimitKey(Iops, "IOPS", "iops", "Operations of disks per second, the larger of reads and writes."),
    ),
    Resource(
        Bytes, "huge pages of 2 MiB", "hugepages", "each.hugepages", lambda request: int(request.each.hugepages), giga_step,
        capacity=Capacity("hugepages", lambda has: int(has.hugepages), "huge_pages_fit_node", "huge_pages_fit_node"),
        limit=_HUGE_PAGES, enforced=_pages("hugepages", "slice.hugetlb_2m", "hugepages", HUGE_PAGE),
    ),
    Resource(
        Bytes, "huge pages of 1 GiB", "hugepages_1g", "each.hugepages_1g", _giant_pages, gib_step,
        capacity=Capacity(
            "hugepages_1g", lambda has: int(has.hugepages_1g) // GIANT_PAGE * GIANT_PAGE,
            "giant_pages_fit_node", "giant_pages_fit_node",
        ),
        limit=_HUGE_PAGES, enforced=_pages("hugepages_1g", "slice.hugetlb_1g", "hugepages1G", GIANT_PAGE),
        editing=lambda request, amount: ("each.hugepages_1g", str(_whole_giant(amount))),
        lowering=lambda request, amount: with_value(request, "each.hugepages_1g", _whole_giant(amount)),
    ),
)  # fmt: skip

#: Those that `limits` bound, by the key there.
LIMITED: dict[str, tuple[Resource, ...]] = {
    key: tuple(row for row in RESOURCES if row.limit and row.limit.key == key)
    for key in dict.fromkeys(row.limit.key for row in RESOURCES if row.limit)
}
#: The limits by their keys.
LIMITS: dict[str, LimitKey] = {key: rows[0].limit for key, rows in LIMITED.items() if rows[0].limit}
#: Those that an allocation holds an amount of, and not pieces with numbers.
SIZES: tuple[Resource, ...] = tuple(row for row in RESOURCES if not row.pieces and not row.itself)
#: Those that nodes enforce, and how.
ENFORCED: tuple[tuple[Resource, Enforced], ...] = tuple((row, row.enforced) for row in RESOURCES if row.enforced)
#: Of these, those that are counted: a node has so much, and each allocation an amount.
COUNTED: tuple[tuple[Resource, Enforced], ...] = tuple((row, how) for row, how in ENFORCED if how.has)


def reader(rows: Iterable[Resource]) -> Callable[[Allocation], tuple[int, ...]]:
    """What one allocation holds of each of these (two or more), in their order: for thousands of allocations."""
    fields = attrgetter(*(row.measured or row.field for row in rows))

    def held(one: Allocation) -> tuple[int, ...]:
        return tuple([len(value) if type(value) is tuple else int.__int__(value) for value in fields(one)])

    return held


#: What one allocation holds of everything, in the order of the table.
held_of = reader(RESOURCES)


def ceilings(one: Allocation, workload: Workload) -> dict[str, str]:
    """What one allocation may use beyond what it holds, by row: `2..8 vCPUs`."""
    found = ((row, row.held(one)) for row in RESOURCES if row.ceiling)
    return {row.name: f"{row.span(one, workload)} {row.word}" for row, held in found if row.may_use(one, workload) > held}


def demand_of(workload: Workload) -> tuple[int, ...]:
    """What one replica asks for of everything, in the order of the table."""
    return tuple([row.demand(workload) for row in RESOURCES])


def sizes() -> dict[str, Any]:
    """A field for each of SIZES, as `create_model` takes it."""
    return {row.name: (_type(row.unit), _size(row)) for row in SIZES}


def _size(row: Resource) -> Any:
    about = row.limit.description if row.limit else f"{row.noun}."
    default: Any = ... if row.zero == "lock and JSON" else row.unit(0)
    return Field(default=default, description=about, exclude_if=not_ if row.silent else None)


def limits() -> dict[str, Any]:
    """A field for each of LIMITS, as `create_model` takes it; None: no limit."""
    return {key: (_type(LIMITS[key].unit) | None, _limit(LIMITS[key], rows[0])) for key, rows in LIMITED.items()}


def _limit(one: LimitKey, row: Resource) -> Any:
    return Field(default=None, description=one.description, exclude_if=missing if row.silent else None)


def missing(value: object) -> bool:
    """Is there none?"""
    return value is None


def _type(unit: type[int]) -> Any:
    return Annotated[int, Field(ge=0)] if unit is int else unit
