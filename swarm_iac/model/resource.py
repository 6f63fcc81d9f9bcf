"""Which resources are counted? One row each: what sums, limits, locks, messages and advice say of it is derived from here.

A row says how much one replica asks for and where, what has so much of it, and how an amount reads. All amounts are whole
numbers in the base unit: one, a thousandth of a GPU or vCPU, bytes, bit/s.

What is not in the table has rules of its own: which GPU or core is whose, NUMA nodes, the power of racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter, not_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from swarm_iac.model.base import value_at
from swarm_iac.model.device import WHOLE
from swarm_iac.model.hardware import Gpus, Hardware
from swarm_iac.model.step import Verb
from swarm_iac.units import BandwidthRange, BitsPerSecond, Bytes, Cpus, GpuCount, Range, span

if TYPE_CHECKING:
    from swarm_iac.model.placement import Allocation
    from swarm_iac.model.state import AllocationState, Facts, NodeState
    from swarm_iac.model.workload import Workload

#: Memory and quotas are kept in whole pages. [bytes]
PAGE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """How an amount reads: its unit, and what it is called."""

    unit: type[int]
    noun: str

    @property
    def many(self) -> bool:
        """Are there many of it, and not much?"""
        return self.unit in (int, Cpus, GpuCount)

    @property
    def word(self) -> str:
        """What follows a figure: `GPUs`, `of memory`."""
        return self.noun if self.many else f"of {self.noun}"

    def text(self, amount: int) -> str:
        """The figure with its unit: `2`, `10 GB`."""
        return str(self.unit(amount))

    def amount(self, amount: int) -> str:
        """The figure and the noun: `1 GPU`, `2 GPUs`, `10 GB of memory`."""
        text = self.text(amount)
        return f"{text} {self.word.removesuffix('s')}" if self.many and text == "1" else f"{text} {self.word}"

    def written(self, amount: int) -> object:
        """As it is written in a stack file: a number, or text with a unit."""
        return int(amount) if self.unit is int else self.text(amount)


@dataclass(frozen=True, slots=True, eq=False)
class LimitKey(Noun):
    """What `limits` calls it, at every level. Where two rows have the same one, it holds for each of them."""

    key: str
    description: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a machine has of it, and the names of the rules that keep it."""

    key: str  # under `hardware`
    of: Callable[[Hardware], int]
    rule: str  # in proofs and reasons of the solver
    #: In `limits`; empty where the owner of each piece is judged in its place.
    judged: str = ""
    #: How many base units one of these is: machines have whole GPUs, and are asked for whole ones.
    per: int = 1

    def amount(self, hardware: Hardware) -> int:
        """What a machine has, in base units."""
        return self.of(hardware) * self.per


@dataclass(frozen=True, slots=True)
class Uplink:
    """It goes through the uplink of a rack: the name of the solver's rule, and what it does there."""

    rule: str
    verb: str


@dataclass(frozen=True, slots=True, eq=False)
class Enforced:
    """How a node enforces what an allocation holds of it. An allocation that takes more waits for others to release theirs."""

    #: Path in AllocationState → key in the rows of a preview.
    at: Mapping[str, str]
    #: The step that takes it, and gives back what is held beyond the new amount.
    step: Verb
    #: What is still held by others, in messages: `disk of gpu-01 is still held by others`.
    noun: str
    #: How much a node has, from its facts and its state before and after; 0: unknown. None: each piece has its holders.
    has: Callable[[Facts, NodeState, NodeState], int] | None = None
    #: The node keeps multiples of this.
    grain: int = 1
    #: The key of hardware without which nothing is enforced.
    needs: str = ""
    #: Does None mean no ceiling? Otherwise it means that nothing is reserved.
    unlimited: bool = False
    #: Other values that fall and rise with it.
    beside: tuple[str, ...] = ()
    #: Path of what may be used while others leave it idle, where that is more. Nobody reserves it, so nobody waits for it.
    ceiling: str = ""
    #: Can it change while the workload runs?
    live: bool = True
    #: Is it shown in the line of an allocation that comes or goes?
    in_line: bool = True

    def amount(self, state: AllocationState) -> int:
        """What an allocation holds of it."""
        return sum([value_at(state, path) or 0 for path in self.at])

    def rounded(self, amount: int) -> int | None:
        """What a node keeps for an amount of the placement."""
        whole = amount // self.grain * self.grain
        return whole if self.unlimited else whole or None

    def lesser(self, old: AllocationState, new: AllocationState) -> dict[str, Any]:
        """By path, what both states allow. Of several values only the sum counts, so they change together."""
        if len(self.at) > 1:
            sections = {path.partition(".")[0] for path in self.at}
            return {one: getattr(new, one) for one in sections} if self.amount(new) < self.amount(old) else {}
        found = {path: self._least(value_at(old, path), value_at(new, path)) for path in (*self.at, *self.beside)}
        return found | ({self.ceiling: self._most(new, next(iter(found.values())))} if self.ceiling else {})

    def _most(self, new: AllocationState, kept: int | None) -> int | None:
        """The new ceiling, above what is kept: None where it is not."""
        most = value_at(new, self.ceiling) or self.amount(new)
        return most if kept is not None and most > kept else None

    def _least(self, *values: int | None) -> int | None:
        known = [value for value in values if value is not None]
        return min(known, default=None) if self.unlimited or len(known) == len(values) else None


