"""Which of ascending values is the largest that still fits, or the smallest that already does?"""

from __future__ import annotations

from collections.abc import Callable


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
