"""Is the operator told what a run that did not end well means, and nothing after one that did?"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.cli.engine import ending
from swarm_iac.provider.operations import in_flight


def test_a_run_that_ended_well_or_by_the_operators_hand_says_nothing() -> None:
    assert ending("up", 0, in_hand=False) == ending("up", 130, in_hand=True) == ending("up", -2, in_hand=True) == []
    assert ending("preview", 1, in_hand=False) == []


@pytest.mark.parametrize(
    ("status", "in_hand", "who"), [(-9, True, "engine (pulumi) was ended by SIGKILL"), (255, True, "provider")]
)
def test_a_part_that_was_killed_is_named(status: int, in_hand: bool, who: str) -> None:
    first, last = ending("up", status, in_hand)
    assert who in first and "`swarm up` resumes" in last


def test_only_a_change_that_never_ended_is_left_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mark"
    monkeypatch.setenv(in_flight.NAME, str(file))
    assert not in_flight.left_in_hand(file)
    in_flight.begun()
    assert in_flight.left_in_hand(file)
    in_flight.ended()
    assert not in_flight.left_in_hand(file)
