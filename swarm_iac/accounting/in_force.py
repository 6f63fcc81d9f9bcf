"""Which commits were in force over a window, and when did an allocation hold GPUs? Spans in seconds since 1970."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from swarm_iac.accounting.schema import LATEST, as_written, texts
from swarm_iac.accounting.summary import recorded
from swarm_iac.accounting.window import Window

#: From one moment to before another, in order and without overlap. [s since 1970]
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class InForce:
    """`commit`: its whole name; empty where the stack file was in none."""

    since: int
    until: int
    commit: str


@as_written()
def in_force(store: sqlite3.Connection, stack: str, window: Window) -> tuple[InForce, ...]:
    """What passes saw within the window, in order. Raises SwarmError where nothing was recorded."""
    _, last = recorded(store, stack)
    rows = store.execute("SELECT since, commit_name FROM in_force WHERE stack = ? ORDER BY since", (stack,)).fetchall()
    texts(*(commit for _, commit in rows))
    ends = [*(int(since) for since, _ in rows[1:]), last]
    found = (
        InForce(max(int(since), window.since * 3600), min(end, window.until * 3600), commit)
        for (since, commit), end in zip(rows, ends, strict=True)
    )
    return tuple(one for one in found if one.since < one.until)


@as_written()
def held(store: sqlite3.Connection, stack: str, window: Window, allocations: Iterable[str]) -> dict[str, Spans]:
    """When each of these held a GPU or a part of one, as long as spans are kept. An allocation that never did has none."""
    begin, end = window.since * 3600, window.until * 3600
    asked, found = frozenset(allocations), defaultdict(list)
    rows = store.execute(
        "SELECT allocation, since, until FROM held_span s JOIN account a ON a.id = s.account JOIN node n ON n.id = s.node "
        "WHERE n.stack = ? AND until > ? AND since < ?",
        (stack, begin, end),
    )
    for allocation, since, until in rows:
        texts(allocation)
        if not 0 < since < until < LATEST:
            raise ValueError(f"{since} to {until} is no span")
        if allocation in asked:
            found[allocation].append((max(since, begin), min(until, end)))
    return {name: _joined(spans) for name, spans in found.items()}


def common(first: Spans, second: Spans) -> Spans:
    """The time that is in both."""
    both = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return tuple(sorted(span for span in both if span[0] < span[1]))


def seconds(spans: Spans) -> int:
    """How long they are together. [s]"""
    return sum(until - since for since, until in spans)


def _joined(spans: list[tuple[int, int]]) -> Spans:
    """Each moment once, however many cards were held."""
    found: list[tuple[int, int]] = []
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return tuple(found)
