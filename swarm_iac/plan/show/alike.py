"""What a plan says of many nodes, or of many replicas, is said once: `gpu-[01-40]`, `+ etl-[0-5]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from swarm_iac.plan.show.section import Cells, Section
from swarm_iac.plan.state import cpulist
from swarm_iac.pluralize import pluralize
from swarm_iac.ranges import ranges

#: Up to so many rows that say the same stand for themselves: each then says which cards it is about.
FEW = 2
#: On up to so many nodes replicas are told by node: it matters more where each is.
SOME = 4
#: The columns after which rows are compared.
_ABOUT = ("node", "limit of")
#: A replica that comes or goes, that a step is about, or of which a value changes.
_REPLICA = re.compile(r"((?:[+-] |[a-z]+ )?)([a-z][a-z0-9-]*-)(?:0|[1-9][0-9]*)((?:: .*)?)")
#: Which whole cards it has; not in a command, which may be anyone's words.
_CARDS = re.compile(r"^((?:(?!command ).)*?\bgpus )([0-9]+(?:[-,][0-9]+)*)(?=, |$| \()")


def merged(section: Section, most: int | None = None) -> Section:
    """The same, with one row for what is said of several nodes, or of several replicas of a workload.

    `most`: of names that make no range only so many are written out in a cell, and then how many there are.
    """
    rows = section.rows
    at = next((rows.heads.index(head) for head in _ABOUT if head in rows.heads), None) if rows else None
    if rows is None or at is None:
        return section
    return replace(section, rows=replace(rows, cells=[cells for cells, _ in grouped(rows.cells, at, FEW, SOME, most)]))


def grouped(table: Iterable[Cells], at: int, few: int, some: int = 0, most: int | None = None) -> list[tuple[Cells, Cells]]:
    """The rows of a table, each with the first of those that it stands for, at that one's place. `at`: the column of nodes.

    More than `few` rows are one if they say the same but for the node and the number of the replica; replicas on up to
    `some` nodes only if the node is the same, too. What a single one says of its cards is then how many they are.
    """
    alike: dict[Cells, list[tuple[int, Cells]]] = {}
    for place, cells in enumerate(table):
        alike.setdefault(_key(cells, at), []).append((place, cells))
    found: list[tuple[int, Cells, Cells]] = []
    for key, every in alike.items():
        for rows in _by_node(every, at) if _few_nodes(every, at, some) else [every]:
            if len(rows) <= few or not _may_join(rows[0][1], at):
                found += [(place, cells, cells) for place, cells in rows]
            else:
                place, first = rows[0]
                found.append((place, _joined(key, [cells for _, cells in rows], at, most), first))
    return [(cells, first) for _, cells, first in sorted(found)]


def _few_nodes(rows: list[tuple[int, Cells]], at: int, some: int) -> bool:
    """Is it about replicas, and on few nodes?"""
    return _REPLICA.fullmatch(rows[0][1][at + 1]) is not None and len({cells[at] for _, cells in rows}) <= some


def _by_node(rows: list[tuple[int, Cells]], at: int) -> list[list[tuple[int, Cells]]]:
    found: dict[str, list[tuple[int, Cells]]] = {}
    for place, cells in rows:
        found.setdefault(cells[at], []).append((place, cells))
    return list(found.values())


def _named(names: Iterable[str], most: int | None) -> str:
    every = set(names)
    parts = ranges(every).split(", ")
    whole = most is None or len(parts) <= most
    return ", ".join(parts) if whole else f"{', '.join(parts[:most])}, … ({len(every)} in all)"


def _key(cells: Cells, at: int) -> Cells:
    """What rows that are one have in common."""
    level = cells[at].split(" ")[0] if cells[at].startswith("node ") else ""
    found = _REPLICA.fullmatch(cells[at + 1])
    if found is None:
        return (*cells[:at], level, *cells[at + 1 :])
    rest = (_CARDS.sub(_how_many, cell) if found[1] in ("+ ", "- ") else cell for cell in cells[at + 2 :])
    return (*cells[:at], level, f"{found[1]}{found[2]}{found[3]}", *rest)


def _may_join(cells: Cells, at: int) -> bool:
    """Limits of users and of the cluster stand for themselves."""
    return " " not in cells[at] or cells[at].startswith("node ")


def _joined(key: Cells, rows: list[Cells], at: int, most: int | None) -> Cells:
    what = key[at + 1]
    if found := _REPLICA.fullmatch(rows[0][at + 1]):
        names = _named((cells[at + 1][len(found[1]) : len(cells[at + 1]) - len(found[3])] for cells in rows), most)
        what = f"{found[1]}{names}{found[3]}"
    level = "node " if rows[0][at].startswith("node ") else ""
    return (*key[:at], level + _named((cells[at].removeprefix(level) for cells in rows), most), what, *key[at + 2 :])


def _how_many(found: re.Match[str]) -> str:
    many = len(cpulist.read(found[2]))
    return f"{found[1].removesuffix('gpus ')}{pluralize(many, 'GPU')}"
