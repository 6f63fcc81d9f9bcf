"""How is output printed? Results on stdout, progress on stderr, tables that fit the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

from pydantic_core import to_json
from rich.console import Console, RenderableType
from rich.text import Text

from swarm_iac.cli.terminal.failures import Printed
from swarm_iac.cli.terminal.tables import Grid
from swarm_iac.printable import printable

_PIPE_WIDTH = 160


def _console() -> Console:
    # A pipe or log has no width; 80 columns would fold every row of a table.
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def interactive() -> bool:
    """Does a person see what is printed, as it changes?"""
    return sys.stdout.isatty()


def say(text: str) -> None:
    """Print progress on stderr, flushed, after earlier results: a log with both has them in order."""
    sys.stdout.flush()
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def show(*things: RenderableType) -> None:
    """Print results on stdout. In a pipe, trailing spaces of table columns are removed."""
    console = _console()
    if not sys.stdout.isatty():
        with console.capture() as captured:
            _print(console, things)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        return
    _print(console, things)


def _print(console: Console, things: Iterable[RenderableType]) -> None:
    for thing in things:
        # Sentences are left to the terminal to wrap, so that grep finds them on one line.
        console.print(thing, soft_wrap=isinstance(thing, Text))


def show_json(value: Any) -> None:
    """One JSON document on stdout: keys sorted, all of it ASCII."""
    plain = _plain(value)
    try:
        # Python's own encoder takes longer where it indents: half a second of four for the plan of 1,000 nodes.
        text = to_json(plain, indent=2, ensure_ascii=True).decode().replace("\x7f", "\\u007f")
    except ValueError:  # half of a surrogate pair, as in the name of a file that is no UTF-8
        text = json.dumps(plain, indent=2)
    sys.stdout.write(text + "\n")
    Printed.document = True


def _plain(value: Any) -> Any:
    """Of dictionaries with sorted keys, lists, and what JSON has; all else is its text."""
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (str, int, float, NoneType)) else str(value)


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Grid:
    """A plain table; cells are text as it is, never markup."""
    return Grid.of(title, heads, ([printable(str(cell)) for cell in row] for row in rows))
