"""Does pending work take the place of lower priorities where searches end before they come to it, and of nobody else's?"""

from __future__ import annotations

import os
import random
import unittest.mock
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.exact.effort import FREED
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.preempting import preempted
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload, classify, fixed_by, repair_task
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, still
from tests.solver.test_rules import RULES, fleet_of

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"


def greedily(stack: Stack) -> Placement:
    """A placement from nothing, by priority."""
    snapshot = snapshot_of(stack, Placement())
    classified = classify(snapshot)
    return Placement(allocations=assemble(snapshot, classified, greedy(repair_task(snapshot, classified))))


def before_and_after(stack: Stack, last: Placement) -> tuple[Pairs, Pairs, Placement]:
    """Beside what stays and what is free, and with some of a lower priority in place of that; the latter as a placement."""
    snapshot = snapshot_of(stack, last)
    classified = classify(snapshot)
    task = repair_task(snapshot, classified)
    counts = fixed_by(task) + greedy(task)
    found = preempted(snapshot, classified, counts, lambda: False)
    assert moves_of(snapshot, classified, found) <= max(int(stack.solve.moves), moves_of(snapshot, classified, counts))
    return counts, found, Placement(allocations=assemble(snapshot, classified, found))


def check(stack: Stack, last: Placement) -> bool:
    """Nothing is broken, gangs are whole, and somebody of a higher priority has more than before where any has less. Has any?"""
    counts, found, placement = before_and_after(stack, last)
    assert judge(stack, placement, **still(placement, last)) == ()
    requests = snapshot_of(stack, last).requests
    then, now = by_workload(counts), by_workload(found)
    gains = [requests[name].priority for name in now if now[name] > then[name]]
    loses = [requests[name].priority for name in then if now[name] < then[name]]
    assert not loses or max(gains) > max(loses)
    assert all(now[name] in (0, one.members) or now[name] == then[name] for name, one in requests.items() if one.gang)
    return bool(loses)


def drawn(seed: int) -> tuple[Stack, Stack]:
    """A fleet full of all priorities, and what grows and comes: more than there is capacity for."""
    rng = random.Random(f"preempting {seed}")
    nodes: dict[str, Any] = {
        f"n{i}": {"hardware": rng.choice(["large", "small"]), "rack": f"r{i % 2}"} for i in range(rng.randint(2, 6))
    }

    def work(priority: str) -> dict[str, Any]:
        size = rng.choice([1, 1, 2, 3, 4])
        found: dict[str, Any] = {"priority": priority, "each": {"gpus": size, "vcpus": rng.choice([1, 2, 8]), "memory": "1 GB"}}
        found["gang" if rng.random() < 0.25 else "replicas"] = rng.randint(1, 4)
        place: dict[str, Any] = rng.choice([{}, {}, {}, {"spread": "node"}, {"within": "rack"}, {"per_node": 2}])
        return found | {"user": rng.choice(["ada", "bo"])} | ({"place": place} if place else {})

    works = {f"w{i}": work(rng.choice(["low", "low", "low", "normal"])) for i in range(rng.randint(3, 9))}
    come = {f"x{i}": work(rng.choice(["normal", "high"])) for i in range(rng.randint(1, 5))}
    grown = {
        name: one | {"replicas": one["replicas"] + rng.choice([0, 0, 1, 3])} if "replicas" in one else one
        for name, one in works.items()
    }
    rest: dict[str, Any] = {
        "hardware": {"large": {"gpus": "8 x H100", "vcpus": 32, "memory": "1 TB"}, "small": {"gpus": "4 x H100", "vcpus": 16, "memory": "1 TB"}},
        "limits": {"user": rng.choice([{}, {}, {"gpus": 16}, {"vcpus": 40}])},
        "solve": {"moves": rng.choice([0, 1, 4])},
    }  # fmt: skip
    return stack_of(nodes, works, **rest), stack_of(nodes, grown | come, **rest)


def test_only_lower_priorities_lose_and_no_rule_is_broken() -> None:
    lost = 0
    for seed in range(4000 if FULL else 400):
        before, stack = drawn(seed)
        lost += check(stack, greedily(before))
    assert lost >= (2000 if FULL else 200)


def test_on_drawn_fleets_with_everything() -> None:
    for seed in range(600 if FULL else 60):
        before, stack = crowded(seed)
        check(stack, solve(before).placement)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_with_every_rule(rule: str) -> None:
    for seed in range(4000, 4060 if FULL else 4006):
        before, stack = fleet_of((rule,), seed)
        check(stack, solve(before).placement)


