"""Is a job that came to its end the same to a decision as one that never was, but for its files?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from swarm_iac.limits import judge, usage
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, why
from swarm_iac.solver.decide.keep_size import solve_keeping
from swarm_iac.units import Bytes
from tests.solver.fleets import HARDWARE, some_fleet, stack_of

TB = 10**12


def some(seed: int) -> tuple[Stack, Placement, set[str]]:
    """A full fleet of which some jobs have ended, on some nodes that are left or gone, and more that come."""
    rng = random.Random(seed)
    stack = some_fleet(8, 30, seed)
    requests = {}
    for name, request in stack.workloads.items():
        each = request.each.model_copy(update={"scratch": Bytes(rng.choice([0, 0, 1, 2]) * TB)})
        requests[name] = request.model_copy(update={"each": each, "user": "ada"})
    before = {name: request for name, request in requests.items() if rng.random() < 0.8}
    first = solve(stack.model_copy(update={"workloads": before}), reasons=False).placement
    over = {one.name for one in first.allocations if rng.random() < 0.3}
    states = rng.choices(["ready", "ready", "ready", "ready", "cordon", "drain", "lost"], k=len(stack.nodes))
    nodes = {
        name: node.model_copy(update={"state": state})
        for (name, node), state in zip(stack.nodes.items(), states, strict=True)
    }  # fmt: skip
    return stack.model_copy(update={"workloads": requests, "nodes": nodes}), first, over


def ending(placement: Placement, over: set[str]) -> Placement:
    ones = tuple(one.released() if one.name in over else one for one in placement.allocations)
    return placement.model_copy(update={"allocations": ones})


def without(stack: Stack, placement: Placement, over: set[str]) -> tuple[Stack, Placement, dict[tuple[str, int], int]]:
    """The same fleet as if what has ended had never been asked for, with less disk; and which number is which here."""
    ended = [one for one in placement.allocations if one.name in over]
    hardware, nodes = dict(stack.hardware), {}
    for name, node in stack.nodes.items():
        shape = stack.hardware[node.hardware]
        less = sum(int(one.storage) for one in ended if one.node == name)
        hardware[f"{name}-own"] = shape.model_copy(update={"nvme": Bytes(int(shape.nvme) - less)})
        nodes[name] = node.model_copy(update={"hardware": f"{name}-own"})
    workloads, number = {}, {}
    for name, request in stack.workloads.items():
        done = {one.index for one in ended if one.workload == name}
        number |= {(name, i): k for k, i in enumerate(i for i in range(request.members) if i not in done)}
        left = request.members - len(done)
        replicas = request.replicas.model_copy(update={"least": left, "most": left})
        if left:
            workloads[name] = request.model_copy(update={"gang": left} if request.gang else {"replicas": replicas})
    ones = [one for one in placement.allocations if one.name not in over]
    last = placement.model_copy(update={"allocations": tuple(numbered(one, number) for one in ones)})
    return stack.model_copy(update={"hardware": hardware, "nodes": nodes, "workloads": workloads}), last, number


def numbered(one: Allocation, number: dict[tuple[str, int], int]) -> Allocation:
    index = number[one.workload, one.index]
    return one.model_copy(update={"index": index, "name": f"{one.workload}-{index}"})


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(24))
def test_it_is_decided_as_if_it_had_never_been(seed: int) -> None:
    stack, first, over = some(seed)
    found = solve(stack, ending(first, over))
    other, last, number = without(stack, first, over)
    plain = solve(other, last)
    going = sorted((numbered(one, number) for one in found.placement.going()), key=lambda one: one.name)
    assert tuple(going) == plain.placement.allocations
    assert found.proof.goals == plain.proof.goals and found.proof.optimal == plain.proof.optimal
    missing = {one.workload: len(one.missing) for one in found.placement.unplaced}
    assert missing == {one.workload: len(one.missing) for one in plain.placement.unplaced}
    named = {(one.name.rpartition("-")[0], int(one.name.rpartition("-")[2])) for one in found.moves}
    assert {f"{name}-{number[name, i]}" for name, i in named} == {one.name for one in plain.moves}
    ends = [one for one in found.placement.allocations if one.ended]
    assert {one.name for one in ends} == over and all(one == first.by_name()[one.name].released() for one in ends)
    kept = frozenset(one.name for one in first.allocations)
    assert not judge(stack, found.placement, kept=kept)
    # Deciding again from the answer changes nothing.
    assert solve(stack, found.placement).placement.allocations == found.placement.allocations


def test_nothing_is_decided_of_a_workload_that_has_ended_whole() -> None:
    stack = stack_of({"n1": {}}, {"a": {"each": {"gpus": 8}}, "g": {"gang": 2, "each": {"gpus": 4}}})
    first = solve(stack).placement
    done = {one.name for one in first.allocations}
    found = solve(stack, ending(first, done))
    names = {one.workload for one in found.placement.going()}
    assert len(names) == 1 and names.isdisjoint({name.rpartition("-")[0] for name in done})
    for name in stack.workloads:
        answer = why(stack, found.placement, name)
        assert answer.missing == 0 and bool(answer.placed) == (name in names)


def test_a_disk_that_shrank_and_a_limit_that_was_lowered_stop_nobody_for_files() -> None:
    request: dict[str, Any] = {"each": {"gpus": 1, "scratch": "6 TB"}, "replicas": 2}
    bare: dict[str, Any] = {"each": {"gpus": 1}}
    more: dict[str, Any] = {"each": {"gpus": 1, "scratch": "1 GB"}}
    stack = stack_of({"n1": {}}, {"a": request, "b": bare})
    last = ending(solve(stack).placement, {"a-0", "a-1"})
    small = {**HARDWARE, "h100": {**HARDWARE["h100"], "nvme": "10 TB"}}
    for rest in ({"hardware": small}, {"limits": {"user": {"storage": "10 TB"}}}, {"limits": {"node": {"storage": "10 TB"}}}):
        now = stack_of({"n1": {}}, {"a": request, "b": bare, "c": bare, "d": more}, **rest)
        found = solve(now, last)
        assert {one.workload for one in found.placement.going()} == {"b", "c"}, "d has no place for its files"
        assert not judge(now, found.placement)
        assert [gone.workload for gone in found.placement.unplaced] == ["d"]


def test_its_files_count_for_its_user() -> None:
    request: dict[str, Any] = {"each": {"gpus": 8, "scratch": "1 TB"}}
    stack = stack_of({"n1": {}, "n2": {}}, {"a": request, "b": request}, limits={"user": {"gpus": 8, "storage": "3 TB"}},
                     teams={"t": {"users": ["ada"]}})  # fmt: skip
    alone = stack.model_copy(update={"workloads": {"a": stack.workloads["a"]}})
    found = solve(stack, ending(solve(alone).placement, {"a-0"}))
    assert [one.name for one in found.placement.going()] == ["b-0"]
    used = {one.resource: one.used for one in usage(stack, found.placement) if one.level == "user"}
    assert used["gpus"] == 8000 and used["storage"] == 2 * TB


def test_more_replicas_get_numbers_of_their_own() -> None:
    def of(count: int) -> Stack:
        return stack_of({"n1": {}}, {"a": {"replicas": count, "each": {"gpus": 1}}})

    last = ending(solve(of(3)).placement, {"a-0", "a-2"})
    grown = solve(of(5), last).placement
    assert [(one.name, one.ended) for one in grown.allocations] == [
        ("a-0", True), ("a-1", False), ("a-2", True), ("a-3", False), ("a-4", False),
    ]  # fmt: skip
    less = solve(of(2), grown).placement
    assert [(one.name, one.ended) for one in less.allocations] == [("a-0", True), ("a-1", False)]
    none = solve(of(1), grown).placement
    assert [(one.name, one.ended) for one in none.allocations] == [("a-0", True)]


def test_a_gang_keeps_its_size_for_growing_with_a_member_that_ended() -> None:
    def of(gpus: int) -> Stack:
        return stack_of({"n1": {}, "n2": {}}, {"g": {"gang": 3, "each": {"gpus": gpus}, "place": {"spread": "node"}}} | rest)

    rest: dict[str, Any] = {}
    small = stack_of({"n1": {}, "n2": {}}, {"g": {"gang": 3, "each": {"gpus": 4}}})
    last = ending(solve(small).placement, {"g-0"})
    wider = stack_of({"n1": {}, "n2": {}}, {"g": {"gang": 3, "each": {"gpus": 6}}, "b": {"each": {"gpus": 4}}})
    held: Solution
    _, held = solve_keeping(wider, last)
    assert [(one.name, one.ended) for one in held.placement.allocations if one.workload == "g"] == [
        ("g-0", True), ("g-1", False), ("g-2", False),
    ]  # fmt: skip
    assert not {gone.workload for gone in held.placement.unplaced} & {"g"}
