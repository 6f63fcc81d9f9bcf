"""What does one row of the table of resources say, and what follows from it?

How much one replica asks for and where, what has so much of it, how an amount reads, and how a node enforces it. The rows
themselves are in `table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from swarm_iac.model.base import value_at, with_value
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.step import Verb
from swarm_iac.pluralize import pluralize
from swarm_iac.units import Cpus, GpuCount, Iops, Range, span

if TYPE_CHECKING:
    from swarm_iac.model.placement import Allocation
    from swarm_iac.model.state import AllocationState, Declared, Facts, NodeState
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
        return self.unit in (int, Cpus, GpuCount, Iops)

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
        return pluralize(text, self.noun.removesuffix("s"), self.noun) if self.many else f"{text} {self.word}"

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
    #: How much of a node may be given out, from its facts, its state before and after, and what is declared of it (None:
    #: nothing is); 0: unknown. None: each piece has its holders.
    has: Callable[[Facts, NodeState, NodeState, Declared | None], int] | None = None
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
        less = lower(value_at(workload, self.key), amount, self.unit)
        return self.key, str(less) if isinstance(less, Range) else self.written(amount)

    def lowered(self, workload: Workload, amount: int) -> Workload:
        """The same workload, which asks for no more than an amount. It asked for more."""
        return (
            self.lowering(workload, amount)
            if self.lowering
            else with_value(workload, self.key, lower(value_at(workload, self.key), amount, self.unit))
        )


def lower(value: object, amount: int, unit: type[int]) -> int:
    """A value lowered to an amount: of a range the guarantee alone."""
    return value.lowered(amount) if isinstance(value, Range) else unit(amount)
