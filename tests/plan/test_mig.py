"""On one node, who waits for whom where cards are cut? Each eighth of a card has one owner at a time, whatever the sum says."""

from __future__ import annotations

import pytest

from swarm_iac.model.device import Device
from swarm_iac.model.state import AllocationState, GpuFacts, SliceState, UnitState
from swarm_iac.model.step import Verb
from swarm_iac.plan.order import temporary_placement
from swarm_iac.plan.step_graph.hand_over_order import Schedule, fits, hold, kept, waits
from tests.solver.fleets import stack_of

#: What a machine has of all that is counted; none of it matters here.
HAS = {"memory": 10**12, "storage": 10**12, "egress": 10**12, "ingress": 10**12, "numa": 1}


def state(*gpus: int | str) -> AllocationState:
    devices = tuple(map(Device.parse, gpus))
    return AllocationState(
        workload="w", gpus=devices, slice=SliceState(cpus="0-7", cpu_quota_m=1000), unit=UnitState(user="ada")
    )


def asked(old: dict[str, AllocationState], new: dict[str, AllocationState]) -> set[str]:
    """For whom `taker` waits."""
    return waits(old, new, HAS, Schedule()).get(Verb.SLICE, {}).get("taker", set())


@pytest.mark.parametrize(
    ("holders", "wanted", "waits_for"),
    [
        ({"a": "0:1g.10gb@0/8", "b": "0:1g.10gb@4/8"}, "0:3g.40gb@0-3/8", {"a"}),
        ({"a": "0:1g.10gb@0/8", "b": "0:1g.10gb@4/8"}, "0:3g.40gb@4-7/8", {"b"}),
        ({"a": "0:1g.10gb@0/8", "b": "0:1g.10gb@4/8"}, "0:1g.10gb@1/8", set()),
        ({"a": "0:1g.10gb@0/8", "b": "0:1g.10gb@4/8"}, 0, {"a", "b"}),
        ({"a": "0:1g.10gb@0/8", "b": "0:1g.10gb@4/8"}, "0:0.25", {"a", "b"}),
        ({"a": 0}, "0:1g.10gb@6/8", {"a"}),
        ({"a": "0:0.1", "b": "0:0.2"}, "0:1g.10gb@6/8", {"a", "b"}),
        ({"a": "0:1g.6gb@0/4"}, "0:2g.12gb@0-1/4", {"a"}),
        ({"a": "1:1g.10gb@0/8"}, "0:7g.80gb@0-7/8", set()),
    ],
)
def test_who_takes_waits_for_those_who_lie_there(holders: dict[str, int | str], wanted: int | str, waits_for: set[str]) -> None:
    old = {name: state(gpu) for name, gpu in holders.items()}
    assert asked(old, {"taker": state(wanted)}) == waits_for
    assert fits(hold(state(wanted)), map(hold, old.values()), HAS) == (not waits_for)


def test_who_stays_keeps_its_instance_and_nobody_waits_for_it() -> None:
    old = {"stays": state("0:3g.40gb@4-7/8"), "goes": state("0:3g.40gb@0-3/8")}
    new = {"stays": state("0:3g.40gb@4-7/8"), "taker": state("0:2g.20gb@0-1/8")}
    assert asked(old, new) == {"goes"}


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (("0:1g.10gb@0/8", "0:1g.10gb@1/8"), ("0:1g.10gb@1/8",), ("0:1g.10gb@1/8",)),
        (("0:1g.10gb@0/8",), ("0:1g.10gb@1/8",), ()),
        ((0,), ("0:1g.10gb@1/8",), ()),
        (("0:1g.10gb@1/8",), (0,), ()),
        (("0:0.5",), ("0:0.25",), ("0:0.25",)),
    ],
)
def test_what_is_kept_while_others_take(
    old: tuple[int | str, ...], new: tuple[int | str, ...], left: tuple[int | str, ...]
) -> None:
    assert [one.plain for one in kept(state(*old), state(*new), Verb.SLICE).gpus] == [*left]


@pytest.mark.parametrize(
    ("held", "strangers", "asked", "seated"),
    [
        ((), (), ("1:1g.10gb@6/8",), ["0:1g.10gb@0/8"]),
        ((0,), (), ("0:1g.10gb@6/8",), ["1:1g.10gb@0/8"]),
        (("1:2g.20gb@0-1/8",), (), ("0:1g.10gb@0/8",), ["1:1g.10gb@2/8"]),
        (("1:2g.20gb@0-1/8",), (), ("0:4g.40gb@0-3/8",), ["0:4g.40gb@0-3/8"]),
        (("1:2g.20gb@0-1/8",), (0,), ("0:4g.40gb@0-3/8",), None),
        (("0:0.1", 1), (), ("0:1g.10gb@0/8",), None),
        ((0,), (), ("0:3g.40gb@0-3/8", "0:3g.40gb@4-7/8"), ["1:3g.40gb@0-3/8", "1:3g.40gb@4-7/8"]),
        ((), (), ("0:7g.80gb@0-7/8",) * 3, None),
        ((), (), ("0:1g.5gb@0/8",), None),
    ],
)
def test_an_instance_stands_in_where_its_profile_has_a_free_position(
    held: tuple[int | str, ...], strangers: tuple[int, ...], asked: tuple[str, ...], seated: list[str] | None
) -> None:
    cards = [
        GpuFacts(
            index=card, pci="", uuid="", model="NVIDIA H100 80GB HBM3", memory=85_520_809_984,
            instances=("1g@6/1",) if card in strangers else (),
        )
        for card in range(2)
    ]  # fmt: skip
    found = temporary_placement._cut(state(*asked).gpus, cards, state(*held).gpus)
    assert (found and [one.plain for one in found]) == seated


def test_it_stands_in_only_where_cards_may_be_cut() -> None:
    shape = {"gpus": "4 x H100", "vcpus": 16, "memory": "64 GB"}
    nodes = {"cut": {"hardware": "cut"}, "whole": {"hardware": "whole"}}
    each = {"each": {"gpus": "1 x H100/1g.10gb"}}
    fleet = stack_of(nodes, {"w": each}, hardware={"cut": {**shape, "mig": True}, "whole": shape})
    assert [node for node in nodes if temporary_placement.may_be_placed(fleet, "w", node)] == ["cut"]
