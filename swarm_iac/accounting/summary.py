"""What was used in a window, by team, user, workload, model, node, day or hour, and its cost? Every total is the capacity."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from swarm_iac.accounting.money import CostSum
from swarm_iac.accounting.retention import check_kept
from swarm_iac.accounting.schema import LATEST, as_written, texts
from swarm_iac.accounting.window import Parts, Window
from swarm_iac.errors import SwarmError

By = Literal["team", "user", "workload", "model", "node", "day", "hour"]
WAYS: tuple[By, ...] = get_args(By)
#: What is true of a card whoever holds it: these rows have what nobody holds as well.
_OF_CARDS: tuple[By, ...] = ("model", "node", "day", "hour")


@dataclass
class Amounts:
    """Of one row; all [GPU-ms]. `used` and `idle` (reserved and idle) are what is held, with a part of `unknown`."""

    capacity: int = 0
    used: int = 0
    idle: int = 0
    unallocated: int = 0
    off: int = 0
    unknown: int = 0
    cost: CostSum = field(default_factory=CostSum)

    @property
    def whole(self) -> int:
        """What it adds up to."""
        return self.used + self.idle + self.unallocated + self.off + self.unknown

    def hold(self, held: int, used: int, unknown: int) -> None:
        """Count what somebody held."""
        self.used += used
        self.idle += held - used - unknown
        self.unknown += unknown


@dataclass(frozen=True)
class UsageSummary:
    """`nobody`: what nobody held, where rows are about holders. `first`, `last`: of all passes recorded [s since 1970]."""

    by: By
    rows: dict[str, Amounts]
    nobody: Amounts
    total: Amounts
    first: int
    last: int


@as_written()
def summary(store: sqlite3.Connection, stack: str, window: Window, by: By) -> UsageSummary:
    """The sums. Raises SwarmError: nothing was recorded, hours are no longer kept, the store does not add up."""
    first, last = recorded(store, stack)
    parts = tuple(window.hours() if by == "hour" else window.parts())
    check_kept(store, stack, parts, single=by == "hour")
    rows: dict[str, Amounts] = {}
    nobody, total = Amounts(), Amounts()
    models: dict[str, int] = {}
    for node, model, when, capacity, unallocated, off, unknown in _nodes(store, stack, parts, by):
        texts(node, model)
        key = {"model": model, "node": node, "day": when, "hour": when}.get(by)
        for one in (total, nobody if key is None else rows.setdefault(key, Amounts())):
            one.capacity += capacity
            one.unallocated += unallocated
            one.off += off
            one.unknown += unknown
        models[model] = models.get(model, 0) + capacity - unallocated - off - unknown
    for (node, team, user, workload, model, amount, currency), when, held, used, unknown in _held(store, stack, parts, by):
        texts(node, team, user, workload, model)
        names = {"team": team or "no team", "user": user or "?", "workload": workload or "?", "model": model, "node": node}
        for one in (total, rows.setdefault(names.get(by, when), Amounts())):
            one.hold(held, used, unknown)
            one.cost.add(held, amount, currency)
        models[model] = models.get(model, 0) - held
    if any(models.values()) or total.whole != total.capacity:
        raise SwarmError("the store does not add up", hint="restore it from a copy, and please report this")
    if by not in _OF_CARDS:
        for one in rows.values():
            one.capacity = one.whole
        nobody.capacity = nobody.whole
    return UsageSummary(by, dict(sorted(rows.items())), nobody, total, first, last)


@as_written()
def recorded(store: sqlite3.Connection, stack: str) -> tuple[int, int]:
    """The first and the last pass [s since 1970]. Raises SwarmError where there is none."""
    found = store.execute("SELECT first, last FROM clock WHERE stack = ?", (stack,)).fetchone()
    if found is None:
        hint = "record by a timer: swarm usage --record; see docs/usage.md"
        raise SwarmError(f"nothing of {stack} was recorded yet", hint=hint)
    first, last = int(found[0]), int(found[1])
    if not 0 < first <= last < LATEST:
        raise ValueError(f"{first} to {last} is no time of passes")
    return first, last


def _nodes(store: sqlite3.Connection, stack: str, parts: Parts, by: By) -> Iterator[tuple[str, str, str, int, int, int, int]]:
    for per, since, until in parts:
        rows = store.execute(
            f"SELECT name, model, {_time(per, by)} AS time, sum(capacity), sum(unallocated), sum(off), sum(unknown) "
            f"FROM node_{per} JOIN node ON id = node WHERE {per} >= ? AND {per} < ? AND stack = ? "
            f"GROUP BY node, model{_more(by)}",
            (since, until, stack),
        )
        for name, model, time, *amounts in rows:
            yield name, model, _text(time, by), *amounts


def _held(
    store: sqlite3.Connection, stack: str, parts: Parts, by: By
) -> Iterator[tuple[tuple[str, str, str, str, str, int, str], str, int, int, int]]:
    for per, since, until in parts:
        rows = store.execute(
            f"SELECT name, team, user, workload, model, amount, currency, time, held, used, unknown FROM "
            f"(SELECT node, account, {_time(per, by)} AS time, sum(held) AS held, sum(used) AS used, sum(unknown) AS unknown "
            f"FROM held_{per} WHERE {per} >= ? AND {per} < ? GROUP BY node, account{_more(by)}) "
            "JOIN node ON node.id = node JOIN account ON account.id = account WHERE stack = ?",
            (since, until, stack),
        )
        for name, team, user, workload, model, amount, currency, time, held, used, unknown in rows:
            yield (name, team, user, workload, model, amount, currency), _text(time, by), held, used, unknown


def _more(by: By) -> str:
    """Only where rows are about times: a column more makes sums of months slower by a third."""
    return ", time" if by in ("day", "hour") else ""


def _time(per: str, by: By) -> str:
    """What rows are about, in SQL: the hour or day since 1970, or nothing of it."""
    if by not in ("day", "hour"):
        return "0"
    return f"{per} / 24" if by == "day" and per == "hour" else per


def _text(time: int, by: By) -> str:
    """The day or hour as it is written (UTC); sorted as it is."""
    if by not in ("day", "hour"):
        return ""
    moment = datetime.datetime.fromtimestamp(time * (86400 if by == "day" else 3600), datetime.UTC)
    return f"{moment:%Y-%m-%d}" if by == "day" else f"{moment:%Y-%m-%dT%H:%MZ}"
