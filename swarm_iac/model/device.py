"""Which device of a machine is held, and how much of it?

Written as people and files have it: a whole card is its number (`3`), a part of one is its number and its share (`"3:0.25"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from swarm_iac.model.base import CARDS

#: What kinds there are; MIG instances and network cards are others to come.
DeviceKind = Literal["gpu"]
#: One whole device, in thousandths.
WHOLE = 1000
_PART = re.compile(r"([0-9]{1,4}):(0\.[0-9]{1,3})")


@dataclass(frozen=True, order=True, slots=True)
class Device:
    """One device, by the number that its machine gives it, whole or in part. `part`: in thousandths; 1000 is all of it."""

    kind: DeviceKind
    index: int
    part: int = WHOLE

    @property
    def whole(self) -> bool:
        """Has nobody else a part of it?"""
        return self.part == WHOLE

    @property
    def at(self) -> tuple[DeviceKind, int]:
        """Which one it is, whatever part of it."""
        return (self.kind, self.index)

    @property
    def plain(self) -> int | str:
        """As JSON and YAML have it: 3, or "3:0.25"."""
        return self.index if self.whole else f"{self.index}:{share_text(self.part)}"

    def __str__(self) -> str:
        return str(self.plain)

    @classmethod
    def parse(cls, value: object) -> Device:
        """Read `3`, `"3:0.25"`, or an instance. Raises ValueError saying what was expected."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < CARDS:
            return gpu(value)
        match = _PART.fullmatch(value) if isinstance(value, str) else None
        index, part = (int(match[1]), int(Decimal(match[2]) * WHOLE)) if match else (CARDS, 0)
        if index < CARDS and part:
            return gpu(index, part)
        raise ValueError(f"{str(value)[:40]!r} is no GPU of a machine; write 3, or '3:0.25' for a part of it")

    @classmethod
    def _validate(cls, value: Any) -> Device:
        try:
            return cls.parse(value)
        except ValueError as error:
            raise PydanticCustomError("quantity", "{reason}", {"reason": str(error)}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda one: one.plain, when_used="json")
        return core_schema.no_info_plain_validator_function(cls._validate, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = {"type": "integer", "minimum": 0, "exclusiveMaximum": CARDS}
        return {"anyOf": [whole, {"type": "string", "pattern": f"^{_PART.pattern}$", "examples": ["3:0.25"]}]}


@lru_cache(maxsize=1 << 16)
def gpu(index: int, part: int = WHOLE) -> Device:
    """One GPU, or a part of it in thousandths. The same value each time: a large fleet names few of them very often."""
    return Device("gpu", index, part)


def whole_gpus(indices: Iterable[int]) -> tuple[Device, ...]:
    """GPUs by number, nobody else having a part of them."""
    return tuple([gpu(index) for index in indices])


def cards(devices: Iterable[Device]) -> tuple[int, ...]:
    """Their numbers, whatever part of each it is."""
    return tuple([one.index for one in devices])


def share_text(part: int) -> str:
    """Thousandths as a number: 250 is 0.25."""
    return f"{Decimal(part) / WHOLE:f}".rstrip("0").rstrip(".")


def format_devices(devices: Iterable[Device]) -> str:
    """For people: whole cards by number, neighbours as one, and parts: `0-3,6`, `0.25 of GPU 3`. Empty where there are none."""
    ones = sorted(devices)
    whole = [one.index for one in ones if one.whole]
    runs = [[index for _, index in group] for _, group in groupby(enumerate(whole), key=lambda pair: pair[1] - pair[0])]
    texts = [",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)]
    texts += [f"{share_text(one.part)} of GPU {one.index}" for one in ones if not one.whole]
    return ", ".join(filter(None, texts))


#: What holds of a part of a GPU: nothing keeps its processes from the memory and the time of the rest.
SHARED = "time-shared, not isolated"


def sharing(devices: Iterable[Device]) -> str:
    """SHARED where any of them is a part; else empty."""
    return "" if all(one.whole for one in devices) else SHARED


def marked(devices: Iterable[Device]) -> str:
    """As `format_devices`, and that it is shared: `0.25 of GPU 3 (time-shared, not isolated)`."""
    ones = tuple(devices)
    return f"{format_devices(ones)} ({SHARED})" if sharing(ones) else format_devices(ones)
