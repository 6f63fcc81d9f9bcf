"""May a replica stand on a node for a while: away from those that it is kept away from, and on linked GPUs?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.stack import Stack
from swarm_iac.plan.order.temporary_placement import may_be_placed
from tests.solver.fleets import stack_of

NODES = {
    "n1": {"rack": "r1", "site": "fra"},
    "n2": {"rack": "r1", "site": "fra"},
    "n3": {"rack": "r2", "site": "fra"},
    "n4": {"rack": "r3"},
    "n5": {},
}


def stack(one: dict[str, Any], two: dict[str, Any]) -> Stack:
    works = {"chat": {"place": one, "renamed_from": "talk"}, "bulk": {"place": two}, "free": {}}
    return stack_of(NODES, works, racks={"r1": {}, "r2": {}, "r3": {}})


@pytest.mark.parametrize(
    ("one", "two", "left"),
    [
        ({"away_from": {"node": ["bulk"]}}, {}, "n2 n3 n4 n5"),
        ({}, {"away_from": {"node": ["chat"]}}, "n2 n3 n4 n5"),
        ({"away_from": {"rack": ["bulk"]}}, {}, "n3 n4 n5"),
        ({"away_from": {"site": ["bulk"]}}, {}, "n4 n5"),
        ({"apart": "node"}, {"apart": "rack"}, "n3 n4 n5"),
        ({"apart": "rack"}, {}, "n1 n2 n3 n4 n5"),
        ({}, {}, "n1 n2 n3 n4 n5"),
    ],
)
def test_it_stands_near_nobody_that_it_is_kept_away_from(one: dict[str, Any], two: dict[str, Any], left: str) -> None:
    around = [("bulk", "n1"), ("free", "n5"), ("talk", "n4"), ("gone", "n3"), ("bulk", "no-such-node")]
    fleet = stack(one, two)
    assert " ".join(node for node in NODES if may_be_placed(fleet, "talk", node, around)) == left


@pytest.mark.parametrize(
    ("place", "left"), [({"links": "required"}, [(), (0,), (0, 1), (2, 3)]), ({}, [(), (0,), (0, 1), (2, 3), (1, 2)])]
)
def test_it_stands_on_linked_gpus_alone_where_they_are_required(place: dict[str, Any], left: list[tuple[int, ...]]) -> None:
    linked = {"h100": {"gpus": "4 x H100", "vcpus": 16, "memory": "64 GB", "links": {"nvlink": [[0, 1], [2, 3]]}}}
    fleet = stack_of(NODES, {"chat": {"place": place, "each": {"gpus": 2}}}, hardware=linked)
    cards: list[tuple[int, ...]] = [(), (0,), (0, 1), (2, 3), (1, 2)]
    assert [one for one in cards if may_be_placed(fleet, "chat", "n1", (), one)] == left
