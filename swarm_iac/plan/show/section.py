"""What is one thing worth saying about a plan? For every renderer: a terminal, a pull request, a page."""

from __future__ import annotations

from dataclasses import dataclass, field

from swarm_iac.printable import printable

Cells = tuple[str, ...]


@dataclass
class Rows:
    """A table as plain text: cells are never markup."""

    heads: tuple[str, ...]
    cells: list[Cells] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """One row. What a cell holds may be anyone's words."""
        self.cells.append(tuple(map(printable, cells)))


@dataclass(frozen=True)
class Section:
    """One thing worth saying: some words, a table, or both. `minor`: shown only in detail."""

    title: str
    words: str = ""
    rows: Rows | None = None
    style: str = ""
    minor: bool = False
