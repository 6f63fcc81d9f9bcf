"""Which names does `gpu-[01-03,07]` stand for?"""

from __future__ import annotations

import re
from itertools import product

MAX_NAMES = 10_000
#: A number has at most so many digits.
_DIGITS = 9

_PART = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"([0-9]+)(?:-([0-9]+))?")


class TooLarge(ValueError):
    """It is a range, and names more than an entry may."""


def refusal(pattern: str, error: ValueError) -> str:
    """What is wrong with a range, of which `expand` says why."""
    return f"{pattern[:60]!r} is {'too large a range' if isinstance(error, TooLarge) else 'no range'} of nodes: {error}"


def expand(pattern: str) -> tuple[str, ...]:
    """All names, in order. Raises ValueError in words for people. Without brackets it is the name itself."""
    if "[" not in pattern and "]" not in pattern:
        return (pattern,)
    pieces = _PART.split(pattern)
    if any("[" in text or "]" in text for text in pieces[::2]):
        raise ValueError("its brackets do not match; write it like gpu-[01-08]")
    groups: list[list[str]] = []
    total = 1
    for text in pieces[1::2]:
        groups.append(_numbers(text))
        total *= len(groups[-1])
        # Looked at with each: a few kilobytes of brackets would else be written out as millions of numbers.
        if total > MAX_NAMES:
            raise TooLarge(f"it stands for {total:,} nodes or more, and one entry may name at most {MAX_NAMES:,}")
    fixed = pieces[::2]
    names = tuple(
        "".join(text + number for text, number in zip(fixed, (*choice, ""), strict=True)) for choice in product(*groups)
    )
    if len(set(names)) < len(names):
        raise ValueError("it names a node twice")
    return names


def _numbers(text: str) -> list[str]:
    """`01-03,07` to its numbers, each as wide as its range's lower end is written."""
    numbers: list[str] = []
    for item in text.split(","):
        match = _ITEM.fullmatch(item.strip())
        if not match:
            raise ValueError(f"[{text[:40]}] is no range; write [01-08] or [01,03,05-07]")
        low, high = match[1], match[2] or match[1]
        if max(len(low), len(high)) > _DIGITS:  # more than names have, and of very many Python makes no number
            raise TooLarge(f"a number has at most {_DIGITS} digits, and one entry may name at most {MAX_NAMES:,}")
        if int(low) > int(high):
            raise ValueError(f"[{text[:40]}] runs backwards: {low} is above {high}")
        if len(numbers) + int(high) - int(low) + 1 > MAX_NAMES:
            count = len(numbers) + int(high) - int(low) + 1
            raise TooLarge(f"it stands for {count:,} nodes, and one entry may name at most {MAX_NAMES:,}")
        numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers
