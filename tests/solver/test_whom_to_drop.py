"""Who goes where someone has to: those that leave anyway, then the smallest in every resource, never by a name's chance?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve

SMALL = {"vcpus": 10, "memory": "10 GB", "scratch": "10 GB"}


def stack_of(workloads: dict[str, Any], nodes: dict[str, Any] | None = None, **rest: Any) -> Stack:
    hardware = {"h": {"gpus": "4 x H100", "vcpus": 100, "memory": "100 GB", "nvme": "100 GB", "nic": "100 Gbit/s"}}
    found = {name: {"name": name, "hardware": "h", "ssh": "local", **more} for name, more in (nodes or {"a": {}}).items()}
    return Stack.model_validate({"fleet": "f", "hardware": hardware, "nodes": found, "workloads": workloads, **rest})


def stopped(workloads: dict[str, Any], comes: dict[str, Any], nodes: dict[str, Any] | None = None) -> set[str]:
    """Who of these is stopped when that comes with a high priority."""
    before = stack_of(workloads, nodes)
    last = solve(before).placement
    assert not last.unplaced
    now = solve(stack_of({**workloads, "comes": {"user": "cy", "priority": "high", "each": comes}}, nodes), last)
    assert now.proof.optimal and "comes-0" in now.placement.by_name()
    return {one.name for one in last.allocations} - {one.name for one in now.placement.allocations}


@pytest.mark.parametrize("names", list(itertools.permutations(("aa", "mm", "zz"))))
@pytest.mark.parametrize(
    ("sizes", "comes"),
    [
        (({"vcpus": 60}, {"vcpus": 25}, {"vcpus": 15}), {"vcpus": 15}),
        (({"memory": "60 GB"}, {"memory": "25 GB"}, {"memory": "15 GB"}), {"memory": "15 GB"}),
        (({"scratch": "60 GB"}, {"scratch": "25 GB"}, {"scratch": "15 GB"}), {"scratch": "15 GB"}),
        (({"gpus": 1, **SMALL, "vcpus": 60}, {"gpus": 1, **SMALL, "vcpus": 20}, {"gpus": 2, "vcpus": 1}), {"gpus": 1}),
    ],
)
def test_the_smallest_that_makes_room(names: tuple[str, ...], sizes: tuple[Any, ...], comes: dict[str, Any]) -> None:
    """Whatever they are called, and in whichever order they stand in the file."""
    workloads = {name: {"user": "ada", "each": {"memory": "1 GB", **size}} for name, size in zip(names, sizes, strict=True)}
    least = names[1] if "gpus" in comes else names[2]
    assert stopped(workloads, comes) == {f"{least}-0"}
    assert stopped(dict(reversed(workloads.items())), comes) == {f"{least}-0"}


@pytest.mark.parametrize("names", [("aa", "zz"), ("zz", "aa")])
def test_of_equals_the_one_further_down_in_the_file(names: tuple[str, str]) -> None:
    workloads = {name: {"user": "ada", "each": {"vcpus": 50}} for name in names}
    assert stopped(workloads, {"vcpus": 20}) == {f"{names[1]}-0"}


def test_on_the_node_where_the_least_is_lost() -> None:
    workloads = {
        "big": {"user": "ada", "each": {"vcpus": 90}, "place": {"select": {"on": "a"}}},
        "mid": {"user": "ada", "each": {"vcpus": 85}, "place": {"select": {"on": "b"}}},
    }
    assert stopped(workloads, {"vcpus": 20}, {n: {"labels": {"on": n}} for n in "ab"}) == {"mid-0"}


@pytest.mark.parametrize("kind", ["serve", "train"])
@pytest.mark.parametrize("leaves", ["n1", "n2", "n3"])
@pytest.mark.parametrize("how", [{"state": "drain"}, {"state": "lost"}, {"state": "cordon"}, {"labels": {}}, None])
def test_scaled_down_while_a_node_leaves(kind: str, leaves: str, how: dict[str, Any] | None) -> None:
    """One replica goes, the one that cannot stay: nothing healthy stops, and nothing moves."""
    nodes: dict[str, Any] = {f"n{i}": {"labels": {"of": "lab"}} for i in (1, 2, 3)}
    place = {"spread": "node", "select": {"of": "lab"}}
    request = {"s": {"user": "ada", "kind": kind, "replicas": 3, "each": {"gpus": 1}, "place": place}}
    last = solve(stack_of(request, nodes)).placement
    now = {name: {**node, **how} if name == leaves and how is not None else node for name, node in nodes.items()}
    if how is None:
        del now[leaves]
    found = solve(stack_of({"s": {**request["s"], "replicas": 2}}, now), last)
    assert {one for one in last.allocations if one.node != leaves} == set(found.placement.allocations)
    assert found.moves == () and found.placement.unplaced == ()
    again = solve(stack_of({"s": {**request["s"], "replicas": 2}}, now), found.placement)
    assert again.placement.allocations == found.placement.allocations


def test_what_is_scaled_up_again_takes_the_free_numbers() -> None:
    nodes = {"n1": {}, "n2": {}, "n3": {}}
    request = {"user": "ada", "kind": "serve", "each": {"gpus": 1}, "place": {"spread": "node"}}
    last = solve(stack_of({"s": {**request, "replicas": 3}}, nodes)).placement
    less = solve(stack_of({"s": {**request, "replicas": 2}}, {**nodes, "n1": {"state": "drain"}}), last).placement
    assert {one.name for one in less.allocations} == {"s-1", "s-2"}
    more = solve(stack_of({"s": {**request, "replicas": 3}}, nodes), less).placement
    assert {one.name: one.node for one in more.allocations} == {"s-0": "n1", "s-1": "n2", "s-2": "n3"}
    none = solve(stack_of({"s": {**request, "replicas": 3}}, {"n2": {}, "n3": {}}), less).placement
    assert [one.missing for one in none.unplaced] == [(0,)]


def test_what_no_longer_fits_its_machine_goes_smallest_first() -> None:
    """A machine that lost a part of its cores: the larger one stays."""
    workloads = {name: {"user": "ada", "each": {"vcpus": vcpus}} for name, vcpus in (("aa", 20), ("zz", 60))}
    last = solve(stack_of(workloads)).placement
    data = stack_of(workloads).model_dump(mode="json", by_alias=True, exclude_unset=True)
    data["hardware"]["h"]["vcpus"] = 70
    assert [one.name for one in solve(Stack.model_validate(data), last).placement.allocations] == ["zz-0"]
    assert (
        solve(Stack.model_validate(data), Placement(allocations=last.allocations[::-1])).placement.unplaced[0].workload == "aa"
    )


def test_nobody_moves_so_that_who_stands_later_in_the_file_stops() -> None:
    """Of two that are alike one of each stops where it stands; stopping both of the second would move one of the first."""
    nodes = {"a": {}, "b": {}}
    two = {"user": "ada", "priority": "low", "replicas": 2, "each": {"gpus": 2}}
    before = stack_of({"first": two, "second": two}, nodes)
    placed = [
        a.model_copy(update={"node": "a" if a.workload == "first" else "b", "gpus": whole_gpus((2 * a.index, 2 * a.index + 1))})
        for a in solve(before).placement.allocations
    ]
    last = Placement(allocations=tuple(placed))
    comes = {"user": "bo", "priority": "normal", "replicas": 2, "each": {"gpus": 2}, "place": {"spread": "node"}}
    now = solve(stack_of({"first": two, "second": two, "comes": comes}, nodes), last)
    assert now.proof.optimal and [move for move in now.moves if move.target] == []
    assert sorted((a.workload, a.node) for a in now.placement.allocations) == [
        ("comes", "a"),
        ("comes", "b"),
        ("first", "a"),
        ("second", "b"),
    ]
