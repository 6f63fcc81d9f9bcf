"""How does the kernel write a set of CPUs or NUMA nodes?"""

from __future__ import annotations

from collections.abc import Iterable


def write(numbers: Iterable[int]) -> str:
    """`{0, 1, 2, 8}` as "0-2,8"; the empty set as ""."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def read(text: str) -> frozenset[int]:
    """ "0-2,8" as `{0, 1, 2, 8}`. Raises ValueError where it is no such list."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if len(last or first) > 5:
            raise ValueError(f"{part[:40]!r} is no number of a CPU")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
