"""Do hours count half as much for each half-life, whole days before today alone, and under every team around the one that held?"""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator

import pytest

from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.past_use import past_use
from swarm_iac.errors import SwarmError
from swarm_iac.units import Seconds

DAY = 86400
#: 2026-11-01 and so many days; eight cards, of which vision holds four all the time, and speech two on the first day.
START = 1_793_491_200
DAYS = 4
LINES = {"vision": ("vision", "science"), "speech": ("speech",), "science": ("science",), "text": ("text",)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with schema.opened(tmp_path_factory.mktemp("usage") / "usage.db", write=True) as opened:
        opened.execute("PRAGMA synchronous = OFF")
        for at in range(START, START + DAYS * DAY + 1, 900):
            first = at < START + DAY
            held = [HeldPart(gpu, "", Holder("v-0", "v", "ada", "vision"), 1000, 500) for gpu in range(4)]
            held += [HeldPart(gpu, "", Holder("s-0", "s", "bo", "speech"), 1000, None) for gpu in (4, 5) if first]
            free = 8000 - 1000 * len(held)
            node = NodePass("n1", "H100", 8, True, free, 0, 0, tuple(held))
            recording.record(opened, "lab", FleetPass(at, (node,)), longest=900, keep=1000)
        yield opened


def used(store: sqlite3.Connection, days: int, half_life: int) -> dict[str, int]:
    until = datetime.date(2026, 11, 1) + datetime.timedelta(days)
    found = past_use(store, "lab", LINES, Seconds(half_life), until)
    assert (found.until, found.half_life) == (until, half_life)
    return dict(found.gpu_hours)


def test_each_half_life_halves(store: sqlite3.Connection) -> None:
    """96 GPU-hours a day of vision, 48 of speech on the first day."""
    assert used(store, 1, DAY) == {"vision": 48, "speech": 24, "science": 48, "text": 0}
    assert used(store, 4, DAY) == {"vision": 90, "speech": 3, "science": 90, "text": 0}
    long = used(store, 4, 3650 * DAY)
    assert long == {"vision": 384, "speech": 48, "science": 384, "text": 0}


def test_today_and_what_is_long_ago_do_not_count(store: sqlite3.Connection) -> None:
    assert used(store, 0, DAY) == dict.fromkeys(LINES, 0)
    assert used(store, 2000, DAY) == dict.fromkeys(LINES, 0)
    assert used(store, 4, 3600)["speech"] == 0


def test_nothing_recorded_is_said_so(store: sqlite3.Connection) -> None:
    with pytest.raises(SwarmError, match="nothing of other was recorded yet"):
        past_use(store, "other", LINES, Seconds(DAY), datetime.date(2026, 11, 3))
