"""How is a table of ten thousand rows drawn quickly? Like rich does, leaving only wide or wrapped cells to rich.

rich measures and wraps each cell several times, which takes 0.6 ms for each row of eight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

#: Between two cells, and at the edges, as rich's box SIMPLE_HEAD has it.
_BETWEEN = "   "
_EDGE = " "


@dataclass(frozen=True)
class Grid:
    """A table with a title (perhaps empty) and heads; cells are text as it is, never markup."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Grid:
        """The same from any values."""
        return cls(title, tuple(heads), tuple(tuple(map(str, row)) for row in rows))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Called by rich."""
        frame = len(_BETWEEN) * (len(self.heads) - 1) + 2 * len(_EDGE)
        columns = zip(self.heads, *self.rows, strict=True)
        widths = narrowed([max(map(_width, column)) for column in columns], options.max_width - frame)
        whole = sum(widths) + frame
        end, blank = Segment.line(), Segment(" " * whole)
        if self.title:
            for part in Text(self.title).wrap(console, whole):
                yield from (Segment(_padded(part.plain, whole), console.get_style("table.title")), end)
        yield from (blank, end)
        for line in _lines(console, self.heads, widths):
            yield from (Segment(line, console.get_style("table.header")), end)
        yield from (Segment(f"{_EDGE}{'─' * (whole - 2 * len(_EDGE))}{_EDGE}"), end)
        for row in self.rows:
            for line in _lines(console, row, widths):
                yield from (Segment(line), end)
        yield from (blank, end)


def narrowed(widths: Sequence[int], total: int) -> list[int]:
    """The widths with the widest ones lowered until all fit together; none below 1."""
    found = list(widths)
    while (excess := sum(found) - total) > 0 and (widest := max(found)) > 1:
        which = [index for index, width in enumerate(found) if width == widest]
        second = max((width for width in found if width < widest), default=1)
        cut = min(widest - max(second, 1), math.ceil(excess / len(which)))
        for index in which:
            found[index] -= min(cut, excess)
            excess -= min(cut, excess)
    return found


def _lines(console: Console, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    if all(_fits(cell, width) for cell, width in zip(row, widths, strict=True)):
        yield _line(row, widths)
        return
    folded = [
        [part.plain for part in Text(cell).wrap(console, width, overflow="fold")] or [""]
        for cell, width in zip(row, widths, strict=True)
    ]
    for number in range(max(map(len, folded))):
        yield _line([cell[number] if number < len(cell) else "" for cell in folded], widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"{_EDGE}{_BETWEEN.join(map(_padded, cells, widths))}{_EDGE}"


def _fits(cell: str, width: int) -> bool:
    return cell.isprintable() and (len(cell) if cell.isascii() else cell_len(cell)) <= width


def _width(cell: str) -> int:
    """Of its longest line. [columns]"""
    if cell.isascii() and cell.isprintable():
        return len(cell)
    return max((cell_len(Text(line).plain) for line in cell.expandtabs().splitlines()), default=0)


def _padded(cell: str, width: int) -> str:
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - cell_len(cell))
