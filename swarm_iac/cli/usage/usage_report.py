"""How is usage shown? As a table, CSV, Markdown or JSON, of rows that add up to the last one."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from swarm_iac.accounting.money import CostSum, hours
from swarm_iac.accounting.summary import Amounts, UsageSummary
from swarm_iac.accounting.window import Window
from swarm_iac.plan.show.markdown import shown
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.printable import printable

_SUMS = ("used", "idle", "unknown", "unallocated", "off")
_HEADS = ("used", "reserved idle", "unknown", "unallocated", "out of service", "GPU-hours", "use", "cost")
_BAR, _USED, _IDLE, _REST = 24, "█", "▒", "·"
#: Digits behind the point for programs: a GPU-millisecond, and a millionth of a currency.
_DIGITS = 7
_MONEY_DIGITS = 6
#: What a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


@dataclass(frozen=True)
class UsageTable:
    """A table of text with its title; `costs`: of each row, for CSV. The last row is the sum of those above it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def usage_table(found: UsageSummary, window: Window, stack: str) -> UsageTable:
    """For people."""
    heads: tuple[str, ...] = (
        found.by,
        "used",
        "reserved idle",
        "unknown",
        "unallocated",
        "out of service",
        "GPU-hours",
        "use",
        "cost",
    )
    rows: tuple[tuple[str, ...], ...] = tuple((label, *_cells(one)) for label, one in _labelled(found))
    notes = _notes(found, window)
    if found.by in ("day", "hour"):
        heads = (*heads, "of the GPU-hours")
        rows = tuple((*row, _bar(one)) for row, (_, one) in zip(rows, _labelled(found), strict=True))
        notes = (f"{_USED} used, {_IDLE} reserved idle, {_REST} the rest", *notes)
    return UsageTable(f"usage of {stack}, {span(window)}", heads, rows, notes)


def _bar(one: Amounts) -> str:
    """What is used and what is reserved idle, as parts of all GPU-hours."""
    whole = max(1, one.capacity)
    used, held = (round(_BAR * part / whole) for part in (one.used, one.used + one.idle))
    return _USED * used + _IDLE * (held - used) + _REST * (_BAR - held)


def _cells(one: Amounts) -> tuple[str, ...]:
    measured = one.used + one.idle
    use = f"{100 * one.used / measured:.0f} %" if measured else "-"
    return (*(hours(getattr(one, key)) for key in _SUMS), hours(one.capacity), use, str(one.cost))


def _labelled(found: UsageSummary) -> list[tuple[str, Amounts]]:
    nobody = [("(nobody)", found.nobody)] if found.nobody.capacity else []
    return [*found.rows.items(), *nobody, ("(total)", found.total)]


def _notes(found: UsageSummary, window: Window) -> tuple[str, ...]:
    notes = []
    if found.total.cost.unpriced:
        notes.append(f"without a price: {hours(found.total.cost.unpriced)} GPU-hours that were held")
    if found.first > window.since * 3600:
        notes.append(f"recorded since {_moment(found.first)}; nothing is known of the time before")
    if found.last < window.until * 3600 - 7200:
        notes.append(f"last recorded at {_moment(found.last)}")
    return tuple(notes)


def usage_csv(found: UsageSummary) -> str:
    """One row for each name, nobody and the total; GPU-hours, and a column for each currency."""
    currencies = sorted(found.total.cost.sums)
    heads = [found.by, *(f"{key}_gpu_hours" for key in _SUMS), "gpu_hours", *(f"cost_{one}" for one in currencies)]
    rows = [
        [safe(label), *(hours(getattr(one, key), _DIGITS) for key in (*_SUMS, "capacity")), *cost_cells(one.cost, currencies)]
        for label, one in _labelled(found)
    ]
    return csv_text(heads, rows)


def cost_cells(cost: CostSum, currencies: Iterable[str]) -> list[str]:
    known = cost.rounded(_MONEY_DIGITS)
    return [known.get(one, "0") for one in currencies]


def csv_text(heads: list[str], rows: list[list[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([heads, *rows])
    return text.getvalue()


def safe(name: str) -> str:
    """A name that no spreadsheet runs: behind an apostrophe where it would be a formula."""
    plain = printable(name).replace("\n", " ")
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA) or name.startswith(_FORMULA) else plain


def markdown(report: UsageTable) -> str:
    """The same table as Markdown; names are text as it is."""
    rows = Rows(report.heads)
    for row in report.rows:
        rows.add(*(cell.replace("\n", " ") for cell in row))
    section = Section(report.title, "\n".join(report.notes), rows)
    return shown(section, len(report.rows), "") + "\n"


def usage_json(found: UsageSummary, window: Window, stack: str) -> dict[str, Any]:
    """All amounts in GPU-milliseconds, which are exact; costs to a millionth."""
    return {
        "stack": stack,
        **times(window),
        "by": found.by,
        "recorded": {"first": _moment(found.first), "last": _moment(found.last)},
        "rows": [{"name": name, **_document(one)} for name, one in found.rows.items()],
        "nobody": _document(found.nobody),
        "total": _document(found.total),
    }


def _document(one: Amounts) -> dict[str, Any]:
    amounts = {f"{key}_gpu_ms": getattr(one, key) for key in (*_SUMS, "capacity")}
    return {**amounts, "gpu_hours": hours(one.capacity, 4), **cost_document(one.cost)}


def cost_document(cost: CostSum) -> dict[str, Any]:
    return {"cost": cost.rounded(_MONEY_DIGITS), "unpriced_gpu_ms": cost.unpriced}


def times(window: Window) -> dict[str, str]:
    return {"since": _moment(window.since * 3600), "until": _moment(window.until * 3600)}


def span(window: Window) -> str:
    return f"{_moment(window.since * 3600)} to {_moment(window.until * 3600)}"


def _moment(seconds: int) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%MZ}"
