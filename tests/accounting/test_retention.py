"""Are days whole after their hours were dropped, and is nobody told half of one?"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.idle import Thresholds, idle
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.summary import WAYS, By, summary
from swarm_iac.accounting.window import Window, window
from swarm_iac.cli.usage.usage_report import usage_json
from swarm_iac.errors import SwarmError

DAY = 86400
START = 20_500 * DAY + 5 * 3600 + 123
DAYS, KEEP = 40, 31


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Forty days of the same passes of three stacks: `all` keeps every hour, `few` those of 31 days; `other` ended on the 3rd day."""
    path: Path = tmp_path_factory.mktemp("usage") / "usage.db"
    with schema.opened(path, write=True) as opened:
        opened.execute("PRAGMA synchronous = OFF")
        rng, at = random.Random(1), START
        while at < START + DAYS * DAY:
            milli = rng.randint(1, 1000)
            part = HeldPart(0, "", Holder("a-0", "a", "ada", "t"), milli, rng.randint(0, 1000))
            free = rng.randint(0, 1000)
            seen = FleetPass(at, (NodePass("n1", "H100", 2, True, free, 0, 2000 - milli - free, (part,)),))
            recording.record(opened, "all", seen, longest=3 * 3600, keep=1000)
            recording.record(opened, "few", seen, longest=3 * 3600, keep=KEEP)
            if at < START + 3 * DAY:
                recording.record(opened, "other", seen, longest=3 * 3600, keep=1000)
            at += rng.randint(600, 3 * 3600)
        yield opened


def hours(store: sqlite3.Connection, table: str, stack: str) -> list[int]:
    return [one for (one,) in store.execute(
        f"SELECT hour FROM {table} WHERE node IN (SELECT id FROM node WHERE stack = ?) ORDER BY hour", (stack,)
    )]  # fmt: skip


@pytest.mark.parametrize("by", [by for by in WAYS if by != "hour"])
def test_days_say_the_same_without_their_hours(store: sqlite3.Connection, by: By) -> None:
    first = START // 3600 // 24
    for day in range(first, first + DAYS + 1):
        one = Window(day * 24, day * 24 + 24)
        few, whole = (usage_json(summary(store, stack, one, by), one, "") for stack in ("few", "all"))
        assert few == whole and whole["total"]["capacity_gpu_ms"]


def test_hours_of_long_ago_are_refused_one_by_one(store: sqlite3.Connection) -> None:
    first = START // 3600 // 24
    every = Window(first * 24, (first + DAYS + 1) * 24)
    assert len(summary(store, "all", every, "hour").rows) > len(summary(store, "all", every, "day").rows) > KEEP
    with pytest.raises(SwarmError, match="only the sum of the whole day is kept") as refused:
        summary(store, "few", every, "hour")
    assert refused.value.hint == "name a later --since, or --by day"
    kept = Window((first + DAYS - KEEP) * 24 + 24, every.until)
    few, whole = (usage_json(summary(store, stack, kept, "hour"), kept, "") for stack in ("few", "all"))
    assert few == whole and whole["total"]["capacity_gpu_ms"]


def test_whole_days_are_dropped_and_nobody_elses(store: sqlite3.Connection) -> None:
    (last,) = store.execute("SELECT last FROM clock WHERE stack = 'few'").fetchone()
    kept = (last // DAY - KEEP) * 24
    for table in ("node_hour", "held_hour"):
        assert [one for one in hours(store, table, "all") if one >= kept] == hours(store, table, "few")
        assert hours(store, table, "other")[0] == START // 3600
    spans = "SELECT min(until) FROM held_span WHERE node IN (SELECT id FROM node WHERE stack = ?)"
    assert store.execute(spans, ("few",)).fetchone()[0] > kept * 3600 > store.execute(spans, ("all",)).fetchone()[0]


def test_half_a_day_of_long_ago_is_refused_and_the_hint_can_be_asked(store: sqlite3.Connection) -> None:
    day = START // DAY + 4
    for half in (Window(day * 24 + 5, day * 24 + 9), Window(day * 24 + 5, day * 24 + 100), Window(day * 24 - 48, day * 24 + 1)):
        with pytest.raises(SwarmError, match="only the sum of the whole day is kept") as refused:
            summary(store, "few", half, "team")
        with pytest.raises(SwarmError, match="only the sum"):
            idle(store, "few", half, Thresholds())
        assert summary(store, "all", half, "team").total.capacity
    since, until = (word.rstrip(",") for word in (refused.value.hint or "").split() if word[:2] == "20")
    found = window(since, until, 1 << 32)
    assert (found.since, found.until) == (day * 24, day * 24 + 24) and summary(store, "few", found, "team").total.capacity


def test_a_window_before_everything_is_empty_and_no_error(store: sqlite3.Connection) -> None:
    assert summary(store, "few", Window(3, 9), "team").total.capacity == 0
