"""How does text reach the person? Results on stdout, progress on stderr, tables that fit the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from swarm_iac.cli.terminal.tables import Grid
from swarm_iac.printable import printable

_PIPE_WIDTH = 160


def _console() -> Console:
    # A pipe or a log has no width of its own; 80 columns would fold every row of a table.
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def say(text: str) -> None:
    """Progress, on stderr, at once, and after the results before it: a log that holds both has them in order."""
    sys.stdout.flush()
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def show(*things: RenderableType) -> None:
    """Results, on stdout. In a pipe no line ends in spaces that only a terminal's columns need."""
    console = _console()
    if not sys.stdout.isatty():
        with console.capture() as captured:
            _print(console, things)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        return
    _print(console, things)


def _print(console: Console, things: Iterable[RenderableType]) -> None:
    for thing in things:
        # A sentence is folded by the terminal, if at all, so that whoever greps for it finds one line.
        console.print(thing, soft_wrap=isinstance(thing, Text))


def show_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, default=str) + "\n")


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Grid:
    """A plain table; cells are text as it is, never markup."""
    return Grid.of(title, heads, ([printable(str(cell)) for cell in row] for row in rows))
