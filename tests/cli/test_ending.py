"""Is the operator told what a run that did not end well means, and nothing after one that did?"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.cli.engine import ending
from swarm_iac.provider.plugin import in_flight


def test_a_run_that_ended_well_or_by_the_operators_hand_says_nothing() -> None:
    assert ending("up", 0, in_flight=False) == ending("up", 130, in_flight=True) == ending("up", -2, in_flight=True) == []
    assert ending("preview", 1, in_flight=False) == []


@pytest.mark.parametrize(
    ("status", "killed", "who"), [(-9, True, "engine (pulumi) was killed by SIGKILL"), (255, True, "provider")]
)
def test_a_part_that_was_killed_is_named(status: int, killed: bool, who: str) -> None:
    first, last = ending("up", status, killed)
    assert who in first and "`swarm up` resumes" in last


def test_only_a_change_that_never_ended_is_left_in_flight(tmp_path: Path) -> None:
    file = tmp_path / "mark"
    assert not in_flight.was_in_flight(file)
    in_flight.began(file)
    assert in_flight.was_in_flight(file)
    in_flight.ended(file)
    assert not in_flight.was_in_flight(file)