def busy(nodes: int, newcomers: dict[str, Any]) -> tuple[Stack, Placement]:
    """A fleet full of low priority, and what comes."""
    fleet = {f"n{i:02}": {} for i in range(nodes)}
    works: dict[str, Any] = {f"low{i}": {"priority": "low", "replicas": 8, "each": {"gpus": 1}} for i in range(nodes)}
    rest: dict[str, Any] = {"solve": {"effort": "quick"}}
    last = greedily(stack_of(fleet, works, **rest))
    assert len(last.allocations) == 8 * nodes
    return stack_of(fleet, works | newcomers, **rest), last


def test_where_searches_have_no_time_newcomers_take_the_place_of_lower_priorities() -> None:
    come: dict[str, Any] = {f"new{i}": {"each": {"gpus": 4}, "priority": ["normal", "high"][i % 2]} for i in range(12)}
    come["gang"] = {"gang": 3, "each": {"gpus": 8}}
    stack, last = busy(16, come)
    with unittest.mock.patch.dict(FREED, quick=0.0):
        found = as_large(stack, last)
    assert all(one.workload.startswith("low") for one in found.placement.unplaced)
    assert not [move for move in found.moves if move.target]
    assert len(found.moves) == 12 * 4 + 3 * 8, "no more stop than they need"


def test_who_need_not_go_stays() -> None:
    """The lowest priority is asked first; without what holds more there is too little, and with that there is enough."""
    works: dict[str, Any] = {"low": {"priority": "low", "each": {"gpus": 1}}, "normal": {"each": {"gpus": 7}}}
    last = greedily(stack_of({"n": {}}, works))
    _, found, _ = before_and_after(stack_of({"n": {}}, works | {"new": {"priority": "high", "each": {"gpus": 5}}}), last)
    assert by_workload(found) == {"low": 1, "new": 1}


def test_who_stopped_does_not_come_up_on_another_node() -> None:
    """`w` stops for `new`; a place of low priority for its second replica would be a move, and none is allowed."""
    nodes: dict[str, Any] = {"a": {"labels": {"z": "a"}}, "b": {"labels": {"z": "b"}}}
    works: dict[str, Any] = {
        f"low-{z}": {"priority": "low", "replicas": n, "each": {"gpus": 1}, "place": {"select": {"z": z}}} for z, n in (("a", 6), ("b", 8))
    }  # fmt: skip
    rest: dict[str, Any] = {"solve": {"moves": 0}}
    last = greedily(stack_of(nodes, works | {"w": {"each": {"gpus": 2}}}, **rest))
    new = {"priority": "high", "each": {"gpus": 8}, "place": {"select": {"z": "a"}}}
    _, found, _ = before_and_after(
        stack_of(nodes, works | {"w": {"replicas": 2, "each": {"gpus": 2}}, "new": new}, **rest), last
    )
    assert by_workload(found) == {"new": 1, "low-b": 8}


def test_who_has_grown_elsewhere_is_left_where_it_was() -> None:
    """`w` would have moved if it stopped on a, since its second replica has come to b: only `c` has room for a high priority."""
    nodes: dict[str, Any] = {z: {"labels": {"z": z}} for z in "abc"}
    low = {"priority": "low", "replicas": 8, "each": {"gpus": 1}, "place": {"select": {"z": "c"}}}
    rest: dict[str, Any] = {"solve": {"moves": 0}}
    last = greedily(stack_of(nodes, {"low": low, "w": {"each": {"gpus": 8}}}, **rest))
    new = {f"new-{z}": {"priority": "high", "each": {"gpus": 8}, "place": {"select": {"z": z}}} for z in "ac"}
    _, found, _ = before_and_after(
        stack_of(nodes, {"low": low, "w": {"replicas": 2, "each": {"gpus": 8}}, **new}, **rest), last
    )
    assert by_workload(found) == {"w": 2, "new-c": 1}


def test_what_can_move_moves_and_does_not_stop() -> None:
    """One GPU is free on each node, and two are asked for: one of low priority goes to another node."""
    nodes: dict[str, Any] = {f"n{i}": {} for i in range(4)}
    works: dict[str, Any] = {"low": {"priority": "low", "replicas": 28, "each": {"gpus": 1}, "place": {"per_node": 8}}}
    held = {"cpu": {"replicas": 4, "each": {"gpus": 1}, "place": {"spread": "node"}}}
    full = as_large(stack_of(nodes, works | held)).placement
    last = full.model_copy(update={"allocations": tuple(one for one in full.allocations if one.workload == "low")})
    found = as_large(stack_of(nodes, works | {"new": {"priority": "high", "each": {"gpus": 2}}}), last)
    assert len(found.placement.allocations) == 29 and [move for move in found.moves if move.target]
    assert not [move for move in found.moves if not move.target]
