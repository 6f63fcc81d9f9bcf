"""Which device of a machine is held, and how much of it?

Written as people and files have it: a whole card is its number (`3`), a part of one is its number and its share (`"3:0.25"`), a
MIG instance is its card, its profile and the memory slices of the card that it takes (`"3:2g.20gb@2-3/8"`: the third and the
fourth of eight).
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
from pydantic_core import CoreSchema, core_schema

from swarm_iac.model.base import CARDS
from swarm_iac.model.gpus.mig import SLICES
from swarm_iac.written import reading

#: What kinds there are; network cards are another to come. MIG instances are pieces of a GPU.
DeviceKind = Literal["gpu"]
#: One whole device, in thousandths.
WHOLE = 1000
_PART = re.compile(r"([0-9]{1,4}):(0\.[0-9]{1,3})")
_INSTANCE = re.compile(r"([0-9]{1,4}):([1-7]g\.[0-9]{1,3}gb)@([0-7])(?:-([0-7]))?/([48])")


@dataclass(frozen=True, order=True, slots=True)
class Device:
    """One device, by the number that its machine gives it, whole or in part. `part`: in thousandths; 1000 is all of it.

    `profile`: of a MIG instance, which takes `size` memory slices of the card from `start` on; its part is theirs.
    """

    kind: DeviceKind
    index: int
    part: int = WHOLE
    profile: str = ""
    start: int = 0
    size: int = 0

    @property
    def whole(self) -> bool:
        """Has nobody else a part of it, and is it not cut?"""
        return self.part == WHOLE and not self.profile

    @property
    def shared(self) -> bool:
        """Is it a part that takes turns with others on the card?"""
        return self.part < WHOLE and not self.profile

    @property
    def slices(self) -> range:
        """The eighths of the card in which it keeps others from what it holds: all, but for an instance."""
        if not self.profile:
            return range(SLICES)
        each = self.part * SLICES // (WHOLE * self.size)
        return range(self.start * each, (self.start + self.size) * each)

    @property
    def at(self) -> tuple[DeviceKind, int]:
        """Which one it is, whatever part of it."""
        return (self.kind, self.index)

    @property
    def plain(self) -> int | str:
        """As JSON and YAML have it: 3, or "3:0.25"."""
        if self.profile:
            return f"{self.index}:{self.profile}@{self.position}"
        return self.index if self.whole else f"{self.index}:{share_text(self.part)}"

    @property
    def position(self) -> str:
        """Of an instance, the memory slices that it takes, and of how many: 2-3/8."""
        last = self.start + self.size - 1
        return f"{self.start}{f'-{last}' if self.size > 1 else ''}/{self.size * WHOLE // self.part}"

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
        match = _INSTANCE.fullmatch(value) if isinstance(value, str) else None
        if match:
            index, first, last, of = int(match[1]), int(match[3]), int(match[4] or match[3]), int(match[5])
            if index < CARDS and first <= last < of:
                return instance(index, match[2], first, last + 1 - first, of)
        hint = "write 3, '3:0.25' for a part of it, or '3:1g.10gb@0/8' for a MIG instance"
        raise ValueError(f"{str(value)[:40]!r} is no GPU of a machine; {hint}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda one: one.plain, when_used="json")
        return core_schema.no_info_plain_validator_function(reading(cls.parse), serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole = {"type": "integer", "minimum": 0, "exclusiveMaximum": CARDS}
        part = {"type": "string", "pattern": f"^{_PART.pattern}$", "examples": ["3:0.25"]}
        return {"anyOf": [whole, part, {"type": "string", "pattern": f"^{_INSTANCE.pattern}$", "examples": ["3:1g.10gb@0/8"]}]}


@lru_cache(maxsize=1 << 16)
def gpu(index: int, part: int = WHOLE) -> Device:
    """One GPU, or a part of it in thousandths. The same value each time: a large fleet names few of them very often."""
    return Device("gpu", index, part)


@lru_cache(maxsize=1 << 14)
def instance(index: int, profile: str, start: int, size: int, of: int = SLICES) -> Device:
    """A MIG instance of a GPU whose memory has `of` slices."""
    return Device("gpu", index, WHOLE * size // of, profile, start, size)


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
    texts += [f"{share_text(one.part)} of GPU {one.index}" for one in ones if one.shared]
    texts += [f"{one.profile} at {one.position} of GPU {one.index}" for one in ones if one.profile]
    return ", ".join(filter(None, texts))


#: What holds of a part of a GPU: nothing keeps its processes from the memory and the time of the rest.
SHARED = "time-shared, not isolated"


def sharing(devices: Iterable[Device]) -> str:
    """SHARED where any of them is a part; else empty."""
    return SHARED if any(one.shared for one in devices) else ""


def marked(devices: Iterable[Device]) -> str:
    """As `format_devices`, and that it is shared: `0.25 of GPU 3 (time-shared, not isolated)`."""
    ones = tuple(devices)
    return f"{format_devices(ones)} ({SHARED})" if sharing(ones) else format_devices(ones)
