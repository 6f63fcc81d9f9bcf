"""To which GPUs of a machine may a replica be bound, and do all that are bound so fit?

A domain is a NUMA node (`numa: single`), a group of GPUs that are joined by NVLink (`links: required`), or what both have in
common. Domains overlap, so GPUs are counted by cell: those of one NUMA node and one group.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from swarm_iac.model.gpus.links import Groups
from swarm_iac.model.hardware import Hardware, numa_part

Cells = frozenset[int]


@dataclass(frozen=True, slots=True)
class Domain:
    """The cells that the GPUs are of, and the NUMA node that the cores and the memory are of, if they have to be."""

    cells: Cells
    numa: int | None


class Domains:
    """Of one machine. `links`: do its link groups matter? Else the cells are the NUMA nodes, in their order."""

    def __init__(self, hardware: Hardware, *, links: bool) -> None:
        group_of = {i: g for g, group in enumerate(hardware.nvlink if links else ()) for i in group}
        found: dict[tuple[int, int], list[int]] = {}
        for j in range(hardware.numa):
            own = numa_part(hardware.gpus.count, hardware.numa, j)
            for i in own:
                found.setdefault((j, group_of.get(i, -1)), []).append(i)
            if not own:
                found[j, -1] = []
        #: GPUs of each cell, and the NUMA node that they are on.
        self.cells = tuple(map(tuple, found.values()))
        self.numa = tuple(j for j, _ in found)
        keys = list(found)
        self.single = tuple(
            Domain(frozenset(c for c, (own, _) in enumerate(keys) if own == j), j) for j in range(hardware.numa)
        )
        groups = sorted({g for _, g in keys if g >= 0})
        self.linked = tuple(Domain(frozenset(c for c, (_, own) in enumerate(keys) if own == g), None) for g in groups)
        self.both = tuple(Domain(frozenset({c}), j) for c, (j, g) in enumerate(keys) if g >= 0)

    def of(self, single: bool, linked: bool) -> tuple[Domain, ...]:
        """Those that one replica may be bound to."""
        return (self.both if single else self.linked) if linked else self.single


class Pool:
    """Free GPUs by cell, less what is bound to sets of cells.

    All of it fits exactly when  ∀ S:  Σ_{a: cells_a ⊆ S} gpus_a ≤ Σ_{c∈S} free_c  (Hall), which a flow to the cells finds out.
    """

    def __init__(self, free: Iterable[int]) -> None:
        self.free = list(free)
        self.wide: Counter[Cells] = Counter()
        self.known: dict[Cells, int] = {}

    def bind(self, cells: Cells, count: int) -> None:
        """Bind so many GPUs to one of these cells each; a negative count releases them."""
        self.known.clear()
        if len(cells) == 1:
            (cell,) = cells
            self.free[cell] -= count
        elif count:
            self.wide[cells] += count
            if not self.wide[cells]:
                del self.wide[cells]

    def left(self, cells: Cells) -> int:
        """How many more could be bound to these cells, with all the rest still fitting."""
        if len(cells) == 1 and not self.wide:
            (cell,) = cells
            return self.free[cell]
        if cells not in self.known:
            free, laid = list(self.free), {own: Counter[int]() for own in (*self.wide, cells)}
            fits = all(_lay(free, laid, own, count) == count for own, count in self.wide.items())
            self.known[cells] = _lay(free, laid, cells, sum(free)) if fits else 0
        return self.known[cells]

    def takes(self, bound: Iterable[tuple[Cells, int]]) -> bool:
        """Bind all of these, if they fit together; else some of them are bound."""
        if min(self.free, default=0) < 0:
            return False
        for cells, count in bound:
            if count and self.left(cells) < count:
                return False
            self.bind(cells, count)
        return True


def _lay(free: list[int], laid: Mapping[Cells, Counter[int]], own: Cells, count: int) -> int:
    """Lay so many GPUs more into the cells of a set, others of `laid` giving way within theirs; how many find one."""
    left = count
    while left > 0 and (path := _path(free, laid, own)):
        some = min([left, free[path[-1][1]], *(laid[one][cell] for (_, cell), (one, _) in itertools.pairwise(path))])
        for i, (one, cell) in enumerate(path):
            laid[one][cell] += some
            if i + 1 < len(path):
                laid[path[i + 1][0]][cell] -= some
        free[path[-1][1]] -= some
        left -= some
    return count - left


def _path(free: Sequence[int], laid: Mapping[Cells, Counter[int]], own: Cells) -> list[tuple[Cells, int]]:
    """How a set comes to a free GPU: it takes a cell, whose other owner takes another one, and so on to a free one."""
    came: dict[int, tuple[Cells, int | None]] = {cell: (own, None) for cell in sorted(own)}
    for cell in (todo := list(came)):
        if free[cell] > 0:
            path: list[tuple[Cells, int]] = []
            at: int | None = cell
            while at is not None:
                path.append((came[at][0], at))
                at = came[at][1]
            return path[::-1]
        for other, cells in laid.items():
            if cells[cell] > 0:
                further = sorted(other - came.keys())
                came |= {one: (other, cell) for one in further}
                todo += further
    return []


def unions(sets: Iterable[Cells], most: int) -> list[Cells]:
    """Unions of sets that hang together: what lies apart is looked at by itself. At most so many, those of few sets first."""
    every = list(dict.fromkeys(sets))
    known = dict.fromkeys(every)
    for union in (todo := list(every)):
        for other in every:
            wider = union | other
            if union & other and wider not in known and len(known) < most:
                known[wider] = None
                todo.append(wider)
    return sorted(known, key=lambda one: (len(one), sorted(one)))


def closest(
    hardware: Hardware,
    free: Sequence[int],
    count: int,
    near: Iterable[int] = (),
    liked: Iterable[int] = (),
    last: frozenset[int] = frozenset(),
) -> list[int]:
    """So many of these GPUs: liked ones as far as there are, then those that are connected best with what it has (`near`).

    Joined by NVLink is better than behind one PCIe switch; of groups that are large enough the smallest is taken, so that
    larger ones stay whole. Then come those that are not in `last`, and the lowest.
    """
    levels = [groups for groups in (hardware.nvlink, hardware.pcie) if groups]

    def key(i: int) -> tuple[bool, int]:
        return (i in last, i)

    own = {*liked}
    first = [i for i in free if i in own]
    picked, has = _tightest(first, min(count, len(first)), levels, key), tuple(near)
    while len(picked) < count and levels and (has or picked):
        some = _beside((*has, *picked), [i for i in free if i not in picked], levels)
        if not some:
            break
        picked += _tightest(some, min(count - len(picked), len(some)), levels, key)
    return picked + _tightest([i for i in free if i not in picked], count - len(picked), levels, key)


def _beside(picked: Sequence[int], rest: Sequence[int], levels: Sequence[Groups]) -> list[int]:
    """Of the rest, what is in a group with any that is picked, of the best kind of group where there is one."""
    for groups in levels:
        near = {i for group in groups if not {*group}.isdisjoint(picked) for i in group}
        if found := [i for i in rest if i in near]:
            return found
    return []


def _tightest(free: Sequence[int], count: int, levels: Sequence[Groups], key: Callable[[int], tuple[bool, int]]) -> list[int]:
    if count <= 0:
        return []
    ordered = sorted(free, key=key)
    if not levels or len(free) <= count:
        return ordered[:count]
    home = {i: g for g, group in enumerate(levels[0]) for i in group}
    parts: dict[int, list[int]] = {}
    for i in ordered:
        parts.setdefault(home.get(i, -1 - i), []).append(i)
    large = [part for part in parts.values() if len(part) >= count]
    if large:
        return _tightest(min(large, key=len), count, levels[1:], key)
    best = max(parts.values(), key=len)
    return best + _tightest([i for i in ordered if i not in best], count - len(best), levels, key)


def apart(hardware: Hardware, free: Sequence[int], count: int) -> int:
    """How far apart the best so many of these GPUs are: 0 where all are joined by NVLink, or no links are declared."""
    if not (hardware.nvlink or hardware.pcie):
        return 0
    picked = closest(hardware, free, count)
    if hardware.linked(tuple(picked)):
        return 0
    groups = {next((g for g, group in enumerate(hardware.nvlink or hardware.pcie) if i in group), -1 - i) for i in picked}
    return len(groups)
