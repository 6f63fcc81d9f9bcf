"""How is a quantity with a unit read, kept and written?

A quantity is an `int` in its base unit with a type of its own, so that watts never meet bytes. YAML carries text
("512 GB"); Python carries the type; JSON and text for people carry the shortest exact spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%/]*)\s*")


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
            return value
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
            raise ValueError(f"{unit!r} is no unit of {cls.kind}; use one of {', '.join(u for u in cls.units if u)}")
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
        best = next(iter(self.units))
        for unit, size in self.units.items():
            if size >= self.units[best] and self and int(self) % size == 0 and self._plain(unit):
                best = unit
        return f"{int(self) // self.units[best]} {best}".rstrip()

    def _plain(self, unit: str) -> bool:
        """Binary units are only written when no decimal one is exact beyond the base."""
        return not (len(unit) > 1 and unit[1] == "i" and int(self) % 1000 == 0)

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
    def _validate(cls, value: Any) -> Self:
        try:
            return cls.parse(value)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{reason}", {"reason": str(error)}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

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


class GpuCount(Thousandths):
    """GPUs. One may be held in part."""

    kind = "a number of GPUs"
    example = "2"


_PRICE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,4})?)\s*([A-Z]{3})/h\s*")


@dataclass(frozen=True)
class Price:
    """Money per hour, of one GPU or of many. `amount` is in ten-thousandths of the currency; below 0 only in a difference.

    No `int` as the others are: 2 EUR and 2 USD are not equal.
    """

    amount: int
    currency: str

    kind: ClassVar[str] = "a price"
    example: ClassVar[str] = "2.50 EUR/h"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read "2.50 EUR/h", or an instance. Raises ValueError saying what was expected."""
        if isinstance(value, cls):
            return value
        match = _PRICE.fullmatch(value) if isinstance(value, str) and len(value) <= 40 else None
        if not match:
            raise ValueError(f"{str(value)[:40]!r} is no {cls.kind[2:]}; write it like {cls.example!r}")
        return cls(int(Decimal(match[1]) * 10_000), match[2])

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.amount), 10_000)
        digits = f"{rest:04d}".rstrip("0").ljust(2, "0")
        return f"{'-' if self.amount < 0 else ''}{whole}.{digits} {self.currency}/h"

    def __add__(self, other: Price) -> Price:
        return Price(self.amount + self._same(other), self.currency)

    def __sub__(self, other: Price) -> Price:
        return Price(self.amount - self._same(other), self.currency)

    def __mul__(self, count: int) -> Price:
        return Price(self.amount * count, self.currency)

    def _same(self, other: Price) -> int:
        if other.currency != self.currency:
            raise ValueError(f"{self} and {other} are of two currencies")
        return other.amount

    @classmethod
    def _validate(cls, value: Any) -> Self:
        try:
            return cls.parse(value)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{reason}", {"reason": str(error)}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        pattern = r"^\s*[0-9]{1,9}(\.[0-9]{1,4})?\s*[A-Z]{3}/h\s*$"
        return {"type": "string", "pattern": pattern, "examples": [cls.example]}
