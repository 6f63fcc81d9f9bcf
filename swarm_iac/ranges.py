"""How are many names written short? As a stack file writes them: `gpu-[01-40], login`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which n2 comes before n10."""
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split("([0-9]+)", name) if part)


def ranges(names: Iterable[str]) -> str:
    """Each name once; three and more that differ in a last number alone, which runs on, as one range."""
    found = [(name, re.fullmatch("(.*?)([0-9]{1,9})", name)) for name in sorted(set(names), key=natural)]
    single = [name for name, parts in found if parts is None]
    numbered = [(parts[1], parts[2]) for _, parts in found if parts]
    # With zeros before it a number has as many digits as the others; else 9 is followed by 10.
    padded = {(head, len(number)) for head, number in numbered if number != str(int(number))}
    alike: dict[tuple[str, int], list[int]] = {}
    for head, number in numbered:
        alike.setdefault((head, len(number) if (head, len(number)) in padded else 1), []).append(int(number))
    written = []
    for (head, width), numbers in alike.items():
        for first, span in runs(numbers):
            last = first + span - 1
            many = f"{head}[{first:0{width}d}-{last:0{width}d}]"
            written += [many] if span > 2 else [f"{head}{number:0{width}d}" for number in range(first, last + 1)]
    return ", ".join((*written, *single))


def runs(numbers: list[int]) -> list[tuple[int, int]]:
    """`[0, 1, 4]` as (0, 2) and (4, 1): the first of each run, and how many it has."""
    numbers = sorted(numbers)
    breaks = [0, *(i + 1 for i, (one, two) in enumerate(pairwise(numbers)) if two != one + 1), len(numbers)]
    return [(numbers[i], j - i) for i, j in pairwise(breaks) if j > i]
