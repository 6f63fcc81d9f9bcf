"""Is every replica of `place: {numa: single}` on one NUMA node, and placed wherever that can be?"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.device import gpu, whole_gpus
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, solve, solve_keeping, why
from swarm_iac.solver.decide import large
from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.repair import unsplitting
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.undo_moves import eased
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify, full_task, repair_task
from tests.solver.fleets import stack_of
from tests.solver.oracle import still
from tests.solver.test_numa import NODES, SHAPE, _small, each, fleet, lies, parts, sound

#: Fleets that are drawn; `NUMA_DRAWS=3000 pytest tests/solver/test_numa_single.py` for many.
DRAWS = int(os.environ.get("NUMA_DRAWS", "60"))
ONE = {"n1": {"hardware": "h"}}
SINGLE = {"place": {"numa": "single"}}


def halves(node: str = "n1") -> tuple[dict[str, Any], Placement]:
    """Two jobs that leave two of four GPUs free on each socket of a node with eight."""
    small = each(2, 8, pinned=True)
    held = (_small("a", 0, range(8), 0), _small("b", 4, range(96, 104), 1))
    last = (a.model_copy(update={"node": node, "gpus": whole_gpus((a.cards[0], a.cards[0] + 1))}) for a in held)
    return {"a": small, "b": small}, Placement(allocations=tuple(last))


def test_it_goes_to_a_node_with_room_on_one_socket() -> None:
    works, last = halves()
    stack = fleet(works | {"new": each(4, 24, pinned=True, **SINGLE)})
    found = solve(stack, last)
    assert (found.placement.by_name()["new-0"].node, found.placement.by_name()["new-0"].numa) == ("n2", (0,))
    assert found.moves == () and found.proof.optimal
    sound(stack, found.placement)


@pytest.mark.parametrize(("before", "after"), [("0.5 x H100", 1), (1, "0.5 x H100"), ("0.5 x H100", 2), (2, "0.5 x H100")])
def test_between_a_part_and_whole_cards_it_keeps_a_card_and_has_its_new_size(before: Any, after: Any) -> None:
    last = solve(fleet({"a": each(before, 4, **SINGLE)}, ONE)).placement
    stack = fleet({"a": each(after, 4, **SINGLE)}, ONE)
    found = solve(stack, last).placement
    assert not {*last.allocations[0].cards}.isdisjoint(found.allocations[0].cards)
    sound(stack, found)


def test_with_two_free_on_each_socket_it_waits_and_says_so() -> None:
    works, last = halves()
    stack = fleet(works | {"new": each(4, 24, pinned=True, **SINGLE)}, ONE)
    found = solve(stack, last)
    (gone,) = found.placement.unplaced
    assert (gone.workload, gone.code) == ("new", "Topology")
    assert gone.nodes == "1 node: 1 has it free only over several NUMA nodes"
    (reason,) = gone.reasons
    assert (reason.rule, reason.path) == ("single_fits_numa_node", "workloads.new.place.numa")
    assert reason.text == "needs 4 GPUs on one NUMA node; 4 GPUs are free on n1, but at most 2 on one NUMA node"
    edits = [edit.path for fix in why(stack, found.placement, "new", last=last).fixes for edit in fix.edits]
    assert edits[0] == "workloads.new.place.numa"
    sound(stack, found.placement)
    plain = fleet(works | {"new": each(4, 24, pinned=True)}, ONE)
    assert "new-0" in solve(plain, last).placement.by_name()


def parts_on_both() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], Placement]:
    """Nodes, workloads, shapes and where these run: n1 and n2 have a GPU on each NUMA node that is held, or a part of one."""
    shapes = {"h": {"gpus": "4 x H100", "numa": 2, "vcpus": 64, "memory": "256 GB"}}
    shapes["s"] = {"gpus": "1 x H100", "vcpus": 64, "memory": "256 GB"}
    nodes = {"n1": {"hardware": "h"}, "n2": {"hardware": "h"}, "n3": {"hardware": "s"}}
    works = {name: each(gpus, 4) for name, gpus in (("p", "0.5 x H100"), ("q", "0.5 x H100"), ("m", 1), ("n", 1))}
    held = solve(stack_of(nodes, works, hardware=shapes)).placement.by_name()
    places = {"p-0": ("n1", gpu(0, 500)), "q-0": ("n1", gpu(2, 500)), "m-0": ("n2", gpu(0)), "n-0": ("n2", gpu(2))}
    last = Placement(
        allocations=tuple(
            held[name].model_copy(update={"node": node, "gpus": (one,), "numa": (one.index // 2,)})
            for name, (node, one) in places.items()
        )
    )
    return nodes, works, shapes, last


@pytest.mark.parametrize("scale", [Scale(), Scale(pairs=0, nodes=0)], ids=["small", "large"])
def test_where_parts_lie_on_both_numa_nodes_another_node_is_freed(scale: Scale) -> None:
    """A search counts no cards of parts, so it sees two whole GPUs on one NUMA node of n1; there is one on each."""
    nodes, works, shapes, last = parts_on_both()
    stack = stack_of(nodes, works | {"new": each(2, 4, **SINGLE)}, hardware=shapes, solve={"moves": 1})
    found = solve(stack, last, scale=scale)
    assert not found.placement.unplaced
    assert found.placement.by_name()["new-0"].node == "n2"
    assert [move.name for move in found.moves if move.target] in (["m-0"], ["n-0"])
    sound(stack, found.placement)


@pytest.mark.parametrize("late", [False, True], ids=["while it is decided", "afterwards"])
def test_what_is_left_after_one_came_out_split_is_bounded_on_a_large_fleet(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a move it waits. Nine GPUs hold no eighteen of low priority, which counting each workload alone would allow."""
    nodes, works, shapes, last = parts_on_both()
    works |= {"new": each(2, 4, **SINGLE), **{name: each(1, 1, replicas=9, priority="low") for name in ("x", "y")}}
    if late:
        monkeypatch.setattr(large, "_on_one", lambda snapshot, classified, counts, freed, watch: counts)
    found = solve(stack_of(nodes, works, hardware=shapes, solve={"moves": 0}), last, scale=Scale(pairs=0, nodes=0))
    assert ("numa" in found.proof.parameters) is late
    (low,) = (goal for goal in found.proof.goals if goal.name == "low_placed_gpu_milli")
    assert 0 < low.value <= low.bound <= 9000