@dataclass(frozen=True, slots=True, eq=False)
class Resource(Noun):
    """One row of the table."""

    #: Its name in tuples of the solver, in rules such as `user_stays_under_limits gpus`, in locks and in JSON.
    name: str
    #: Where a workload asks for it, and how much one replica of it does.
    key: str
    demand: Callable[[Workload], int]
    #: The step in which `swarm why` lowers a request, by its size: figures stay round.
    step: Callable[[int], int]
    #: Where an allocation lists the pieces that it holds; empty where it holds an amount, under the name of the row.
    pieces: str = ""
    #: Where it says how much they are, if not each is one.
    measured: str = ""
    #: None: no machine has it, and only `limits` bound it.
    capacity: Capacity | None = None
    #: What one replica takes of the machine's, in its units; None: all that it asks for.
    taken: Callable[[Workload], int] | None = None
    #: The most that it may use while others leave it idle; None: no more than it asks for. Nothing is counted by this.
    ceiling: Callable[[Workload], int] | None = None
    limit: LimitKey | None = None
    uplink: Uplink | None = None
    #: How a node enforces it; None: it does not.
    enforced: Enforced | None = None
    #: Does a finished job keep it?
    files: bool = False
    #: The row whose pieces it counts in another way.
    part_of: str = ""
    #: Where an allocation without any of it says so.
    zero: Literal["lock and JSON", "JSON", ""] = ""
    #: The head of its column, where that is not the noun.
    head: str = ""
    #: The key in one workload, where that is not always the same.
    key_in: Callable[[Workload], str] | None = None
    #: The key and value that lower the demand to an amount, where that is not the amount under the key.
    editing: Callable[[Workload, int], tuple[str, object]] | None = None
    #: The workload with its demand lowered to an amount, where that is not the amount under the key.
    lowering: Callable[[Workload, int], Workload] | None = None

    @property
    def field(self) -> str:
        """Where an allocation says what it holds."""
        return self.pieces or self.name

    @property
    def itself(self) -> bool:
        """Is it the allocation itself that is counted, and nothing that it says of itself?"""
        return bool(self.measured) and not self.pieces

    @property
    def silent(self) -> bool:
        """Is nothing said where there is none of it? Then digests from before the row hold."""
        return not self.zero and not self.pieces

    @property
    def of_machines(self) -> Noun:
        """How an amount reads of what a machine has."""
        return Noun(int, self.noun) if self.capacity and self.capacity.per > 1 else self

    @property
    def title(self) -> str:
        """The head of its column."""
        return self.head or self.noun

    def held(self, one: Allocation) -> int:
        """What one allocation holds."""
        value = getattr(one, self.measured or self.field)
        return len(value) if isinstance(value, tuple) else int.__int__(value)

    def may_use(self, one: Allocation, workload: Workload) -> int:
        """The most that one allocation may use: what it holds, or the ceiling of a range."""
        held = self.held(one)
        most = self.ceiling(workload) if self.ceiling and held else 0
        return most if most > max(held, self.demand(workload)) else held

    def span(self, one: Allocation, workload: Workload) -> str:
        """What one allocation holds, and may use: `2..8`, or one figure."""
        return span(self.unit(self.held(one)), self.unit(self.may_use(one, workload)))

    def path(self, workload: Workload) -> str:
        """Where this workload asks for it."""
        return self.key_in(workload) if self.key_in else self.key

    def edit(self, workload: Workload, amount: int) -> tuple[str, object]:
        """The key under the workload, and the value, that lower its demand to an amount."""
        if self.editing:
            return self.editing(workload, amount)
        less = _lower(value_at(workload, self.key), amount, self.unit)
        return self.key, str(less) if isinstance(less, Range) else self.written(amount)

    def lowered(self, workload: Workload, amount: int) -> Workload:
        """The same workload, which asks for no more than an amount. It asked for more."""
        return (
            self.lowering(workload, amount)
            if self.lowering
            else _with(workload, self.key, _lower(value_at(workload, self.key), amount, self.unit))
        )


