"""Do features hold together that other tests look at one by one: shares, limits on GPU models, MIG instances, ranges?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.limits.came import came
from swarm_iac.model.device import Device
from swarm_iac.model.placement import Placement
from swarm_iac.solver import Solution, solve, solve_keeping, why
from swarm_iac.solver.unexplained import Unexplained
from tests.solver.fleets import stack_of

SHAPES: dict[str, Any] = {
    "h100": {"gpus": "1 x H100", "vcpus": 16, "memory": "64 GB", "mig": True},
    "a100": {"gpus": "1 x A100", "vcpus": 16, "memory": "64 GB", "mig": True},
    "l40s": {"gpus": "1 x L40S", "vcpus": 16, "memory": "64 GB"},
}
NODES: dict[str, Any] = {"a": {"hardware": "a100"}, "h": {"hardware": "h100"}, "l": {"hardware": "l40s"}}


def job(gpus: str | int, **more: Any) -> dict[str, Any]:
    return {"each": {"gpus": gpus, "vcpus": 1, "memory": "1 GB"}, **more}


def told(placement: Placement) -> list[str]:
    return [reason.text for one in placement.unplaced for reason in one.reasons]


def test_of_instances_only_models_are_offered_that_have_them() -> None:
    """Half an H100 for each user: an A100 has 3g.40gb as well, an L40S cannot be cut."""
    works = {"w": job("1 x H100/3g.40gb", replicas=2)}
    stack = stack_of(NODES, works, hardware=SHAPES, limits={"user": {"gpus_by_model": {"H100": 0.5}}})
    found = solve(stack).placement
    assert "needs 0.5 GPUs; user ada has 0 left of 0.5 on H100; A100 would be allowed" in told(found)
    fixes = {str(fix.edits[0]) for fix in why(stack, found, "w").fixes}
    assert "workloads.w.each.gpus=1 x H100|A100/3g.40gb" in fixes and not any("L40S" in fix for fix in fixes)


@pytest.mark.parametrize(("wanted", "stays"), [("1 x L40S", False), ("1 x H100|L40S", True)])
def test_an_instance_is_kept_by_who_asks_for_more_only_on_a_model_that_has_it(wanted: str, stays: bool) -> None:
    rest = {"v": job("1 x H100/3g.40gb")}
    last = solve(stack_of(NODES, rest | {"w": job("1 x H100/3g.40gb")}, hardware=SHAPES)).placement
    nodes = NODES | {"l": {"hardware": "l40s", "state": "drain"}}
    stack = stack_of(nodes, rest | {"w": job(wanted)}, hardware=SHAPES)
    then, after = solve_keeping(stack, last)
    assert judge(then, after.placement) == ()
    assert ("w-0" in after.placement.by_name()) == stays == bool(after.placement.growing)


def test_a_reason_leaves_a_model_out_that_is_given_up() -> None:
    """The only cards that may be cut are drained: then the rules on all other nodes are looked at together."""
    nodes = {"h": NODES["h"] | {"state": "drain"}, "c": {"hardware": "cpu"}}
    shapes = SHAPES | {"cpu": {"vcpus": 8, "memory": "64 GB"}}
    texts = told(solve(stack_of(nodes, {"w": job("2 x H100/1g.10gb")}, hardware=shapes)).placement)
    assert "needs 2 x 1g.10gb on one node" in " ".join(texts) and "None" not in " ".join(texts)


def test_of_those_on_a_card_those_are_named_that_take_the_same_of_it() -> None:
    works = {"low": job("1 x H100/1g.10gb"), "mid": job("1 x H100/1g.10gb"), "top": job("1 x H100/3g.40gb")}
    stack = stack_of({"h": NODES["h"]}, works, hardware=SHAPES)
    places = {"low": "0:1g.10gb@0/8", "mid": "0:1g.10gb@4/8", "top": "0:3g.40gb@4-7/8"}
    there = [
        one.model_copy(update={"gpus": (Device.parse(places[one.workload]),)}) for one in solve(stack).placement.allocations
    ]
    (broken,) = judge(stack, Placement(allocations=tuple(there)))
    assert broken.text == "GPU 0 of h is held by mid-0 and top-0"


def test_who_takes_the_place_of_one_that_makes_way_for_another_is_not_why_it_stopped() -> None:
    """A whole card for `new`: the small instance on it goes where `chat-0` was, and both halves of `chat` stop for `new`."""
    shapes = SHAPES | {"two": {"gpus": "2 x H100", "vcpus": 16, "memory": "64 GB", "mig": True}}
    works = {"chat": job("1 x H100/3g.40gb", replicas=2), "note": job("1 x H100/1g.10gb")}
    last = solve(stack_of({"n": {"hardware": "two"}}, works, hardware=shapes)).placement
    places = {"chat-0": "0:3g.40gb@4-7/8", "chat-1": "1:3g.40gb@4-7/8", "note-0": "1:1g.10gb@3/8"}
    before = Placement(
        allocations=tuple(one.model_copy(update={"gpus": (Device.parse(places[one.name]),)}) for one in last.allocations)
    )
    stack = stack_of({"n": {"hardware": "two"}}, works | {"new": job("1 x H100", priority="high")}, hardware=shapes)
    (new,) = solve(
        stack_of({"n": {"hardware": "two"}}, {"new": works["note"] | job("1 x H100")}, hardware=shapes)
    ).placement.allocations
    moved = {"note-0": "0:1g.10gb@4/8", "new-0": 1}
    after = Placement(
        allocations=tuple(
            one.model_copy(update={"gpus": (Device.parse(moved[one.name]),)}) for one in (new, before.by_name()["note-0"])
        )
    )
    assert came(stack, before, after, (before.by_name()["chat-0"],), None).names == ("new",)


def test_a_gang_that_could_not_grow_and_lost_its_place_is_pending_with_all_of_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried in its old size beside one that can keep its own, and a higher priority stops it; then it asks for what is
    written. Reasons are sought once.
    """
    small = {"gang": 1, "each": {"gpus": "1 x L40S", "vcpus": 1, "memory": "1 GB"}}
    both = {"w": small, "cpu": {"each": {"vcpus": 10, "memory": "1 GB"}}}
    last = solve(stack_of({"l": NODES["l"]}, both, hardware=SHAPES)).placement
    new = {"w": small | {"gang": 2}, "cpu": {"each": {"vcpus": 30, "memory": "1 GB"}}, "urgent": job(1, priority="high")}
    stack = stack_of({"l": NODES["l"]}, new, hardware=SHAPES)
    sought, explained = [], Unexplained.explained

    def counted(self: Unexplained, times: int) -> Solution:
        sought.append(self)
        return explained(self, times)

    monkeypatch.setattr(Unexplained, "explained", counted)
    then, after = solve_keeping(stack, last)
    (waits,) = after.placement.unplaced
    assert then.workloads["w"].gang == 2 and {*after.placement.by_name()} == {"urgent-0", "cpu-0"}
    assert (waits.workload, waits.missing) == ("w", (0, 1)) and [one.workload for one in after.placement.growing] == ["cpu"]
    assert "of 2 members fit" in " ".join(told(after.placement))
    assert len(sought) == 1
