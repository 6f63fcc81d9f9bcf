"""Does a record give the same answer again, byte for byte, and does it keep what is nobody's business to itself?"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Placement
from swarm_iac.solver import Watch, solve, solve_declared
from swarm_iac.solver.decide.recording import differences, read, record
from tests.solver.crowded import crowded
from tests.solver.fleets import some_fleet, stack_of

TODAY = datetime.date(2026, 6, 1)


@pytest.mark.parametrize("seed", range(30))
def test_a_record_replays_to_the_same_bytes(seed: int) -> None:
    before, stack = crowded(seed)
    last = solve(before).placement
    solution = solve(stack, last, today=TODAY)
    kept = record(stack, last, TODAY, solution.placement, solution.proof)
    again = read(kept.text(), "a.json")
    assert again == kept
    assert again.text() == kept.text()
    assert again.replayed().placement.model_dump_json() == solution.placement.model_dump_json()
    assert differences(again.answer, again.replayed().placement) == ()


def test_a_variant_is_recorded_with_the_keys_that_it_gives_and_no_others() -> None:
    """A key that it leaves out is the workload's, and a default that it gives is not."""
    variants = {"a": {"each": {"gpus": 4}}, "b": {"each": {"gpus": 1, "memory": "1 GB"}}, "c": {"each": {"gpus": "0.5"}}}
    works: dict[str, dict[str, Any]] = {
        "w": {"each": {"vcpus": 30, "memory": "200 GB"}, "variants": variants},
        "x": {"each": {"gpus": 7, "vcpus": 90, "memory": "100 GB"}, "priority": "high"},
    }
    stack = stack_of({"n": {}}, works)
    solution = solve_declared(stack, Placement(), today=TODAY)[1]
    kept = record(stack, Placement(), TODAY, solution.placement, solution.proof)
    again = read(kept.text(), "a.json")
    assert again.text() == kept.text()
    assert again.stack.workloads["w"].variants["b"].each.model_fields_set == {"gpus", "memory"}
    assert solution.placement.lighter and differences(again.answer, again.replayed().placement) == ()


def test_every_difference_is_named() -> None:
    stack = stack_of({"a": {}, "b": {}}, {"w": {"replicas": 2, "each": {"gpus": 2}}})
    placement = solve(stack).placement
    first, second = placement.allocations
    moved = first.model_copy(update={"node": "b"})
    other = second.model_copy(update={"gpus": whole_gpus((6, 7))})
    assert differences(placement, placement.model_copy(update={"allocations": (moved, second)})) == ("w-0: a → b",)
    assert differences(placement, placement.model_copy(update={"allocations": (first, other)})) == ("w-1: other devices on a",)
    assert differences(placement, placement.model_copy(update={"allocations": (first,)})) == ("w-1: a → no place",)


def test_a_record_has_no_commands_no_environment_and_no_addresses() -> None:
    run = {"command": "serve --token hunter2", "env": {"KEY": "hunter2"}, "port": 80}
    stack = stack_of({"a": {"ssh": "root@hunter2.example.org"}}, {"w": {"run": run}})
    solution = solve(stack)
    assert "hunter2" not in record(stack, Placement(), TODAY, solution.placement, solution.proof).text()


def test_what_was_cut_is_not_recorded() -> None:
    stack = some_fleet(8, 30, 4)
    watch = Watch(lambda goals: watch.stop())
    cut = solve(stack, watch=watch)
    with pytest.raises(ValueError, match="cut by hand"):
        record(stack, Placement(), TODAY, cut.placement, cut.proof)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "something else"}', '{"format": "swarm-iac record 1"}'])
def test_what_is_no_record_is_said(text: str) -> None:
    with pytest.raises(StackFileError, match=r"this is no record(.|\n)*hint: `swarm solve --record FILE` writes one"):
        read(text, "a.json")
