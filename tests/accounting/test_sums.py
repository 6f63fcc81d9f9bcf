"""Do used, reserved-idle, unallocated, out of service and unknown add up to the capacity, exactly, whatever happens?"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.accounting import recording, schema
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.summary import WAYS, summary
from swarm_iac.accounting.window import Window
from swarm_iac.errors import Refused, Retryable
from tests.accounting.histories import LONGEST, counted, history

COUNT = int(os.environ.get("SWARM_HISTORIES", "1500"))
EVER = Window(0, 1 << 30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "usage.db"


@pytest.fixture
def store(path: Path) -> Iterator[sqlite3.Connection]:
    with schema.opened(path, write=True) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # a thousand histories; what a kill leaves is tested elsewhere
        yield connection


def play(store: sqlite3.Connection, stack: str, passes: list[FleetPass]) -> None:
    for one in passes:
        with contextlib.suppress(Retryable):
            recording.record(store, stack, one, longest=LONGEST)


def by_hour(store: sqlite3.Connection, per: str, stack: str) -> dict[tuple[int, str, str], tuple[int, ...]]:
    """(capacity, unallocated, off, unknown, held, used) by hour or day, model and node, from the tables themselves."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for hour, model, name, *sums in store.execute(
        f"SELECT {per}, model, name, capacity, unallocated, off, unknown FROM node_{per} JOIN node ON id = node WHERE stack = ?",
        (stack,),
    ):
        found[hour, model, name] = [*sums, 0, 0]
    for hour, model, name, held, used, unknown in store.execute(
        f"SELECT {per}, model, name, held, used, unknown FROM held_{per} h JOIN node n ON n.id = h.node "
        "JOIN account a ON a.id = h.account WHERE stack = ?", (stack,)
    ):  # fmt: skip
        row = found[hour, model, name]
        row[3] += unknown
        row[4] += held - unknown
        row[5] += used
    return {key: tuple(row) for key, row in found.items()}


