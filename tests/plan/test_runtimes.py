"""Is everyone named who runs longer than was said, and nobody else?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.state import AllocationState, NodeState, Observed, UnitState
from swarm_iac.plan.state import format, runtimes
from swarm_iac.units import Bytes, Cpus
from tests.solver.fleets import stack_of

HOUR = 3600
NOW = 1_800_000_000
ONE = Allocation(name="fine-0", workload="fine", index=0, node="n1", vcpus=Cpus(1000), memory=Bytes(10**9))


def seen(ran: int | None, limit: int | None = None, **more: Any) -> Observed:
    state = AllocationState(workload="fine", unit=UnitState(user="ada", command="x", time_limit_s=limit))
    started = {} if ran is None else {"fine-0": NOW - ran}
    return Observed(node="n1", state=NodeState(allocations={"fine-0": state}), started=started, **more)


def told(time: Any, ran: int | None, limit: int | None = None, **more: Any) -> list[str]:
    stack = stack_of({"n1": {}}, {"fine": {"time": time, "run": {"command": "x"}, **more}})
    return list(runtimes.warnings(stack, Placement(allocations=(ONE,)), {"n1": seen(ran, limit)}, NOW))


@pytest.mark.parametrize(
    ("time", "ran", "limit", "words"),
    [
        ({"limit": "12 h", "past": "report"}, 13 * HOUR + 300, None,
         "fine-0 on n1 has run for 13 h 5 min, past its limit of 12 h"),
        ({"limit": "12 h", "past": "report"}, 12 * HOUR, None, ""),
        ({"expected": "6 h"}, 7 * HOUR, None, "fine-0 on n1 has run for 7 h, and 6 h was expected"),
        ({"expected": "6 h", "limit": "12 h"}, 7 * HOUR, 12 * HOUR, "fine-0 on n1 has run for 7 h, and 6 h was expected"),
        ({"expected": "6 h"}, None, None, ""),
        # Its node ends it; that is no news, unless the limit is a new one.
        ("12 h", 13 * HOUR, 12 * HOUR, ""),
        ("1 h", 2 * HOUR, 12 * HOUR, "fine-0 on n1 has run for 2 h: its new limit of 1 h ends it at once"),
        ("1 h", HOUR - 29, None, "fine-0 on n1 has run for 59 min 31 s: its new limit of 1 h ends it at once"),
        ("1 h", HOUR - 31, None, ""),
        ({}, 10**6, None, ""),
    ],
)  # fmt: skip
def test_who_runs_longer_than_was_said_is_named(time: Any, ran: int | None, limit: int | None, words: str) -> None:
    assert told(time, ran, limit) == ([words] if words else [])


def test_a_new_limit_that_ends_it_is_told_of_who_is_late_too() -> None:
    assert told({"expected": "30 min", "limit": "1 h"}, 2 * HOUR, 12 * HOUR) == [
        "fine-0 on n1 has run for 2 h, and 30 min was expected",
        "fine-0 on n1 has run for 2 h: its new limit of 1 h ends it at once",
    ]


def test_a_renamed_job_is_known_by_the_name_it_runs_under() -> None:
    stack = stack_of({"n1": {}}, {"new": {"time": {"expected": "6 h"}, "renamed_from": "fine", "run": {"command": "x"}}})
    one = ONE.model_copy(update={"name": "new-0", "workload": "new"})
    assert runtimes.late(stack, one, seen(7 * HOUR), NOW)


@pytest.mark.parametrize(
    ("health", "end", "words"),
    [("failed", "time-limit", "reached its time limit of 12 h"), ("failed", "oom-kill", ""), ("healthy", "time-limit", "")],
)
def test_whom_its_limit_ended_is_told_apart(health: str, end: str, words: str) -> None:
    found = seen(None, 12 * HOUR, health={"fine-0": health}, ends={"fine-0": end})
    assert runtimes.limit_reached(found, "fine-0") == words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (86400 * 3 + 4 * HOUR, "3 d 4 h"), (86400 * 3 + 59, "3 d")],
)
def test_a_duration_is_told_in_two_units(seconds: int, text: str) -> None:
    assert format.lasting(seconds) == text
