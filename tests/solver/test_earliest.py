"""Is the moment at which pending work is said to fit the first one? Compared with every way to place it, tried and judged."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm_iac.limits import judge
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.advice.earliest import End, Start, earliest, ends
from tests.sized import sizes
from tests.solver.fleets import PLACES, stack_of

HARDWARE: dict[str, dict[str, Any]] = {
    "small": {"gpus": "2 x L40S", "vcpus": 4, "memory": "8 GB", "nvme": "1 TB", "nic": "10 Gbit/s"},
    "large": {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "nvme": "1 TB", "nic": "10 Gbit/s"},
}
QUIET = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    request: dict[str, Any] = {
        "user": draw(st.sampled_from(["ada", "bo"])),
        "each": {"gpus": draw(st.sampled_from([1, 1, 2, 3, "1 x H100"])), "vcpus": draw(st.sampled_from([1, 2])),
                 "memory": draw(st.sampled_from(["1 GB", "5 GB"]))},
        "time": draw(st.sampled_from([{}, {"limit": "1 h"}, {"limit": "2 h"}, {"expected": "3 h"},
                                      {"limit": "4 h", "past": "report"}])),
        "hold": draw(st.sampled_from([False, False, False, True])),
        "on_grow": "stop",
    }  # fmt: skip
    request["gang" if draw(st.booleans()) else "replicas"] = draw(st.sampled_from([1, 1, 2, 3]))
    place = draw(st.sampled_from([{}, {}, *PLACES]))
    egress = draw(st.sampled_from([None, None, "4 Gbit/s"]))
    return request | ({"place": place} if place else {}) | ({"network": {"egress": egress}} if egress else {})


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Stack, Placement, dict[str, int], set[str]]:
    """A fleet, what runs on it, when some of that began (now is 10,000), and what of it has ended."""
    shapes = draw(st.lists(st.sampled_from(sorted(HARDWARE)), min_size=1, max_size=3))
    nodes = {
        f"n{i}": {"hardware": one, "rack": draw(st.sampled_from(["r1", "r2"])), "state": draw(st.sampled_from(["ready"] * 5 + ["cordon"]))}
        for i, one in enumerate(shapes)
    }  # fmt: skip
    works = {f"w{i}": request for i, request in enumerate(draw(st.lists(requests(), min_size=2, max_size=5)))}
    limits = draw(st.sampled_from([{}, {"user": {"gpus": 3}}, {"cluster": {"gpus": 5}}]))
    stack = stack_of(nodes, works, hardware=HARDWARE, racks={"r1": {"uplink": "8 Gbit/s"}, "r2": {}}, limits=limits)
    placement = solve(stack, reasons=False).placement
    names = [one.name for one in placement.allocations]
    began = {name: 10_000 - draw(st.sampled_from([0, 600, 3000, 9000])) for name in names if draw(st.booleans())}
    return stack, placement, began, {name for name in names if draw(st.integers(0, 9)) == 0}


def fits(stack: Stack, stands: tuple[Allocation, ...], workload: str) -> bool:
    """Can one more replica (all of a gang) be added beside these? Every choice of nodes is judged apart from the solver."""
    request = stack.workloads[workload]
    have = {one.index for one in stands if one.workload == workload}
    missing = [index for index in range(request.members) if index not in have]
    missing = missing if request.gang is not None else missing[:1]
    kept = frozenset(one.name for one in stands)
    broken = judge(stack, Placement(allocations=stands), kept=kept)  # a gang of which a member has ended
    for nodes in itertools.combinations_with_replacement(sorted(stack.nodes), len(missing)):
        more: list[Allocation] = []
        for index, node in zip(missing, nodes, strict=True):
            taken = {gpu for one in (*stands, *more) if one.node == node for gpu in one.cards}
            free = [gpu for gpu in range(stack.hardware_of(node).gpus.count) if gpu not in taken]
            more.append(
                Allocation(
                    name=f"{workload}-{index}", workload=workload, index=index, node=node,
                    gpus=tuple(free[: request.each.gpus.count]), **sizes(request),
                )
            )  # fmt: skip
        then = Placement(allocations=tuple(sorted((*stands, *more), key=lambda one: one.name)))
        whole = all(len(one.gpus) == request.each.gpus.count for one in more)
        if whole and all(one in broken for one in judge(stack, then, kept=kept)):
            return True
    return False


def tried(stack: Stack, placement: Placement, workload: str, order: tuple[End, ...]) -> tuple[int, str] | None:
    """After how long it fits first, and who has ended then; None when it fits at once, or never."""
    stands = placement.allocations
    if fits(stack, stands, workload):
        return None
    for end in order:
        stands = tuple(one for one in stands if one.name != end.allocation.name)
        if end.allocation.workload != workload and fits(stack, stands, workload):
            return end.seconds, end.allocation.name
    return None


FOUND: list[Start] = []


@QUIET
@given(crowded())
def _on_random_fleets(drawn: tuple[Stack, Placement, dict[str, int], set[str]]) -> None:
    stack, placement, began, over = drawn
    order = ends(stack, placement, began, over, 10_000)
    assert [end.seconds for end in order] == sorted(end.seconds for end in order)
    for gone in placement.unplaced:
        mine = tuple(end for end in order if end.allocation.workload != gone.workload)
        answer = earliest(stack, placement, [gone.workload], order).get(gone.workload)
        assert (None if answer is None else (answer.after, answer.job)) == tried(stack, placement, gone.workload, mine)
        FOUND.extend([answer] if answer else [])


@pytest.mark.engine
def test_the_first_moment_is_told_and_no_earlier_or_later_one() -> None:
    FOUND.clear()
    _on_random_fleets()
    assert len(FOUND) > 50, "too few had to wait for anything"
    assert {one.how for one in FOUND} == {"limit", "expected", "ended"}
    assert {one.known for one in FOUND} == {True, False}


def placed(**where: str) -> Placement:
    """One GPU each: allocation → node."""
    cards: dict[str, int] = {}
    found = []
    for name, node in where.items():
        cards[node] = cards.get(node, -1) + 1
        one = {"name": f"{name}-0", "workload": name, "index": 0, "node": node, "gpus": (cards[node],)}
        found.append(Allocation.model_validate({**one, "vcpus": 1, "memory": "1 GB", "egress": "4 Gbit/s"}))
    return Placement(allocations=tuple(found))


@pytest.mark.parametrize(
    ("time", "more", "began", "over", "told"),
    [
        ("2 h", {}, {"w-0": 6400}, (), [(3600, "limit", True)]),
        ("2 h", {}, {}, (), [(7200, "limit", False)]),
        ({"expected": "1 h", "limit": "2 h"}, {}, {"w-0": 10_000}, (), [(7200, "limit", True)]),
        ({"expected": "1 h", "limit": "2 h", "past": "report"}, {}, {"w-0": 10_000}, (), [(3600, "expected", True)]),
        ({"limit": "2 h", "past": "report"}, {}, {"w-0": 10_000}, (), [(7200, "expected", True)]),
        ({"expected": "1 h"}, {}, {"w-0": 6400}, (), []),  # it is past that, so nobody knows
        ("2 h", {}, {"w-0": 1000}, (), [(0, "limit", True)]),  # it is being ended
        ({}, {}, {"w-0": 1000}, (), []),
        ({}, {}, {}, {"w-0"}, [(0, "ended", True)]),
        ("2 h", {"hold": True}, {"w-0": 6400}, (), []),  # it keeps what it holds
        ("2 h", {"hold": True}, {}, {"w-0"}, []),
        ("2 h", {"renamed_from": "old"}, {"old-0": 6400}, (), [(3600, "limit", True)]),
    ],
)
def test_the_end_of_a_run(time: Any, more: dict[str, Any], began: dict[str, int], over: set[str], told: list[Any]) -> None:
    stack = stack_of({"n0": {}}, {"w": {"time": time, "run": {"command": "x"}, **more}})
    assert [(end.seconds, end.how, end.known) for end in ends(stack, placed(w="n0"), began, over, 10_000)] == told


def test_an_end_elsewhere_in_the_rack_gives_bandwidth_to_a_node() -> None:
    """Both members need the uplink of the rack, and the one node with the label."""
    request = {"each": {"gpus": 1}, "network": {"egress": "4 Gbit/s"}}
    works = {"a": {**request, "time": "1 h"}, "b": {**request, "time": "2 h"}, "c": {**request, "time": "3 h"},
             "pair": {**request, "gang": 2, "place": {"within": "node", "select": {"at": "x"}}}}  # fmt: skip
    nodes = {f"n{i}": {"rack": "r1", "labels": {"at": "x" if i == 2 else "y"}} for i in range(3)}
    stack = stack_of(nodes, works, racks={"r1": {"uplink": "16 Gbit/s"}})
    placement = placed(a="n0", b="n1", c="n1")
    start = earliest(stack, placement, ["pair"], ends(stack, placement))["pair"]
    assert (start.after, start.job) == (3600, "a-0")
