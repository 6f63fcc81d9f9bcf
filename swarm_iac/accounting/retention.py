"""How long are single hours kept? Sums of days are never dropped; hours, and who held which card, are kept for some days."""

from __future__ import annotations

import datetime
import sqlite3

from swarm_iac.accounting.window import Parts
from swarm_iac.errors import SwarmError

#: Days whose hours are kept, and the fewest that may be asked for: 30 days back from any hour can be read.
KEPT, FEWEST = 92, 31
_DAY = 86400
_MINE = "node IN (SELECT id FROM node WHERE stack = ?)"


def drop_hours(store: sqlite3.Connection, stack: str, at: int, days: int) -> None:
    """Drop the hours of each day that ended more than `days` before `at` [s since 1970]. Most passes drop none."""
    before = at // _DAY - days
    if not store.execute(f"SELECT 1 FROM node_hour WHERE hour < ? AND {_MINE} LIMIT 1", (before * 24, stack)).fetchone():
        return
    for table in ("node_hour", "held_hour"):
        store.execute(f"DELETE FROM {table} WHERE hour < ? AND {_MINE}", (before * 24, stack))
    for table in ("node_span", "held_span"):
        store.execute(f"DELETE FROM {table} WHERE until <= ? AND {_MINE}", (before * _DAY, stack))


def check_kept(store: sqlite3.Connection, stack: str, parts: Parts, *, single: bool = False) -> None:
    """Raises SwarmError where hours are asked for of a day of which only the sum is kept. `single`: each of them is shown."""
    for per, since, until in parts:
        if per == "hour" and since < until:
            # Hours are dropped with their day, so of a day all are kept or none.
            query = (
                f"SELECT min(day) FROM node_day d WHERE day BETWEEN ? AND ? AND {_MINE} AND NOT EXISTS "
                f"(SELECT 1 FROM node_hour WHERE hour BETWEEN day * 24 AND day * 24 + 23 AND {_MINE})"
            )
            ((day,),) = store.execute(query, (since // 24, (until - 1) // 24, stack, stack))
            if day is not None:
                date, after = (datetime.date.fromordinal(719163 + one) for one in (day, day + 1))
                hint = f"begin and end at midnight (UTC): --since {date}, or --until {after}"
                hint = "name a later --since, or --by day" if single else hint
                raise SwarmError(f"of {date} only the sum of the whole day is kept", hint=hint)