def test_where_a_replica_came_out_split_no_search_puts_a_new_one_again() -> None:
    """Neither the greedy pass nor CP-SAT; those that ran there may return."""
    stack = fleet({"new": each(4, 24, replicas=2, pinned=True, **SINGLE)})
    snapshot = snapshot_of(stack, Placement(), None)
    barred = replace(snapshot, barred=frozenset({("new", "n1")}))
    task = repair_task(barred, classify(barred))
    assert {node for _, node in greedy(task)} == {"n2"}
    assert {node for _, node in greedy(repair_task(snapshot, classify(snapshot)))} == {"n1"}
    assert {node for _, node in FleetModel(task, Counter()).x} == {"n2"}
    last = solve(fleet({"new": each(4, 24, pinned=True, **SINGLE)}, ONE)).placement
    ran = replace(snapshot_of(stack, last, None), barred=frozenset({("new", "n1")}))
    assert ("new", "n1") in FleetModel(full_task(ran, classify(ran)), Counter()).x


def test_a_node_with_small_numa_nodes_never_suits() -> None:
    stack = stack_of(
        {"n1": {"hardware": "h"}, "n2": {"hardware": "s"}},
        {"new": each(4, replicas=3, **SINGLE)},
        hardware={"h": SHAPE, "s": SHAPE | {"numa": 4}},
    )
    found = solve(stack)
    assert [a.node for a in found.placement.allocations] == ["n1", "n1"]
    (gone,) = found.placement.unplaced
    assert gone.nodes == "2 nodes: 1 lacks GPUs, 1 has NUMA nodes that are too small"
    sound(stack, found.placement)


def test_a_gang_is_whole_on_sockets_or_waits() -> None:
    works, last = halves()
    gang = each(4, 24, pinned=True, **SINGLE)
    two = fleet(works | {"new": gang | {"gang": 2}})
    found = solve(two, last).placement
    assert [found.by_name()[f"new-{i}"].numa for i in range(2)] == [(0,), (1,)]
    four = fleet(works | {"new": gang | {"gang": 4}})
    assert [gone.workload for gone in solve(four, last).placement.unplaced] == ["new"]


