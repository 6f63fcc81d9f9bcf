"""How is a number of things said? "1 replica", "2 replicas"."""

from __future__ import annotations


def number_of(count: int, one: str, many: str = "") -> str:
    """`count` and its noun: `number_of(2, "node") == "2 nodes"`. `many`: where an s is not enough, or a verb follows.

    >>> number_of(1, "node is", "nodes are")
    '1 node is'
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