def one_by_one(need: int) -> int:
    """Whole ones."""
    return 1


def milli_step(need: int) -> int:
    """Whole vCPUs and GPUs; of less than one, twentieths."""
    return 1000 if need >= 1000 else 50


def giga_step(need: int) -> int:
    """GB and Gbit/s; of less than four, MB and Mbit/s."""
    return 10**9 if need >= 4 * 10**9 else 10**6


def _with(workload: Workload, key: str, value: object) -> Workload:
    section, _, field = key.partition(".")
    part = getattr(workload, section).model_copy(update={field: value})
    return workload.model_copy(update={section: part})


def _lower(value: object, amount: int, unit: type[int]) -> int:
    """A value lowered to an amount: of a range the guarantee alone."""
    return value.lowered(amount) if isinstance(value, Range) else unit(amount)


def _gpus_edit(workload: Workload, amount: int) -> tuple[str, object]:
    """As it is written: whole ones, or a part of one."""
    gpus, count = workload.each.gpus, amount // WHOLE or GpuCount(amount)
    if gpus.memory:
        return ("each.gpus.count", count) if amount >= WHOLE else ("each.gpus.share", str(count))
    return "each.gpus", f"{count} x {gpus.model}" if gpus.model else amount / WHOLE if amount < WHOLE else count


def _fewer_gpus(workload: Workload, amount: int) -> Workload:
    """Whole ones, or a part of one: of one and a half that is one."""
    part = {"count": max(1, amount // WHOLE), "share": GpuCount(min(amount, WHOLE))}
    gpus = workload.each.gpus
    return _with(workload, "each.gpus", gpus.model_copy(update=part) if amount else Gpus(count=0))


def _pinned(workload: Workload) -> int:
    return int(workload.each.vcpus) // 1000 if workload.each.pinned else 0


def _unpinned(workload: Workload, amount: int) -> Workload:
    """Fewer pinned cores are fewer vCPUs, which have a row of their own; none are shared ones."""
    return workload if amount else _with(workload, "each.pinned", False)


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
    return _with(_with(workload, "each.cache", Bytes(cache)), "each.scratch", Bytes(amount - cache))


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
        return key, str(_lower(value_at(workload, key), rest, BitsPerSecond))

    return edit


def _lower_rate(way: str) -> Callable[[Workload, int], Workload]:
    def lowered(workload: Workload, amount: int) -> Workload:
        between = min(int(workload.network.between or 0), amount)
        less = _with(
            workload, "network.between", _lower(workload.network.between, between, BandwidthRange) if between else None
        )
        return _with(less, f"network.{way}", _lower(getattr(workload.network, way), amount - between, BandwidthRange))

    return lowered


def _shaped(path: str, row: str, *, in_line: bool = True) -> Enforced:
    """A rate, kept in whole bytes per second: that is what the kernel's classes count in."""
    return Enforced(
        {path: row}, Verb.TRAFFIC, "bandwidth", lambda facts, old, new: max(old.interface_bps, new.interface_bps),
        grain=8, needs="interface", in_line=in_line, ceiling=path.replace("_bps", "_ceil_bps"),
    )  # fmt: skip


_BANDWIDTH = LimitKey(BitsPerSecond, "bandwidth", "bandwidth", "Network bandwidth, the larger of in and out.")

#: Every countable resource. What machines have comes first; the order is that of every tuple, message and column.
RESOURCES: tuple[Resource, ...] = (
    Resource(
        GpuCount, "GPUs", "gpus", "each.gpus", lambda request: request.each.gpus.milli, milli_step,
        pieces="gpus", measured="gpu_milli",
        capacity=Capacity("gpus", lambda has: has.gpus.count, "gpus_fit_node", per=WHOLE),
        taken=lambda request: request.each.gpus.count if request.each.gpus.share == WHOLE else 0,  # parts are counted by cards
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
            {"slice.memory_max": "memoryMax"}, Verb.SLICE, "memory", lambda facts, old, new: facts.memory,
            grain=PAGE, unlimited=True, beside=("slice.memory_high",),
        ),
        zero="lock and JSON",
    ),
    Resource(
        Bytes, "storage", "storage", "each.scratch", _disk, giga_step,
        capacity=Capacity("nvme", lambda has: int(has.nvme), "storage_fits_node", "storage_fits_node"),
        limit=LimitKey(Bytes, "storage", "storage", "Scratch and cache directories on local disks."),
        enforced=Enforced(
            {"scratch.quota": "scratch", "cache.quota": "cache"}, Verb.DIRECTORIES, "disk",
            lambda facts, old, new: facts.disks.get(new.disk or old.disk, 0), grain=PAGE, needs="disk",
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
