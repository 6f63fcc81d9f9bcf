"""From when to when is asked? In whole hours, as the sums are kept; as text: 30d, 12h, 2026-11-01, 2026-11-01T08:00Z."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from swarm_iac.errors import SwarmError
from swarm_iac.model.base import Moment

_HOUR, _DAY = 3600, 24
#: Hours in each unit; at most so many hours back.
_UNITS = {"h": 1, "d": _DAY, "w": 7 * _DAY}
_MOST = 100 * 366 * _DAY
_AGO = re.compile(r"([0-9]{1,6})([hdw])", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT: TypeAdapter[datetime.datetime] = TypeAdapter(Moment)


#: Unit, from, to before: days or hours since 1970.
Parts = Iterable[tuple[str, int, int]]


@dataclass(frozen=True)
class Window:
    """From one hour to before another. [h since 1970]"""

    since: int
    until: int

    def parts(self) -> Iterator[tuple[str, int, int]]:
        """The same as whole days, and hours before and after them: unit, from, to."""
        first, last = -(-self.since // _DAY), self.until // _DAY
        if first >= last:
            yield "hour", self.since, self.until
            return
        yield "day", first, last
        yield "hour", self.since, first * _DAY
        yield "hour", last * _DAY, self.until

    def hours(self) -> Iterator[tuple[str, int, int]]:
        """The same in hours alone."""
        yield "hour", self.since, self.until


def window(since: str, until: str, now: int) -> Window:
    """Hours that are touched count whole. `until`: empty for now. `now` [s since 1970]. Raises SwarmError."""
    start = _seconds(since, now, "--since")
    end = _seconds(until, now, "--until") if until else now
    found = Window(start // _HOUR, -(-end // _HOUR))
    if found.since >= found.until:
        raise SwarmError(f"--since {since[:40]} is not before --until {until[:40] or 'now'}", hint="name an earlier --since")
    return found


def _seconds(text: str, now: int, option: str) -> int:
    ago = _AGO.fullmatch(text)
    try:
        if ago and int(ago[1]) * _UNITS[ago[2]] <= _MOST:
            return max(0, now - int(ago[1]) * _UNITS[ago[2]] * _HOUR)
        moment = f"{text}T00:00Z" if _DATE.fullmatch(text) else text
        return int(_MOMENT.validate_python(moment).timestamp())
    except ValidationError:
        hint = "write 30d, 12h, 2026-11-01 or 2026-11-01T08:00Z; a day begins at 00:00 UTC"
        raise SwarmError(f"{option} {text[:40]!r} is no time", hint=hint) from None
