"""Is a reservation named as idle only where it is known to be, for long enough, by all three measures?"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.accounting import idle, recording, schema
from swarm_iac.accounting.observation import FleetPass, HeldPart, Holder, NodePass
from swarm_iac.accounting.window import Window

T = 490_000 * 3600
ZERO: dict[str, int | None] = {"active": 0, "bandwidth": 0, "cpus": 0}


def named(path: Path, *seen: dict[str, int | None]) -> list[str]:
    """Who is idle after these passes, 15 min apart."""
    with schema.opened(path, write=True) as store:
        for number, values in enumerate([*seen, ZERO]):
            held = (HeldPart(0, "", Holder("a-0", "a", "ada", "t"), 1000, **values),)
            node = NodePass("n1", "H100", 1, True, held=held)
            assert recording.record(store, "s", FleetPass(T + number * 900, (node,)))
        found = idle.idle(store, "s", Window(0, 1 << 30), idle.Thresholds())
    return [one.allocation for one in found]


@pytest.mark.parametrize("known, who", [(10, ["a-0"]), (9, ["a-0"]), (8, [])])
@pytest.mark.parametrize("key", ["active", "bandwidth", "cpus"])
def test_what_is_not_measured_for_nine_tenths_is_not_idle(tmp_path: Path, key: str, known: int, who: list[str]) -> None:
    assert named(tmp_path / "s.db", *[ZERO] * known, *[{**ZERO, key: None}] * (10 - known)) == who


@pytest.mark.parametrize("passes, who", [(4, ["a-0"]), (3, [])])
def test_less_than_an_hour_is_not_judged(tmp_path: Path, passes: int, who: list[str]) -> None:
    assert named(tmp_path / "s.db", *[ZERO] * passes) == who


@pytest.mark.parametrize("key, limit", [("active", 50), ("bandwidth", 50), ("cpus", 200)])
def test_one_that_is_at_a_threshold_is_not_idle(tmp_path: Path, key: str, limit: int) -> None:
    assert named(tmp_path / "below.db", *[{**ZERO, key: limit - 1}] * 8) == ["a-0"]
    assert named(tmp_path / "at.db", *[{**ZERO, key: limit}] * 8) == []
    assert named(tmp_path / "average.db", *[ZERO, {**ZERO, key: 2 * limit - 2}] * 4) == ["a-0"]