def test_three_of_four_do_not_share_a_socket() -> None:
    """A node with 8 GPUs holds two of three GPUs, not the two and two thirds that its total says."""
    stack = fleet({"new": each(3, replicas=4, **SINGLE)}, ONE)
    found = solve(stack)
    assert len(found.placement.allocations) == 2 and found.proof.optimal
    sound(stack, found.placement)


def test_who_runs_on_both_sockets_stays_when_the_rule_is_added() -> None:
    before = fleet({"job": each(4, 24, pinned=True), "x": each(2), "y": each(2)}, ONE)
    run = solve(before).placement.by_name()["job-0"]
    was = run.model_copy(update={"gpus": whole_gpus((0, 1, 4, 5)), "cpus": (*range(12), *range(96, 108)), "numa": (0, 1)})
    stack = fleet({"job": each(4, 24, pinned=True, **SINGLE)})
    found = solve(stack, Placement(allocations=(was,)))
    assert found.placement.allocations == (was,) and found.moves == ()
    assert judge(stack, found.placement, kept=frozenset({"job-0"})) == ()
    assert [one.rule for one in judge(stack, found.placement)] == ["replicas_are_on_one_numa_node"]
    told = why(stack, found.placement, "job", last=found.placement).fits[-1].text
    assert told == "job-0 is split over NUMA nodes 0 and 1 of n1: it ran so before `numa: single`, and is not stopped for it"


def test_a_job_that_has_a_socket_is_not_torn_by_one_that_wants_its_own() -> None:
    """What came without the rule takes what is left over several NUMA nodes."""
    stack = fleet({"a": each(3, priority="low"), "b": each(4, **SINGLE), "c": each(1)}, ONE)
    found = solve(stack).placement
    assert len(found.allocations) == 3 and len(lies(stack, found.by_name()["b-0"])) == 1
    sound(stack, found)


