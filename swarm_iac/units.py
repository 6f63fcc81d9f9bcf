"""How is a quantity with a unit read, kept and written?

A quantity is an `int` in its base unit with a type of its own, so that watts never meet bytes. YAML carries text
("512 GB"); Python carries the type; JSON and text for people carry the shortest exact spelling.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from swarm_iac.written import as_text

_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%/]*)\s*")
#: A range as others write it.
_DASHED = re.compile(r"\s*([0-9][^-–]*?)\s*(?:[-–]|\bto\b)\s*([0-9][^-–]*)")


class Quantity(int):
    """A non-negative whole number of base units. `units` maps each spelling to its size, in the order offered."""

    kind: ClassVar[str] = "quantity"
    units: ClassVar[dict[str, int]] = {}
    example: ClassVar[str] = ""
    bare: ClassVar[bool] = False  # may a number stand without a unit?

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read `value`: text with a unit, 0, or an instance. Raises ValueError saying what was expected."""
        if isinstance(value, cls):
            return value if type(value) is cls else cls(int(value))  # of a range what is guaranteed
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
            raise ValueError(f"expected {cls.kind} such as {cls.example!r}")
        match = _TEXT.fullmatch(str(value)) if len(str(value)) <= 40 else None
        if not match:
            raise ValueError(f"{str(value)[:40]!r} is not {cls.kind}; write it like {cls.example!r}")
        number, unit = match.groups()
        if not unit:
            if not (cls.bare or Decimal(number) == 0):
                raise ValueError(f"{number} has no unit; write {cls.kind} like {cls.example!r}")
            factor = cls.units[""] if cls.bare else 1
        elif unit in cls.units:
            factor = cls.units[unit]
        else:
            units = ", ".join(one for one in cls.units if one)
            raise ValueError(
                f"{unit!r} is no unit of {cls.kind}; {f'use one of {units}' if units else f'write it like {cls.example!r}'}"
            )
        try:
            exact = Decimal(number) * factor
        except InvalidOperation:
            raise ValueError(f"{number!r} is not a number") from None
        if exact != int(exact):
            raise ValueError(f"{value} is not a whole number of {next(iter(cls.units)) or 'units'}")
        if exact >= 2**63:
            raise ValueError(f"{value} is too large")
        return cls(int(exact))

    def __str__(self) -> str:
        return _spelled(type(self), int(self))  # type: ignore[arg-type]  # mypy takes the __hash__ of values for that of the class

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __add__(self, other: int) -> Self:
        return type(self)(int(self) + int(other))

    def __sub__(self, other: int) -> Self:
        return type(self)(int(self) - int(other))

    def __mul__(self, other: int) -> Self:
        return type(self)(int(self) * int(other))

    def __radd__(self, other: int) -> Self:
        return type(self)(int(other) + int(self))

    __rmul__ = __mul__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return as_text(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = "|".join(re.escape(unit) for unit in cls.units if unit)
        text = {"type": "string", "pattern": rf"^\s*[0-9]+(\.[0-9]+)?\s*({names})\s*$", "examples": [cls.example]}
        return {"anyOf": [text, {"type": "number", "minimum": 0} if cls.bare else {"const": 0}]}


class Bytes(Quantity):
    """Memory or storage. Base unit: byte. kB is 1000, KiB is 1024."""

    kind = "a size"
    example = "512 GB"
    units: ClassVar[dict[str, int]] = {"B": 1} | {
        name: base**power
        for base, names in ((1000, ("kB", "MB", "GB", "TB", "PB")), (1024, ("KiB", "MiB", "GiB", "TiB", "PiB")))
        for power, name in enumerate(names, 1)
    }


class BitsPerSecond(Quantity):
    """Bandwidth of a link. Base unit: bit/s."""

    kind = "a bandwidth"
    example = "10 Gbit/s"
    units: ClassVar[dict[str, int]] = {
        "bit/s": 1,
        "kbit/s": 10**3,
        "Mbit/s": 10**6,
        "Gbit/s": 10**9,
        "Tbit/s": 10**12,
    }


class BytesPerSecond(Quantity):
    """Throughput of a disk. Base unit: byte/s."""

    kind = "a throughput"
    example = "500 MB/s"
    units: ClassVar[dict[str, int]] = {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9}


class Iops(Quantity):
    """Operations of a disk per second. Base unit: one."""

    kind = "a number of operations per second"
    example = "5000"
    bare = True
    units: ClassVar[dict[str, int]] = {"": 1}


class Watts(Quantity):
    """Electrical power. Base unit: watt."""

    kind = "a power"
    example = "600 W"
    units: ClassVar[dict[str, int]] = {"W": 1, "kW": 10**3, "MW": 10**6}


class Hertz(Quantity):
    """A clock. Base unit: hertz."""

    kind = "a frequency"
    example = "1410 MHz"
    units: ClassVar[dict[str, int]] = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}


class Seconds(Quantity):
    """A duration. Base unit: second."""

    kind = "a duration"
    example = "10 min"
    units: ClassVar[dict[str, int]] = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@lru_cache(maxsize=4096)
def _spelled(kind: type[Quantity], amount: int) -> str:
    """The shortest exact spelling. A lock of 10,000 allocations has few amounts, and writes each of them often."""
    best = next(iter(kind.units))
    for unit, size in kind.units.items():
        # Binary units are only written when no decimal one is exact beyond the base.
        binary = len(unit) > 1 and unit[1] == "i" and amount % 1000 == 0
        if size >= kind.units[best] and amount and amount % size == 0 and not binary:
            best = unit
    return f"{amount // kind.units[best]} {best}".rstrip()


