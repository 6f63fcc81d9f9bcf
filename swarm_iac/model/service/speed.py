"""How much work is done per second? A rate with a unit of the user's own choice, counted exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from swarm_iac.written import as_text

_RATE = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(?:([kMG]?)([A-Za-z]{1,12})/s)?\s*")
_PREFIX = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
#: Units are counted in millionths, so that 0.52 of one and sums of it are exact.
PARTS = 10**6


@dataclass(frozen=True)
class Rate:
    """`25 kTok/s`, `40 req/s`, or a number alone, such as 0.52: speeds beside each other. `amount`: in millionths of `unit`."""

    amount: int
    unit: str = ""

    kind: ClassVar[str] = "a rate"
    example: ClassVar[str] = "25 kTok/s"

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read "25 kTok/s", a number, or an instance. Raises ValueError saying what was expected."""
        if isinstance(value, cls):
            return value
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        text = format(Decimal(str(value)), "f") if plain and abs(float(str(value))) < 1e12 else value
        match = _RATE.fullmatch(text) if isinstance(text, str) and len(text) <= 40 else None
        if not match:
            raise ValueError(f"{str(value)[:40]!r} is no rate; write it like {cls.example!r}, or as a number such as 0.52")
        amount = int(Decimal(match[1]) * PARTS) * _PREFIX[match[2] or ""]
        if not 0 < amount <= 10**24:
            raise ValueError(f"{str(value)[:40]!r}: a rate is above 0, and at most 1000000000 Gx/s")
        return cls(amount, match[3] or "")

    def __mul__(self, count: int) -> Rate:
        return Rate(self.amount * count, self.unit)

    def __str__(self) -> str:
        prefix = next((one for one in "GMk" if self.unit and self.amount >= _PREFIX[one] * PARTS), "")
        number = format((Decimal(self.amount) / PARTS / _PREFIX[prefix]).normalize(), "f")
        return f"{number} {prefix}{self.unit}/s" if self.unit else number

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return as_text(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        number = {"type": "number", "exclusiveMinimum": 0}
        pattern = r"^\s*[0-9]{1,12}(\.[0-9]{1,6})?\s*([kMG]?[A-Za-z]{1,12}/s)?\s*$"
        return {"anyOf": [number, {"type": "string", "pattern": pattern, "examples": [cls.example]}]}
