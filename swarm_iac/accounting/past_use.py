"""How many GPU-hours did each team use, older ones counting less? As `past_use` of a stack file has it.

    hours_t = Σ_d held_t(d) · 2^-((until - d) / half_life)      d: days before `until`, those of teams inside t included

Held, and not busy: who reserves keeps others out. Days older than LIVES half-lives count nothing.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping

from swarm_iac.accounting.schema import as_written
from swarm_iac.accounting.summary import recorded, summary
from swarm_iac.accounting.window import Window
from swarm_iac.model.gpus.past_use import PastUse
from swarm_iac.units import Seconds

#: After so many half-lives an hour counts less than a thousandth.
LIVES = 10
_DAY, _HOUR_MS = 86400, 3_600_000
_EPOCH = datetime.date(1970, 1, 1)


@as_written()
def past_use(
    store: sqlite3.Connection, stack: str, lines: Mapping[str, Iterable[str]], half_life: Seconds, until: datetime.date
) -> PastUse:
    """Of what was recorded. `lines`: each team of the stack file with those that it is inside of. Raises SwarmError."""
    first, _ = recorded(store, stack)
    end = (until - _EPOCH).days
    begin = max(first // _DAY, end - -(-LIVES * int(half_life) // _DAY))
    hours: dict[str, float] = defaultdict(float)
    for day in range(begin, end):
        held = summary(store, stack, Window(day * 24, day * 24 + 24), "team").rows
        weight = 2.0 ** (-(end - day) * _DAY / int(half_life))
        for team, amounts in held.items():
            for name in lines.get(team, ()):
                hours[name] += weight * (amounts.used + amounts.idle + amounts.unknown) / _HOUR_MS
    return PastUse(until=until, half_life=half_life, gpu_hours={name: round(hours[name]) for name in lines})
