"""Do replicas follow the load within their range, and does nobody else notice?"""

from __future__ import annotations

import time

import pytest

from swarm_iac.live.layer import Layer
from swarm_iac.model.placement import Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.stackfile.locks import lock
from tests.autopilot.fleet import TODAY, Flight, chat, fleet


def test_replicas_go_from_two_to_six_and_back_and_nobody_else_is_stopped() -> None:
    batch = {"each": {"gpus": 1}, "replicas": 3}
    flight = Flight(fleet(workloads={"chat": chat(), "other": batch}))
    locked = flight.lock
    began = time.monotonic()
    found = flight.tick(chat=240)
    assert time.monotonic() - began < 5
    assert flight.count() == 6 and found.stops == 0
    for _ in range(80):
        flight.passes(5)
        flight.tick(chat=60)
    assert flight.count() == 2 and flight.layer.certificate is None
    assert flight.lock == locked


def test_missing_measurement_changes_nothing() -> None:
    flight = Flight(fleet())
    flight.tick(chat=240)
    for value in (None, float("nan"), float("inf"), -3, "9", True):
        flight.passes(400)
        flight.tick(chat=value)
        assert flight.count() == 6


def test_within_the_tolerance_nothing_changes() -> None:
    flight = Flight(fleet())
    flight.tick(chat=2 * 40 * 1.09)
    assert flight.count() == 2
    flight.tick(chat=2 * 40 * 1.11)
    assert flight.count() == 3


def test_by_bounds_each_change() -> None:
    flight = Flight(fleet(workloads={"chat": chat(scale={"up": {"by": 1}, "down": {"after": "60 s", "by": 2}})}))
    seen = []
    for _ in range(30):
        flight.tick(chat=240)
        flight.passes(5)
        seen.append(flight.count())
    assert sorted(set(seen)) == [3, 4, 5, 6] and seen == sorted(seen)
    assert seen.index(4) - seen.index(3) == 6  # 30 s of cool-down, 5 s each
    down = []
    for _ in range(60):
        flight.tick(chat=1)
        flight.passes(5)
        down.append(flight.count())
    assert sorted(set(down), reverse=True) == [6, 4, 2]


def test_gpu_percent_is_a_mean_over_replicas() -> None:
    flight = Flight(fleet(workloads={"chat": chat(scale={"on": "gpu", "target": 50.0})}))
    flight.tick(chat=100)
    assert flight.count() == 4


def test_live_replicas_take_only_what_is_free() -> None:
    flight = Flight(fleet(nodes=1, workloads={"chat": chat(), "full": {"each": {"gpus": 1}, "replicas": 4}}))
    found = flight.tick(chat=240)
    assert flight.count() == 4
    assert "2 more find no place" in found.decided[0].reason


def test_limits_of_a_user_hold_for_live_replicas() -> None:
    flight = Flight(fleet(limits={"user": {"gpus": 5}}))
    flight.tick(chat=240)
    assert flight.count() == 5


def test_nothing_is_granted_while_a_pending_guarantee_fits() -> None:
    stack = fleet(nodes=1, workloads={"chat": chat(), "job": {"each": {"gpus": 6}}})
    placed = solve(stack, today=TODAY).placement
    without = placed.model_copy(
        update={
            "allocations": tuple(one for one in placed.allocations if one.workload != "job"),
            "unplaced": (Unplaced(workload="job", missing=(0,)),),
        }
    )
    flight = Flight(stack, without)
    found = flight.tick(chat=240)
    assert flight.count() == 2 and "job is pending and fits" in found.decided[0].reason


def test_guarantee_that_comes_later_calls_live_replicas_back() -> None:
    flight = Flight(fleet(nodes=1))
    flight.tick(chat=240)
    assert flight.count() == 6
    more = fleet(nodes=1, workloads={"chat": chat(), "job": {"each": {"gpus": 6}}})
    flight.stack, flight.lock = more, solve(more, flight.lock, today=TODAY).placement
    assert not flight.lock.unplaced
    found = flight.tick(chat=240)
    assert flight.count() == 2
    assert any("called back" in one.reason for one in found.decided)


