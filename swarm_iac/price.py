"""Money per hour: what a price is, as a stack file has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from swarm_iac.written import as_text

_PRICE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,4})?)\s*([A-Z]{3})/h\s*")

_FINER = re.compile(r"\s*[0-9]{1,9}\.[0-9]{5}")


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
            fine = ", with at most 4 digits after the point" if _FINER.match(str(value)) else ""
            raise ValueError(f"{str(value)[:40]!r} is no {cls.kind[2:]}; write it like {cls.example!r}{fine}")
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
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return as_text(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        pattern = r"^\s*[0-9]{1,9}(\.[0-9]{1,4})?\s*[A-Z]{3}/h\s*$"
        return {"type": "string", "pattern": pattern, "examples": [cls.example]}
