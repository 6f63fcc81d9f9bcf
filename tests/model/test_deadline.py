"""Is a drain with a deadline a cordon until then, and a drain from then on?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.model import deadline
from swarm_iac.model.stack import Stack

BY = datetime.datetime(2026, 11, 22, 8, tzinfo=datetime.UTC)
STACK = Stack.model_validate(
    {
        "fleet": "lab",
        "nodes": {
            "a": {"name": "a", "hardware": "h", "ssh": "root@a", "state": "drain", "drain_by": BY, "why": "fan"},
            "b": {"name": "b", "hardware": "h", "ssh": "root@b", "state": "drain"},
            "c": {"name": "c", "hardware": "h", "ssh": "root@c"},
        },
    }
)


@pytest.mark.parametrize(("minutes", "state"), [(-60 * 24, "cordon"), (-1, "cordon"), (0, "drain"), (1, "drain")])
def test_only_the_node_with_a_deadline_waits_for_it(minutes: int, state: str) -> None:
    now = BY + datetime.timedelta(minutes=minutes)
    meant = deadline.at(STACK, now)
    assert [node.state for node in meant.nodes.values()] == [state, "drain", "ready"]
    assert [node.name for node in deadline.waiting(meant)] == (["a"] if state == "cordon" else [])
    assert deadline.at(meant, BY).nodes["a"].state == "drain"
    assert deadline.written(meant) == STACK


def test_a_moment_is_written_in_utc_and_read_as_the_same() -> None:
    there = BY.astimezone(datetime.timezone(datetime.timedelta(hours=-5)))
    assert deadline.format_moment(there) == "2026-11-22T08:00Z"
    assert datetime.datetime.fromisoformat(deadline.format_moment(there)) == BY
