"""Which of ascending values is the largest that still fits, or the smallest that already does?"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def largest(values: list[int], fits: Callable[[int], bool]) -> int | None:
    """The largest of ascending values that fits, where all below one that fits do too."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if fits(values[middle]) else (low, middle)
    return values[low - 1] if low else None


def smallest(values: list[int], fits: Callable[[int], bool]) -> int | None:
    """The smallest of ascending values that fits, where all above one that fits do too."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(values[middle]) else (middle + 1, high)
    return values[low] if low < len(values) else None


def short(need: int, left: Iterable[int], goal: int) -> list[int]:
    """What is short for one replica, for two, and so on, over places with so much left; ascending."""
    return sorted({more for free in left for k in range(1, min(goal, 16) + 1) if (more := k * need - free) > 0})
