"""Is a large table what rich would draw, cell by cell, and in how many steps?"""

from __future__ import annotations

import io
import random

import pytest
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swarm_iac.cli.terminal import tables
from swarm_iac.cli.terminal.tables import Grid, narrowed

WORDS = ("gpu-01", "-", "", "16 GB", "8 x H100, 2 x A100", "0-7: 600 W persistent", "two\nlines", "Übung", "日本", "[b]x[/b]")


def drawn(thing: object, width: int, *, terminal: bool = False) -> str:
    """What a console of this width gets."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, force_terminal=terminal, no_color=True).print(thing)
    return out.getvalue()


def by_rich(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    """The table as rich has it."""
    made = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for head in heads:
        made.add_column(head, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_what_has_room_is_drawn_as_rich_draws_it(seed: int) -> None:
    rng = random.Random(seed)
    heads = tuple(f"head {number}" for number in range(rng.randint(1, 5)))
    rows = [tuple(rng.choice(WORDS) for _ in heads) for _ in range(rng.randint(0, 12))]
    assert drawn(Grid.of("things", heads, rows), 200).split("\n") == drawn(by_rich("things", heads, rows), 200).split("\n")


def test_title_and_heads_stand_out_on_a_terminal() -> None:
    shown = drawn(Grid.of("things", ("name",), [("chat",)]), 40, terminal=True)
    assert "\x1b[3mthings" in shown and "\x1b[1m name" in shown


@pytest.mark.parametrize("width", [20, 33, 47, 60])
def test_what_is_too_wide_is_folded_and_loses_no_letter(width: int) -> None:
    rows = [(f"chat-{number}", "x" * (7 * number), f"see gpu-{number:02} and others") for number in range(9)]
    lines = drawn(Grid.of("", ("name", "what", "where"), rows), width).splitlines()
    assert all(len(line) <= width for line in lines)
    shown = "".join(lines)
    assert shown.count("x") == sum(row[1].count("x") for row in rows)


def test_only_the_widest_are_lowered() -> None:
    assert narrowed([3, 10, 8], 30) == [3, 10, 8]
    assert narrowed([3, 10, 8], 17) == [3, 7, 7]
    assert narrowed([3, 10, 8], 2) == [1, 1, 1]


def test_rows_that_have_room_are_never_given_to_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped: list[str] = []

    class Counting(Text):
        def __init__(self, text: str) -> None:
            wrapped.append(text)
            super().__init__(text)

    monkeypatch.setattr(tables, "Text", Counting)
    drawn(Grid.of("things", ("name", "node"), [(f"chat-{number}", "gpu-01") for number in range(5000)]), 100)
    assert wrapped == ["things"]
