"""Which device does an allocation hold, and how much of it?

As steps and the ledger write it: a whole card is its number (3), a part of one is its number and its share ("3:0.25"), a MIG
instance is its card, its profile and the memory slices that it takes of how many ("3:2g.20gb@2-3/8").
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Union

#: One whole device, in thousandths.
WHOLE = 1000
#: As it is written.
Plain = Union[int, str]
_PART = re.compile(r"([0-9]{1,4}):0\.([0-9]{1,3})")
_INSTANCE = re.compile(r"([0-9]{1,4}):([1-7]g\.[0-9]{1,3}gb)@([0-7])(?:-([0-7]))?/([48])")
#: Parts of a card in which the memory slices of all cards are whole.
EIGHTHS = 8


class Device(NamedTuple):
    """One device by its number, whole or in part. `part`: in thousandths.

    `profile`: of a MIG instance, which takes `size` memory slices of the card from `start` on.
    """

    kind: str
    index: int
    part: int = WHOLE
    profile: str = ""
    start: int = 0
    size: int = 0

    @property
    def position(self) -> str:
        """Of an instance, the memory slices that it takes, and of how many: 2-3/8."""
        last = self.start + self.size - 1
        return f"{self.start}{f'-{last}' if self.size > 1 else ''}/{self.size * WHOLE // self.part}"

    def held(self) -> Dict[int, int]:
        """How much it holds of each eighth of the card. [thousandths]"""
        if not self.profile:
            return dict.fromkeys(range(EIGHTHS), self.part)
        each = self.part * EIGHTHS // (WHOLE * self.size)
        return dict.fromkeys(range(self.start * each, (self.start + self.size) * each), WHOLE)

    @property
    def plain(self) -> Plain:
        """As it is written."""
        if self.profile:
            return f"{self.index}:{self.profile}@{self.position}"
        return self.index if self.part == WHOLE else f"{self.index}:{share(self.part)}"


def share(part: int) -> str:
    """Thousandths as a number: 250 is 0.25."""
    whole, rest = divmod(part, WHOLE)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")


def gpu(value: Any) -> Device:
    """One GPU as it is written. ValueError for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 12:
        return Device("gpu", value)
    match = _INSTANCE.fullmatch(value) if isinstance(value, str) else None
    if match:
        first, last, of = int(match[3]), int(match[4] or match[3]), int(match[5])
        if first <= last < of:
            return Device("gpu", int(match[1]), WHOLE * (last + 1 - first) // of, match[2], first, last + 1 - first)
    match = _PART.fullmatch(value) if isinstance(value, str) else None
    part = int(match[2].ljust(3, "0")) if match else 0
    if not match or not part:
        raise ValueError(f"{str(value)[:60]!r} is no GPU")
    return Device("gpu", int(match[1]), part)


def gpus(written: Iterable[Any]) -> List[Device]:
    """The GPUs of an allocation, by their numbers."""
    return sorted(gpu(value) for value in written or ())


def cards(written: Iterable[Any]) -> List[int]:
    """Their numbers, whatever part of each it is, each once."""
    return sorted({one.index for one in gpus(written)})


def held(written: Iterable[Any], index: int) -> Dict[int, int]:
    """How much of each eighth of one card; nothing where none of it is held. [thousandths]"""
    found: Dict[int, int] = {}
    for one in gpus(written):
        for eighth, part in one.held().items() if one.index == index else ():
            found[eighth] = found.get(eighth, 0) + part
    return found
