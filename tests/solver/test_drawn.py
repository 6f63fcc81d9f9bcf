"""Does every answer on fleets as people write them keep the rules, and change nothing that nobody asked for?"""

from __future__ import annotations

import os

import pytest

from tests.benchmarks.fleets.run import Order, rows_of

pytestmark = pytest.mark.engine

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
#: Small ones, and some that were answered wrong: stopped or moved what had room.
SEEDS = (
    (5005, 2),
    (5008, 2),
    (10136, 1),
    (10193, 0),
    (10206, 3),
    (10454, 5),
    (10731, 0),
    (10746, 3),
    (60623, 8),
    *((seed, 3) for seed in range(8000, 8008 if FULL else 8003)),
)


def _problems(seed: int, machines: tuple[int, int], changes: int, ends: float = 0) -> list[str]:
    found = []
    for row in rows_of(Order(seed, machines, changes, ends=ends)):
        where = f"seed {seed}, edit {row['edit']} ({row['what']})"
        found += [f"{where}: {row['traceback']}"] if "error" in row else []
        found += [f"{where}: {rule}: {text}" for rule, text in row.get("findings", ())]
    return found


@pytest.mark.parametrize(("seed", "changes"), SEEDS)
def test_a_fleet_and_its_edits(seed: int, changes: int) -> None:
    """`limits` and a second judge find nothing, and nothing has moved, stopped or changed its devices without need."""
    machines = (3, 12) if 8000 <= seed < 8008 else (5, 60)
    assert _problems(seed, machines, changes) == []


@pytest.mark.parametrize("seed", range(8100, 8108 if FULL else 8103))
def test_a_fleet_whose_jobs_finish(seed: int) -> None:
    """Before each edit a fifth of all jobs is over: their room is used, and nothing of them counts but their files."""
    assert _problems(seed, (3, 12), 4, ends=20) == []


def test_gpus_that_linear_programs_find() -> None:
    """Gangs, users' limits and three priorities: a search without them left 26 of 90 GPUs of normal priority empty."""
    row = next(iter(rows_of(Order(5024, (5, 60), 0))))
    assert row["gap_percent"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20_000, 20_100, 10))
def test_a_hundred_fleets(first: int) -> None:
    """Ten at a time, five edits of each."""
    assert [text for seed in range(first, first + 10) for text in _problems(seed, (5, 40), 5)] == []
