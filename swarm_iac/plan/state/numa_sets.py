"""Of which sets of NUMA nodes has memory to be counted, where some of it is bound to a few of them?"""

from __future__ import annotations

from collections.abc import Iterable

#: NUMA nodes by number.
NumaSet = frozenset[int]


def unions(bound: Iterable[NumaSet]) -> set[NumaSet]:
    """These, and all unions of those that overlap: of others each is counted by itself."""
    sets = set(bound)
    known, todo = set(sets), list(sets)
    while todo:
        one = todo.pop()
        wider = {one | other for other in sets if one & other} - known
        known |= wider
        todo += wider
    return known