def test_lower_upper_end_calls_live_replicas_back() -> None:
    flight = Flight(fleet())
    flight.tick(chat=240)
    flight.stack = fleet(workloads={"chat": chat(replicas="2..3")})
    flight.tick(chat=240)
    assert flight.count() == 3


@pytest.mark.parametrize("state", ["cordon", "drain", "lost"])
def test_node_that_closes_loses_its_live_replicas_first(state: str) -> None:
    flight = Flight(fleet(nodes=2, workloads={"chat": chat(place={"per_node": 3})}))
    flight.tick(chat=240)
    assert flight.count() == 6
    node = flight.layer.grants[0].allocation.node
    nodes = {**flight.stack.nodes, node: flight.stack.nodes[node].model_copy(update={"state": state})}
    flight.stack = flight.stack.model_copy(update={"nodes": nodes})
    flight.tick(chat=240)
    assert node not in {one.allocation.node for one in flight.layer.grants}


def test_restarted_autopilot_continues_and_doubles_nothing() -> None:
    flight = Flight(fleet())
    flight.tick(chat=240)
    before = flight.layer
    flight.restart()
    assert not flight.tick(chat=240).changed and flight.layer == before
    flight.passes(5)
    flight.tick(chat=1)
    assert flight.count() == 6  # it has no history yet


def test_clock_that_is_set_back_an_hour_stops_and_doubles_nothing() -> None:
    flight = Flight(fleet())
    flight.tick(chat=240)
    names = {one.allocation.name for one in flight.layer.grants}
    flight.wall -= 3600
    assert flight.layer.left(flight.wall) == flight.layer.lease  # never more than was granted
    for _ in range(6):
        flight.tick(chat=240)
        flight.passes(5)
    assert {one.allocation.name for one in flight.layer.grants} == names
    flight.restart()
    for _ in range(130):
        flight.tick(chat=1)
        flight.passes(5)
    assert flight.count() == 2


def test_clock_that_is_set_back_delays_by_a_cool_down_and_no_hour() -> None:
    flight = Flight(fleet())
    flight.tick(chat=100)
    assert flight.count() == 3
    flight.wall -= 3600
    flight.restart()
    seen = 0.0
    while flight.count() < 6 and seen < 4000:
        flight.tick(chat=240)
        flight.passes(5)
        seen += 5
    assert seen <= 60


def test_grants_whose_lease_has_ended_are_started_again() -> None:
    """An `up` since then has taken them away, and did not write that here."""
    flight = Flight(fleet())
    flight.tick(chat=240)
    nodes = {one.allocation.node for one in flight.layer.grants}
    flight.passes(flight.layer.lease + 1)
    flight.restart()
    found = flight.tick(chat=240)
    assert flight.count() == 6 and found.stops == 0
    assert found.changed and set(found.layer.unapplied) == nodes
    assert not flight.tick(chat=240).changed


def test_clock_that_is_set_forward_an_hour_stops_and_doubles_nothing() -> None:
    flight = Flight(fleet())
    flight.tick(chat=240)
    names = {one.allocation.name for one in flight.layer.grants}
    flight.wall += 3600
    found = flight.tick(chat=240)
    assert found.stops == 0 and {one.allocation.name for one in flight.layer.grants} == names
    flight.wall -= 3600  # and back
    assert flight.tick(chat=240).stops == 0 and {one.allocation.name for one in flight.layer.grants} == names


def test_stack_without_ranges_is_written_as_before() -> None:
    stack = fleet(workloads={"chat": {"kind": "serve", "replicas": 2}})
    assert "scale" not in stack.model_dump_json()
    assert Flight(stack).tick().layer == Layer(fleet="test", at=Flight(stack).wall)


def test_scale_changes_no_placement() -> None:
    plain, scaled = (fleet(workloads={"chat": one}) for one in (chat(scale={}), chat()))
    bare = Stack.model_validate(
        {**plain.model_dump(), "workloads": {"chat": {**plain.workloads["chat"].model_dump(exclude={"scale"})}}}
    )
    placement = solve(bare, today=TODAY).placement
    assert placement == solve(scaled, today=TODAY).placement
    assert lock.validity(lock.make(bare, placement), scaled) == (), "the lock of before stays valid"