@pytest.mark.parametrize("seed", range(10))
def test_every_hour_adds_up_to_the_capacity(store: sqlite3.Connection, seed: int) -> None:
    rng = random.Random(seed)
    seen = Counter[str]()
    for number in range(COUNT // 10):
        stack, passes = f"s{number}", history(rng)
        play(store, stack, passes)
        wanted, hours = counted(passes), by_hour(store, "hour", stack)
        assert hours.keys() == wanted.capacity.keys()
        for key, (capacity, free, off, unknown, held, used) in hours.items():
            assert 0 <= used <= held
            idle = held - used
            assert used + idle + free + off + unknown == capacity == wanted.capacity[key]
            assert (free, off, unknown) == (wanted.free[key], wanted.off[key], wanted.unknown[key])
            exact = sum(value for at, value in wanted.used.items() if at[:3] == key)
            assert abs(used * 1000 - exact) <= 500 * wanted.pieces, "half a GPU-ms each time that something is rounded"
            seen.update(name for name, value in (("free", free), ("off", off), ("unknown", unknown), ("idle", idle)) if value)
        days = by_hour(store, "day", stack)
        summed: dict[tuple[int, str, str], list[int]] = {}
        for (hour, model, name), row in hours.items():
            day = summed.setdefault((hour // 24, model, name), [0] * 6)
            summed[hour // 24, model, name] = [a + b for a, b in zip(day, row, strict=True)]
        assert days == {key: tuple(row) for key, row in summed.items()}
        spans = Counter[tuple[str, Holder, str]]()
        for name, *who, currency, milli, since, until in store.execute(
            "SELECT name, allocation, workload, user, team, currency, milli, since, until FROM held_span h JOIN node n "
            "ON n.id = h.node JOIN account a ON a.id = h.account WHERE stack = ?", (stack,)
        ):  # fmt: skip
            spans[name, Holder(*who), currency] += milli * (until - since)
        held_by = Counter[tuple[str, Holder, str]]()
        for (_, _, name, holder, price), value in wanted.held.items():
            held_by[name, holder, price.currency if price else ""] += value
        capacity = Counter[str]()
        for (_, _, name), value in wanted.capacity.items():
            capacity[name] += value
        found = store.execute(
            "SELECT name, sum(cards * 1000 * (until - since)) FROM node_span JOIN node ON id = node WHERE stack = ? GROUP BY name",
            (stack,),
        )
        assert dict(found) == dict(capacity), "each node is in one state at a time"
        assert spans == held_by, "what was held from when to when is what the sums say"
    assert all(seen[name] >= COUNT // 100 for name in ("free", "off", "unknown", "idle")), "the histories have all of it"


def test_any_window_adds_up_by_any_key(store: sqlite3.Connection) -> None:
    rng = random.Random(7)
    for number in range(COUNT // 10):
        stack, passes = f"s{number}", history(rng)
        play(store, stack, passes)
        wanted = counted(passes)
        hours = sorted({key[0] for key in wanted.capacity}) or [0]
        since = rng.randint(hours[0] - 30, hours[-1])
        window = Window(since, since + rng.randint(0, 80))
        inside = sum(value for key, value in wanted.capacity.items() if window.since <= key[0] < window.until)
        costs = Counter[str]()
        for at, value in wanted.held.items():
            if at[4] is not None and window.since <= at[0] < window.until:
                costs[at[4].currency] += value * at[4].amount
        for by in WAYS:
            found = summary(store, stack, window, by)
            rows = [*found.rows.values(), found.nobody]
            assert found.total.whole == found.total.capacity == inside == sum(one.capacity for one in rows)
            assert all(one.whole == one.capacity for one in rows)
            assert +found.total.cost.sums == costs == +sum((one.cost.sums for one in found.rows.values()), Counter())


def two(at: int, *, active: int | None = 500, free: int = 1000, name: str = "n1") -> FleetPass:
    part = HeldPart(0, "", Holder("a-0", "a", "ada", "t"), 1000, active)
    return FleetPass(at, (NodePass(name, "H100", 2, True, free=free, held=(part,)),))


T = 490_000 * 3600


def test_a_repeated_pass_counts_once_and_a_clock_set_back_counts_nothing(store: sqlite3.Connection) -> None:
    assert [recording.record(store, "s", two(at)) for at in (T, T, T + 600, T + 600)] == [True, False, True, False]
    before = summary(store, "s", EVER, "team").total
    with pytest.raises(Retryable) as refused:
        recording.record(store, "s", two(T + 600 - 3600))
    assert refused.value.after == 3600 and "3600 s behind" in refused.value.message
    with pytest.raises(Refused) as ahead:
        recording.record(store, "s", two(T + 40 * 86400))
    assert "39 days ago" in ahead.value.message and "--after-gap" in ahead.value.hint
    for never in (0, -1, 1 << 40):
        with pytest.raises(Refused):
            recording.record(store, "s", two(never))
    now = summary(store, "s", EVER, "team").total
    assert (now.capacity, now.used, now.idle) == (before.capacity, before.used, before.idle) == (1_200_000, 300_000, 300_000)
    assert recording.record(store, "s", two(T + 40 * 86400), after_gap=True)
    after = summary(store, "s", EVER, "team").total
    assert after.unknown == (40 * 86400 - 600) * 2000 and after.used == before.used, "a gap is unknown, never idle"


def test_a_gap_is_unknown_and_never_idle(store: sqlite3.Connection) -> None:
    for at in (T, T + 901):
        recording.record(store, "s", two(at))
    found = summary(store, "s", EVER, "team")
    assert (found.total.unknown, found.total.idle, found.total.unallocated) == (901 * 2000, 0, 0) and not found.rows


def test_activity_that_was_not_measured_is_unknown_and_still_paid_for(store: sqlite3.Connection) -> None:
    for at in (T, T + 900):
        recording.record(store, "s", two(at, active=None))
    row = summary(store, "s", EVER, "team").rows["t"]
    assert (row.used, row.idle, row.unknown, row.cost.unpriced) == (0, 0, 900_000, 900_000)


def test_two_stacks_in_one_store_do_not_mix(store: sqlite3.Connection) -> None:
    for stack, end in (("s", 600), ("other", 300)):
        for at in (T, T + end):
            recording.record(store, stack, two(at))
    assert summary(store, "s", EVER, "node").total.capacity == 1_200_000
    assert summary(store, "other", EVER, "node").total.capacity == 600_000


def test_what_does_not_add_up_is_refused() -> None:
    part = HeldPart(0, "", Holder("a"), 1000)
    for bad in ({"free": 1001}, {"free": -1000, "off": 2000}, {"free": 999}):
        with pytest.raises(ValueError):
            NodePass("n", "H100", 2, True, held=(part,), **bad)
    with pytest.raises(ValueError):
        FleetPass(T, (NodePass("n", "H", 1, True, free=1000), NodePass("n", "H", 1, True, free=1000)))