class Thousandths(Quantity):
    """A number of things that are given out in parts. Base unit: a thousandth of one. Written as a number: 24, 0.5."""

    bare = True
    units: ClassVar[dict[str, int]] = {"m": 1, "": 1000}

    def __str__(self) -> str:
        return f"{Decimal(int(self)) / 1000:f}".rstrip("0").rstrip(".") if self % 1000 else str(int(self) // 1000)


class Cpus(Thousandths):
    """Virtual CPUs (hardware threads)."""

    kind = "a number of vCPUs"
    example = "24"


class Factor(Thousandths):
    """How much one thing is of another: a worth, a speed. Counted in thousandths, so that sums are exact."""

    kind = "a number"
    example = "0.95"


class GpuCount(Thousandths):
    """GPUs. One may be held in part."""

    kind = "a number of GPUs"
    example = "2"


def span(least: int, most: int) -> str:
    """`2..8`, `1..10 Gbit/s`, `500 Mbit/s..2 Gbit/s`; one value where both ends are equal."""
    low, high = str(least), str(most)
    if least == most:
        return low
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low}..{high}"


class Range(Quantity):
    """`2..8`: the lower end is guaranteed, the upper one is a ceiling. One value alone: both ends are equal.

    As a number it is its lower end, which is all that anything is counted by. Each range is of a quantity: `of`.
    """

    of: ClassVar[type[Quantity]]
    range_example: ClassVar[str] = ""

    #: None where both ends are equal, as in most requests: those cost no more than a number does.
    _most: int | None = None

    @classmethod
    def between(cls, least: int, most: int) -> Self:
        """The range with these ends."""
        new = cls(least)
        if most != least:
            new._most = int(most)
        return new

    @property
    def least(self) -> Quantity:
        """What is guaranteed."""
        return self.of(int(self))

    @property
    def most(self) -> Quantity:
        """The ceiling."""
        return self.of(int(self) if self._most is None else self._most)

    @property
    def open(self) -> bool:
        """May it use more than is guaranteed?"""
        return self._most is not None

    def lowered(self, amount: int) -> Self:
        """The same with a smaller guarantee. One value falls as a whole, and without a guarantee there is no ceiling."""
        return type(self)(amount) if self._most is None or not amount else self.between(amount, self._most)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Range):
            return self._most == other._most and int(self) == int(other)
        return self._most is None and int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self) if self._most is None else hash((int(self), self._most))

    def __str__(self) -> str:
        return super().__str__() if self._most is None else span(self.least, self.most)

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read `value`: as the quantity, or text such as `2..8`. Raises ValueError saying what was expected."""
        if not isinstance(value, str) or ".." not in value:
            if isinstance(value, cls.of) and not isinstance(value, cls):
                return cls(int(value))
            if isinstance(value, str) and (meant := cls._dashed(value)):
                raise ValueError(f"{value.strip()!r} is no range; write {meant!r}")
            return super().parse(value)
        low, _, high = (part.strip() for part in value.partition(".."))
        shown = repr(value[:60])
        for end, text in (("lower", low), ("upper", high)):
            if not text:
                raise ValueError(f"{shown} has no {end} end; write a range like {cls.range_example!r}, or one value for both")
        ends = [_TEXT.fullmatch(text) if len(text) <= 40 else None for text in (low, high)]
        units = [match[2] if match else "" for match in ends]
        if units[1] and not units[0]:  # 1..10 Gbit/s
            if cls.bare:
                raise ValueError(f"{shown} has a unit at one end; write both alike, as in {cls.range_example!r}")
            low += f" {units[1]}" if ends[0] else ""
        least, most = cls.of.parse(low), cls.of.parse(high)
        if least > most:
            raise ValueError(f"{shown}: the lower end is above the upper one; write {span(most, least)!r}")
        if not least:
            raise ValueError(f"{shown} guarantees nothing; write a lower end above 0, as in {cls.range_example!r}")
        return cls.between(int(least), int(most))

    @classmethod
    def _dashed(cls, text: str) -> str:
        """The range that `2-8` or `2 to 8` stands for, as it is written here. Empty: it stands for none."""
        ends = _DASHED.fullmatch(text) if len(text) <= 60 else None
        try:
            return str(cls.parse(f"{ends[1]}..{ends[2]}")) if ends else ""
        except ValueError:
            return ""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        names = "|".join(re.escape(unit) for unit in cls.units if unit)
        number, unit = r"[0-9]+(\.[0-9]+)?\s*", rf"({names})?"
        last = unit if cls.bare else rf"({names})"
        text = {
            "type": "string",
            "pattern": rf"^\s*{number}{unit}\s*\.\.\s*{number}{last}\s*$",
            "examples": [cls.range_example],
        }
        one = super().__get_pydantic_json_schema__(schema, handler)
        return {"anyOf": [*one["anyOf"], text]}


class CpuRange(Range, Cpus):
    """vCPUs of a replica: so many at least, and so many at most while others leave them idle."""

    of = Cpus
    range_example = "2..8"


class MemoryRange(Range, Bytes):
    """Memory of a replica, in the same way."""

    of = Bytes
    range_example = "64..128 GB"


class BandwidthRange(Range, BitsPerSecond):
    """Bandwidth of a replica, in the same way."""

    of = BitsPerSecond
    range_example = "1..10 Gbit/s"


class ThroughputRange(Range, BytesPerSecond):
    """Throughput of a disk that a replica has, in the same way."""

    of = BytesPerSecond
    range_example = "100..500 MB/s"


class IopsRange(Range, Iops):
    """Operations of a disk per second that a replica has, in the same way."""

    of = Iops
    range_example = "1000..5000"


class PowerRange(Range, Watts):
    """Power limit of a GPU: the upper end while the rack's budget allows it, and never less than the lower one."""

    of = Watts
    range_example = "400..500 W"