def drawn(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Nodes, a shape, and workloads of which most ask for one NUMA node."""
    numa, gpus = chance.choice([2, 2, 4]), chance.choice([4, 8])
    shape = {"gpus": f"{gpus} x H100", "vcpus": chance.choice([16, 30]), "memory": "400 GB", "numa": numa}
    nodes = {f"n{i}": {"hardware": "h"} for i in range(chance.randint(1, 3))}
    works = {}
    for i in range(chance.randint(2, 7)):
        wanted = chance.choice([0, 1, 1, 2, 3, gpus // numa])
        memory = f"{chance.choice([1, 1, 30, 60, 90])} GB"
        request = each(min(wanted, gpus // numa), chance.choice([1, 2, 3]), memory, pinned=chance.random() < 0.6,
                    priority=chance.choice(["low", "normal"]))  # fmt: skip
        request[chance.choice(["replicas", "replicas", "gang"])] = chance.choice([1, 2, 3])
        works[f"w{i}"] = request | (SINGLE if chance.random() < 0.6 else {})
    return nodes, shape, works


def split(stack: Stack, placement: Placement, last: Placement = Placement()) -> list[str]:
    """Those that have to be on one NUMA node, are on several, and did not run so."""
    was = last.by_name()
    return [
        a.name
        for a in placement.allocations
        if stack.workloads[a.workload].place.numa and len(lies(stack, a) | {*a.numa}) > 1 and was.get(a.name) != a
    ]


@pytest.mark.parametrize("seed", range(DRAWS))
def test_no_draw_splits_who_has_to_be_on_one_numa_node(seed: int) -> None:
    chance = random.Random(f"single {seed}")
    nodes, shape, works = drawn(chance)
    stack = fleet(works, nodes, **shape)
    first = solve(stack).placement
    assert split(stack, first) == []
    sound(stack, first)
    assert could_stand(stack, first) == []
    other = {name: request for name, request in works.items() if chance.random() < 0.6}
    for request in other.values():
        if chance.random() < 0.3:
            request.update(SINGLE)  # asked for while it runs
    other |= {f"x{i}": request for i, request in enumerate(drawn(chance)[2].values())}
    for request in other.values():
        request["each"]["gpus"] = min(
            request["each"]["gpus"], stack.hardware_of("n0").gpus.count // stack.hardware_of("n0").numa
        )
    after = fleet(other, nodes, **shape)
    now = solve(after, first)
    assert split(after, now.placement, first) == []
    assert judge(after, now.placement, **still(now.placement, first)) == ()
    ran = {a.workload for a in first.allocations}  # who stops for another may have had another place on its node
    assert [one for one in could_stand(after, now.placement) if one.split()[0] not in ran] == []
    assert not [move for move in now.moves if not move.target and not placed_higher(after, now.placement, move.name)]


def placed_higher(stack: Stack, placement: Placement, name: str) -> bool:
    """Does anything of a higher priority run? Only such may stop it."""
    level = stack.workloads[name.rpartition("-")[0]].priority
    return level == "low" and any(stack.workloads[a.workload].priority != "low" for a in placement.allocations)


def could_stand(stack: Stack, placement: Placement) -> list[str]:
    """Pending ones of `single`, no gangs, for which a NUMA node has all that one replica needs beside what is placed."""
    found = []
    for gone in placement.unplaced:
        work = stack.workloads[gone.workload]
        cores = int(work.each.vcpus) // 1000 if work.each.pinned else 0
        if work.gang is not None or not work.place.numa or not (work.each.gpus.count or cores):
            continue
        for node in stack.nodes:
            hardware, here = stack.hardware_of(node), placement.on(node)
            vcpus = int(hardware.vcpus) - sum(int(a.vcpus) for a in here) >= int(work.each.vcpus)
            memory = int(hardware.memory) - sum(int(a.memory) for a in here) >= int(work.each.memory)
            for j, (own, pins) in enumerate(
                zip(parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa), strict=True)
            ):
                gpus = len({*own} - {i for a in here for i in a.cards}) >= work.each.gpus.count
                pinned = len({*pins} - {i for a in here for i in a.cpus}) >= cores
                bound = sum(int(a.memory) for a in here if j in a.numa or not a.numa)
                capacity = int(hardware.memory) // hardware.numa - bound >= int(work.each.memory)
                if gpus and pinned and capacity and vcpus and memory:
                    found.append(f"{gone.workload} on {node}/{j}")
    return found


def most(counts: list[int], need: list[int], wanted: list[int]) -> int:
    """The most GPUs that single replicas of sizes `need`, so many `wanted` of each, hold on NUMA nodes with so many GPUs."""
    best = 0
    for pick in itertools.product(*(range(count + 1) for count in wanted)):
        sizes = sorted((n for n, count in zip(need, pick, strict=True) for _ in range(count)), reverse=True)
        if sum(sizes) > best and _packs(sizes, counts):
            best = sum(sizes)
    return best


def _packs(sizes: list[int], free: list[int]) -> bool:
    if not sizes:
        return True
    first, *rest = sizes
    return any(left >= first and _packs(rest, [*free[:j], left - first, *free[j + 1 :]]) for j, left in enumerate(free))


@pytest.mark.parametrize("seed", range(30))
def test_as_many_gpus_are_placed_as_any_way_could(seed: int) -> None:
    """One or two sizes from nothing on tiny fleets: exactly the most, by enumeration."""
    chance = random.Random(f"most {seed}")
    numa, gpus = chance.choice([2, 4]), 8
    sizes = [chance.randint(1, gpus // numa) for _ in range(chance.randint(1, 2))]
    wanted = [chance.randint(1, 5) for _ in sizes]
    nodes = {f"n{i}": {"hardware": "h"} for i in range(chance.randint(1, 2))}
    works = {f"w{i}": each(n, replicas=k, **SINGLE) for i, (n, k) in enumerate(zip(sizes, wanted, strict=True))}
    stack = fleet(works, nodes, gpus="8 x H100", numa=numa)
    found = solve(stack).placement
    free = [gpus // numa] * numa * len(nodes)
    assert sum(len(a.gpus) for a in found.allocations) == most(free, sizes, wanted)


def test_no_seat_is_taken_twice() -> None:
    """Kept devices and new ones of one node are apart."""
    works, last = halves()
    stack = fleet(works | {"s": each(2, 4, pinned=True, replicas=3, **SINGLE)}, NODES)
    found = solve(stack, last).placement
    owned: list[tuple[str, int]] = [(a.node, gpu) for a in found.allocations for gpu in a.gpus]
    assert len(owned) == len({*owned}) == 10
    assert all(isinstance(a, Allocation) for a in found.allocations)


@pytest.mark.parametrize("place", [{"numa": "single"}, {"spread": "node"}, {"spread": "node", "numa": "single"}])
def test_who_only_changes_its_size_is_not_left_elsewhere(place: dict[str, str]) -> None:
    stack = fleet({"a": each(1, 8, pinned=True, replicas=1, place=place), "b": each(1, 8, pinned=True)})
    smaller = each(1, 4, pinned=True, replicas=1, place=place)
    last = solve(fleet({"a": smaller, "b": each(1, 8, pinned=True)}), Placement()).placement
    home = last.by_name()["a-0"].node
    snapshot = snapshot_of(stack, last)
    classified = classify(snapshot)
    assert "a-0" in classified.soft
    away = next(node for node in stack.nodes if node != home)
    b = (last.by_name()["b-0"].workload, last.by_name()["b-0"].node)
    assert eased(snapshot, classified, Counter({("a", away): 1, b: 1})) == Counter({("a", home): 1, b: 1})


def test_who_is_in_the_way_only_by_its_devices_starts_anew_with_others() -> None:
    """Two new ones of 5 GB need one of the two NUMA nodes of 8 GB each; what runs is bound to the first with 5 GB."""
    shape = {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "numa": 2}
    runs = {"priority": "low", "each": {"vcpus": 1, "memory": "5 GB", "pinned": True}}
    new = {"replicas": 2, "each": {"gpus": 1, "vcpus": 1, "memory": "5 GB"}, **SINGLE}
    before = stack_of({"n": {"hardware": "s"}}, {"old": runs}, hardware={"s": shape})
    now = stack_of({"n": {"hardware": "s"}}, {"new": new, "old": runs}, hardware={"s": shape})
    last = solve(before).placement
    assert last.by_name()["old-0"].numa == (0,)
    (gone,) = solve(now, last).placement.unplaced
    assert gone.code == "Resources"
    assert [(reason.rule, reason.text) for reason in gone.reasons] == [
        ("keeps_its_devices", "other workloads take the devices it held; on n it can only restart with different ones")
    ]
    found = solve_keeping(now, last)[1].placement
    assert {one.name: one.numa for one in found.allocations} == {"new-0": (0,), "new-1": (1,), "old-0": (0, 1)}
    assert not found.unplaced
    assert judge(now, found, **still(found, last)) == ()


def test_who_moved_and_came_out_on_two_sockets_is_found() -> None:
    """It may stay where it runs, on however many sockets. It does not stay where it moved to."""
    works, _ = halves()
    stack = fleet(works | {"new": each(4, 8, pinned=True, **SINGLE)})
    there = _small("new", 0, range(8), 0).model_copy(update={"node": "n2", "gpus": whole_gpus(range(4)), "numa": (0,)})
    snapshot = snapshot_of(stack, Placement(allocations=(there,)))
    across = {"gpus": whole_gpus((2, 3, 6, 7)), "numa": (0, 1)}
    moved, stays = (there.model_copy(update={"node": node, **across}) for node in ("n1", "n2"))
    assert unsplitting.split(snapshot, classify(snapshot), [moved]) == [moved]
    assert unsplitting.split(snapshot, classify(snapshot), [stays]) == []


def test_what_a_split_replica_leaves_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it comes out split again and again, it waits, and what has room beside the others is placed."""
    stack = fleet({"torn": each(4, 8, priority="high", **SINGLE), "small": each(2, 8), "late": each(2, 8)}, ONE)
    snapshot = snapshot_of(stack, Placement())
    monkeypatch.setattr(unsplitting, "split", lambda snapshot, classified, ones: [a for a in ones if a.workload == "torn"])
    counts = Counter({("torn", "n1"): 1, ("small", "n1"): 1})
    found = unsplitting.unsplit(snapshot, classify(snapshot), counts, lambda: False)
    assert found == {("small", "n1"): 1, ("late", "n1"): 1}


def test_members_that_restart_have_their_gpus_again_beside_a_new_one_that_needs_a_socket() -> None:
    """The gang lost its member on n2, so all of it starts anew; nobody's GPUs are in the way of the new one."""
    gang = each(3, 8, gang=2, place={"spread": "node"})
    last = solve(fleet({"gang": gang})).placement
    new = each(2, 8, place={"numa": "single", "select": {"pool": "here"}})
    nodes = {"n1": {"hardware": "h", "labels": {"pool": "here"}}, "n3": {"hardware": "h"}}
    stack = fleet({"gang": gang, "new": new}, nodes)
    found = solve(stack, last).placement
    assert last.on("n1")[0].cards == (0, 1, 2)
    assert {a.workload: a.cards for a in found.on("n1")} == {"gang": (0, 1, 2), "new": (4, 5)}
    sound(stack, found)
