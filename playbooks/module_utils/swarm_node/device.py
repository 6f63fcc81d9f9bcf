"""Which device does an allocation hold, and how much of it?

As steps and the ledger write it: a whole card is its number (3), a part of one is its number and its share ("3:0.25").
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Union

#: One whole device, in thousandths.
WHOLE = 1000
#: As it is written.
Plain = Union[int, str]
_PART = re.compile(r"([0-9]{1,4}):0\.([0-9]{1,3})")


class Device(NamedTuple):
    """One device by its number, whole or in part. `part`: in thousandths."""

    kind: str
    index: int
    part: int = WHOLE

    @property
    def plain(self) -> Plain:
        """As it is written."""
        return self.index if self.part == WHOLE else f"{self.index}:{share(self.part)}"


def share(part: int) -> str:
    """Thousandths as a number: 250 is 0.25."""
    whole, rest = divmod(part, WHOLE)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")


def gpu(value: Any) -> Device:
    """One GPU as it is written. ValueError for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 12:
        return Device("gpu", value)
    match = _PART.fullmatch(value) if isinstance(value, str) else None
    part = int(match[2].ljust(3, "0")) if match else 0
    if not match or not part:
        raise ValueError(f"{str(value)[:60]!r} is no GPU")
    return Device("gpu", int(match[1]), part)


def gpus(written: Iterable[Any]) -> List[Device]:
    """The GPUs of an allocation, by their numbers."""
    return sorted(gpu(value) for value in written or ())


def cards(written: Iterable[Any]) -> List[int]:
    """Their numbers, whatever part of each it is."""
    return [one.index for one in gpus(written)]


def parts(written: Iterable[Any]) -> Dict[int, int]:
    """How much of each. [thousandths]"""
    return {one.index: one.part for one in gpus(written)}
