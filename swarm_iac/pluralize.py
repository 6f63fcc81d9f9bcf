"""How is a number of things written? `1 node`, `3 nodes`."""

from __future__ import annotations


def pluralize(count: int | str, singular: str, plural: str = "") -> str:
    """`1 node`, `3 nodes`, `0.5 GPUs`. `count`: the number, or text of it such as `1,200`; without `plural`, an s is added.

    A verb goes with its noun: `pluralize(n, "replica is", "replicas are")`.
    """
    figure = str(count)
    return f"{figure} {singular if figure == '1' else plural or f'{singular}s'}"
