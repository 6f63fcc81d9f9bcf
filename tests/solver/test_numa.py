"""Does the memory of every NUMA node suffice, and is every replica bound to where its devices are?"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from swarm_iac.cli.decisions import deciding
from swarm_iac.limits import judge
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.plan import desired
from swarm_iac.plan.state.diff import restart_for
from swarm_iac.solver import solve, why
from swarm_iac.solver.decide import locality
from swarm_iac.units import Bytes, Cpus
from tests.solver.fleets import stack_of

SHAPE: dict[str, Any] = {"gpus": "8 x H100", "vcpus": 192, "memory": "2 TB", "numa": 2}
NODES = {name: {"hardware": "h"} for name in ("n1", "n2")}
#: Fleets that are drawn; `NUMA_DRAWS=3000 pytest tests/solver/test_numa.py` for many.
DRAWS = int(os.environ.get("NUMA_DRAWS", "40"))


def fleet(works: dict[str, Any], nodes: dict[str, Any] = NODES, **shape: Any) -> Stack:
    return stack_of(nodes, works, hardware={"h": SHAPE | shape})


def each(gpus: Any = 0, vcpus: float = 1, memory: str = "1 GB", *, pinned: bool = False, **rest: Any) -> dict[str, Any]:
    return rest | {"each": {"gpus": gpus, "vcpus": vcpus, "memory": memory, "pinned": pinned}}


def parts(total: int, count: int) -> list[range]:
    return [range(j * total // count, (j + 1) * total // count) for j in range(count)]


def lies(stack: Stack, a: Allocation) -> set[int]:
    """The NUMA nodes of its GPUs and cores."""
    hardware = stack.hardware_of(a.node)
    gpus, cores = parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa)
    return {j for j in range(hardware.numa) if set(gpus[j]) & {*a.cards} or set(cores[j]) & {*a.cpus}}


def unplaced_bytes(stack: Stack, node: str, placement: Placement) -> int:
    """Memory on the node that no NUMA node has room for, by augmenting paths: replica → NUMA node."""
    hardware = stack.hardware_of(node)
    free = [len(part) for part in parts(int(hardware.memory), hardware.numa)]
    ones = [a for a in placement.allocations if a.node == node]
    laid = [[0] * hardware.numa for _ in ones]
    missing = 0
    for number, one in enumerate(ones):
        left = int(one.memory)
        while left:
            came: dict[int, tuple[int, int]] = {j: (number, -1) for j in one.numa or range(hardware.numa)}
            todo = list(came)
            while todo and not any(free[j] for j in came):
                at = todo.pop(0)
                for other, a in enumerate(ones[:number]):
                    if laid[other][at]:
                        for j in set(a.numa or range(hardware.numa)) - came.keys():
                            came[j] = (other, at)
                            todo.append(j)
            end = next((j for j in came if free[j]), None)
            if end is None:
                missing += left
                break
            path, at = [], end
            while at >= 0:
                path.append((came[at][0], at, came[at][1]))
                at = came[at][1]
            size = min([left, free[end], *(laid[other][back] for other, _, back in path if back >= 0)])
            for other, j, back in path:
                laid[other][j] += size
                if back >= 0:
                    laid[other][back] -= size
            free[end] -= size
            left -= size
    return missing


def sound(stack: Stack, placement: Placement) -> None:
    """Memory fits, who is bound is bound to all its devices, and `limits` says the same."""
    assert [node for node in stack.nodes if unplaced_bytes(stack, node, placement)] == []
    assert [a.name for a in placement.allocations if a.numa and not lies(stack, a) <= {*a.numa}] == []
    assert judge(stack, placement) == ()


def could_be_whole(stack: Stack, placement: Placement, a: Allocation) -> list[str]:
    """Other nodes with a NUMA node that has room for all of it as they are; parts of GPUs are left alone."""
    found = []
    rest = tuple(other for other in placement.allocations if other is not a)
    for node in sorted(stack.nodes.keys() - {a.node}):
        hardware, here = stack.hardware_of(node), [one for one in rest if one.node == node]
        gpus, cores = parts(hardware.gpus.count, hardware.numa), parts(int(hardware.vcpus) // 1000, hardware.numa)
        shared = any(stack.workloads[one.workload].each.gpus.share < 1000 for one in here)
        vcpus = sum(int(one.vcpus) for one in (*here, a)) <= int(hardware.vcpus)
        for j in range(hardware.numa) if vcpus and not shared else ():
            free = len(set(gpus[j]) - {i for one in here for i in one.cards})
            pins = len(set(cores[j]) - {i for one in here for i in one.cpus})
            there = Placement(allocations=(*rest, a.model_copy(update={"node": node, "numa": (j,)})))
            if free >= len(a.gpus) and pins >= len(a.cpus) and not unplaced_bytes(stack, node, there):
                found.append(f"{a.name} on {node}/{j}")
    return found


def needlessly_split(stack: Stack, placement: Placement, last: Placement = Placement()) -> list[str]:
    """New replicas that are split, and where they need not be."""
    ran = {a.workload for a in last.allocations}
    news = [a for a in placement.allocations if a.workload not in ran and len(lies(stack, a)) > 1]
    whole = [a for a in news if stack.workloads[a.workload].each.gpus.share == 1000]
    return [where for a in whole for where in could_be_whole(stack, placement, a)]


def test_four_large_jobs_are_not_all_bound_to_one_socket() -> None:
    stack = fleet({"a": each(1, 4, "490 GB", replicas=4)}, {"n1": {"hardware": "h"}})
    placement = solve(stack).placement
    assert sorted(a.numa for a in placement.allocations) == [(0,), (0,), (1,), (1,)]
    sound(stack, placement)


@pytest.mark.parametrize(("memory", "vcpus"), [("1900 GB", 48), ("100 GB", 48), ("1 GB", 5)])
def test_a_job_on_all_gpus_has_cores_and_memory_of_both_sockets(memory: str, vcpus: int) -> None:
    stack = fleet({"b": each(8, vcpus, memory, pinned=True)})
    (one,) = solve(stack).placement.allocations
    low = sum(cpu < 96 for cpu in one.cpus)
    assert (one.numa, len(one.cpus)) == ((0, 1), vcpus)
    assert abs(low - (vcpus - low)) <= 1
    assert desired(stack, Placement(allocations=(one,)))[one.node].state.allocations["b-0"].slice.mems == "0-1"


def test_cores_follow_the_gpus_in_proportion() -> None:
    before = fleet({"x": each(3, 3, pinned=True), "y": each(1, 1, pinned=True)}, {"n1": {"hardware": "h"}})
    gone = {"x-0": (0, 1, 2), "y-0": (4,)}
    last = solve(before).placement
    held = tuple(
        a.model_copy(update={"gpus": whole_gpus(gone[a.name]), "numa": (0,) if a.name == "x-0" else (1,),
                             "cpus": (0, 1, 2) if a.name == "x-0" else (96,)})
        for a in last.allocations
    )  # fmt: skip
    big = fleet({"z": each(4, 8, pinned=True)}).workloads["z"]
    stack = before.model_copy(update={"workloads": before.workloads | {"z": big, "q": big.model_copy(update={"name": "q"})}})
    found = solve(stack, Placement(allocations=held)).placement.by_name()
    whole = [found[name] for name in ("q-0", "z-0") if name in found]
    assert [a.gpus for a in held] == [found[a.name].gpus for a in held]
    assert len(whole) == 1  # 4 GPUs are free, 1 + 3
    (one,) = whole
    assert (one.cards, one.numa) == ((3, 5, 6, 7), (0, 1))
    assert sum(cpu < 96 for cpu in one.cpus) == 2


def test_memory_beyond_one_numa_node_is_bound_to_as_few_more_as_it_needs() -> None:
    stack = fleet({"m": each(1, 2, "900 GB", pinned=True)}, numa=4)
    (one,) = solve(stack).placement.allocations
    assert len(one.numa) == 2 and lies(stack, one) < {*one.numa}
    sound(stack, solve(stack).placement)


def test_a_lock_of_before_is_mended_live_and_stops_nobody() -> None:
    stack = fleet({"a": each(1, 4, "490 GB", replicas=4)}, {"n1": {"hardware": "h"}})
    fresh = solve(stack).placement
    old = Placement(
        allocations=tuple(
            a.model_copy(update={"gpus": whole_gpus((i,)), "numa": (0,)}) for i, a in enumerate(fresh.allocations)
        )
    )
    assert [found.rule for found in judge(stack, old)] == ["memory_fits_numa"]
    now = solve(stack, old)
    assert now.moves == () and [a.gpus for a in now.placement.allocations] == [a.gpus for a in old.allocations]
    assert sorted(a.numa for a in now.placement.allocations) == [(0,), (0,), (0, 1), (0, 1)]
    sound(stack, now.placement)
    before, after = (desired(stack, one)["n1"].state.allocations for one in (old, now.placement))
    assert [restart_for(before[name], after[name]) for name in sorted(before)] == [(), (), (), ()]


def test_other_numa_nodes_restart_and_more_of_them_do_not() -> None:
    stack = fleet({"a": each(1, 4)}, {"n1": {"hardware": "h"}})
    (one,) = solve(stack).placement.allocations

    def told(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[str, ...]:
        old, new = (
            desired(stack, Placement(allocations=(one.model_copy(update={"numa": numa}),)))["n1"].state.allocations["a-0"]
            for numa in (before, after)
        )
        return restart_for(old, new)

    assert [told((0,), (0, 1)), told((0,), ()), told((0,), (0,))] == [(), (), ()]
    assert [told((0,), (1,)), told((0, 1), (0,)), told((), (0,))] == [("NUMA home",)] * 3


def drawn(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Nodes, a shape, and workloads that ask for much memory, few or many GPUs, or a part of one."""
    numa, gpus = chance.choice([2, 2, 4, 8]), chance.choice([2, 4, 8])
    shape = {"gpus": f"{gpus} x H100", "vcpus": chance.choice([16, 30, 64]), "memory": "999 GB", "numa": numa}
    nodes = {f"n{i}": {"hardware": "h"} for i in range(chance.randint(1, 2))}
    works = {}
    for i in range(chance.randint(2, 7)):
        wanted = chance.choice([0, 1, 1, 2, 3, gpus, {"count": 1, "share": chance.choice([0.3, 0.5])}])
        memory = f"{chance.choice([1, 60, 120, 124, 125, 249, 250, 333, 490, 500, 700])} GB"
        works[f"w{i}"] = each(wanted, chance.choice([1, 2, 5]), memory, pinned=chance.random() < 0.5,
                              replicas=chance.choice([1, 1, 2, 4]))  # fmt: skip
    return nodes, shape, works


@pytest.mark.parametrize("seed", range(DRAWS))
def test_no_draw_binds_more_memory_than_there_is_or_splits_without_need(seed: int) -> None:
    chance = random.Random(seed)
    nodes, shape, works = drawn(chance)
    stack = fleet(works, nodes, **shape)
    placement = solve(stack, reasons=False).placement
    sound(stack, placement)
    assert needlessly_split(stack, placement) == []
    gone = chance.sample(sorted(works), len(works) // 2)
    other = {name: request for name, request in works.items() if name not in gone} | {
        f"x{i}": request for i, request in enumerate(drawn(chance)[2].values())
    }
    for request in other.values():
        if isinstance(count := request["each"]["gpus"], int):
            request["each"]["gpus"] = min(count, stack.hardware_of("n0").gpus.count)
    after = fleet(other, nodes, **shape)
    now = solve(after, placement, reasons=False)
    sound(after, now.placement)
    assert needlessly_split(after, now.placement, placement) == []
    left = {move.name for move in now.moves}
    was = placement.by_name()
    for a in now.placement.allocations:
        if a.name in was and a.name not in left:
            assert (a.node, a.gpus, a.cpus, a.numa) == (was[a.name].node, was[a.name].gpus, was[a.name].cpus, was[a.name].numa)


def _small(name: str, gpu: int, cpus: range, numa: int) -> Allocation:
    return Allocation(
        name=f"{name}-0", workload=name, index=0, node="n1", user="ada", gpus=(gpu,), cpus=tuple(cpus), numa=(numa,),
        vcpus=Cpus(8000), memory=Bytes(10**9),
    )  # fmt: skip


def half_full(nodes: dict[str, Any] = NODES) -> tuple[Stack, Placement]:
    """n1 has three GPUs free on each socket; what comes wants four."""
    small = each(1, 8, pinned=True)
    stack = fleet({"a": small, "b": small, "new": each(4, 24, pinned=True)}, nodes)
    return stack, Placement(allocations=(_small("a", 0, range(8), 0), _small("b", 4, range(96, 104), 1)))


def test_what_is_new_goes_whole_to_another_node_before_it_is_split() -> None:
    stack, last = half_full()
    solution = solve(stack, last)
    new = solution.placement.by_name()["new-0"]
    assert (new.node, new.cards, new.numa) == ("n2", (0, 1, 2, 3), (0,))
    goals = {goal.name: goal for goal in solution.proof.goals}
    assert (goals["within_numa"].value, goals["within_numa"].bound, goals["nodes"].value) == (1, 1, 2)
    assert list(goals)[-2:] == ["within_numa", "nodes"] and solution.moves == ()
    sound(stack, solution.placement)
    assert solve(stack, solution.placement).placement == solution.placement


def split(stack: Stack, placement: Placement) -> list[str]:
    return [a.name for a in placement.allocations if len(lies(stack, a)) > 1]


def test_replicas_of_full_nodes_change_places_so_that_nobody_is_split() -> None:
    """3 + 3 + 2 GPUs fill a node whose sockets have four, and split one: 3 + 1 and 3 + 1 split none."""
    works = {"three": each(3, replicas=2), "pair": each(2), "one": each(1, replicas=8)}
    stack = fleet(works)
    found = solve(stack)
    assert found.placement.unplaced == () and split(stack, found.placement) == []
    goals = {goal.name: goal for goal in found.proof.goals}
    assert goals["within_numa"].value == goals["within_numa"].bound == 3
    sound(stack, found.placement)


def test_where_all_gpus_are_linked_who_has_to_be_linked_is_within_one_socket_beside_others() -> None:
    linked = each(2, replicas=2, place={"links": "required"})
    works = {"three": each(3, place={"links": "required"}), "linked": linked, "one": each(1)}
    stack = fleet(works, {"n1": {"hardware": "h"}}, links={"nvlink": "all"})
    found = solve(stack).placement
    assert found.unplaced == () and split(stack, found) == []


def fewest_split(sizes: list[int]) -> int | None:
    """Of replicas with so many GPUs each, together all of two nodes with two sockets of four; None where they do not fit."""
    best = {(4, 4, 4, 4, 8, 8): 0}  # what is free of each socket for who is within it, and of each node for all
    for size in sizes:
        following: dict[tuple[int, ...], int] = {}
        for free, count in best.items():
            for socket in range(4):
                node = 4 + socket // 2
                for within in (0, 1):
                    left = list(free)
                    left[node] -= size
                    left[socket] -= size * within
                    if min(left) >= 0:
                        key, now = tuple(left), count + 1 - within
                        following[key] = min(now, following.get(key, now))
        best = following
    return min(best.values(), default=None)


def test_a_full_fleet_splits_hardly_more_than_it_has_to() -> None:
    """Drawn ones that fill two nodes."""
    rng, more, full = random.Random(5), 0, 0
    for _ in range(DRAWS):
        sizes: list[int] = []
        while (left := 16 - sum(sizes)) > 0:
            sizes.append(rng.choice([one for one in (1, 1, 1, 2, 2, 3, 3, 4) if one <= left]))
        if (fewest := fewest_split(sizes)) is None:
            continue
        stack = fleet({f"w{i}": each(size) for i, size in enumerate(sizes)})
        found = solve(stack).placement
        assert found.unplaced == ()
        sound(stack, found)
        more, full = more + len(split(stack, found)) - fewest, full + 1
    assert more <= full / 20


def ruled(seed: int) -> Stack:
    """Three machines in two racks, asked for all their GPUs and more, by replicas that bind each other in several ways."""
    rng = random.Random(seed)
    names = [f"w{i}" for i in range(10)]
    places: list[dict[str, Any]] = [
        {}, {}, {"spread": "node"}, {"spread": "rack"}, {"per_node": 1}, {"balance": "rack"}, {"near": "rack"}, {"prefer_apart": "node"},
        {"prefer": {"rack": "r1"}}, {"select": {"rack": "r2"}}, {"away_from": {"node": [rng.choice(names)]}}, {"numa": "single"},
    ]  # fmt: skip
    works = {}
    for name in names:
        one = each(
            rng.choice([1, 1, 2, 2, 3, 3]), rng.choice([1, 8, 20]), rng.choice(["1 GB", "300 GB"]), pinned=rng.random() < 0.4
        )
        place = rng.choice(places)
        works[name] = one | {"replicas": rng.randint(1, 3), "priority": rng.choice(["normal", "low"])}
        works[name] |= {"place": place} if name not in place.get("away_from", {}).get("node", ()) else {}
    nodes = {
        "n1": {"hardware": "h", "rack": "r1"},
        "n2": {"hardware": "h", "rack": "r1"},
        "n3": {"hardware": "h", "rack": "r2"},
    }
    return stack_of(nodes, works, hardware={"h": SHAPE}, limits={"node": {"vcpus": rng.choice([96, 192])}})


def test_who_changes_places_costs_nothing_that_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = 0
    for seed in range(DRAWS):
        stack = ruled(seed)
        found = solve(stack)
        sound(stack, found.placement)
        with monkeypatch.context() as patch:
            patch.setattr(locality, "EXCHANGES", 0)
            without = solve(stack)
        now, before = ({goal.name: goal.value for goal in one.proof.goals if goal.name != "nodes"} for one in (found, without))
        whole = now.pop("within_numa", None)  # is there if anybody is split
        least = before.pop("within_numa", 0)
        assert now == before and (whole is None or whole >= least), seed
        fewer += len(split(stack, without.placement)) > len(split(stack, found.placement))
    assert fewer, "somebody was split without it"


def test_what_no_numa_node_has_room_for_is_split_and_proven_to_be() -> None:
    stack, last = half_full({"n1": {"hardware": "h"}})
    solution = solve(stack, last)
    new = solution.placement.by_name()["new-0"]
    assert stack.hardware_of("n1").split(new.cards, new.cpus) == (0, 1) == new.numa
    assert [(goal.value, goal.bound) for goal in solution.proof.goals if goal.name == "within_numa"] == [(0, 0)]
    assert solution.proof.optimal
    sound(stack, solution.placement)
    told = why(stack, solution.placement, "new", last=last).fits[-1]
    assert told.text == "new-0 is split over NUMA nodes 0 and 1 of n1"
    assert deciding.split(stack, new) == "split over NUMA nodes 0 and 1"
    assert deciding.split(stack, last.allocations[0]) == ""


def test_nobody_moves_and_no_finer_gpu_is_taken_to_keep_a_job_on_one_socket() -> None:
    nodes = {"n1": {"hardware": "h"}, "n2": {"hardware": "b"}}
    small = each(1, 8, pinned=True)
    shapes = {"h": SHAPE, "b": SHAPE | {"gpus": "8 x B200"}}
    stack = stack_of(nodes, {"a": small, "b": small, "new": each(4, 24, pinned=True)}, hardware=shapes)
    solution = solve(stack, half_full()[1])
    assert solution.placement.by_name()["new-0"].node == "n1" and solution.moves == ()


@pytest.mark.parametrize(("worth", "node"), [({"H100": 2, "A100": 1}, "n1"), ({"H100": 2, "A100": 2}, "n2"), ({}, "n2")])
def test_nobody_holds_less_of_what_its_team_is_due_to_keep_a_job_on_one_socket(worth: dict[str, int], node: str) -> None:
    """And the proof says of each team's GPUs what they count where they are."""
    shapes = {"h": SHAPE, "a": SHAPE | {"gpus": "8 x A100"}}
    nodes, small = {"n1": {"hardware": "h"}, "n2": {"hardware": "a"}}, each(1, 8, pinned=True)
    teams = {"research": {"share": 1, "users": ["ada"]}}
    works = {"a": small, "b": small, "new": each(4, 24, pinned=True)}
    stack = stack_of(nodes, works, hardware=shapes, teams=teams, **({"worth": worth} if worth else {}))
    solution = solve(stack, half_full()[1])
    assert solution.placement.by_name()["new-0"].node == node and solution.moves == ()
    count = {"n1": worth.get("H100", 1), "n2": worth.get("A100", 1)}
    held = sum(len(a.gpus) * count[a.node] for a in solution.placement.allocations)
    assert [goal.value for goal in solution.proof.goals if goal.name == "normal_share"] == [held]


@pytest.mark.parametrize("limits", [{"user": {"gpus": 6}}, {"node": {"gpus": 3}}])
def test_locality_breaks_no_limit(limits: dict[str, Any]) -> None:
    stack, last = half_full()
    stack = stack_of(NODES, {n: w.model_dump(mode="json", exclude_unset=True, exclude={"name"}) for n, w in stack.workloads.items()},
                     hardware={"h": SHAPE}, limits=limits)  # fmt: skip
    solution = solve(stack, last)
    assert judge(stack, solution.placement) == ()
    assert ("new-0" in solution.placement.by_name()) == ("user" in limits)


def test_who_asks_for_other_memory_keeps_its_devices_whoever_comes() -> None:
    """Another GPU is a restart, and more memory is none."""
    small = each(1, 8, pinned=True)
    last = Placement(allocations=(_small("a", 2, range(40, 48), 0), _small("b", 5, range(150, 158), 1)))
    before = fleet({"a": small, "b": small}, {"n1": {"hardware": "h"}})
    assert solve(before, last).placement.allocations == last.allocations
    more = each(1, 8, memory="20 GB", pinned=True)
    stack = fleet({"a": more, "b": more, "new": each(4, 90, pinned=True)}, {"n1": {"hardware": "h"}})
    found = solve(stack, last).placement.by_name()
    assert [(found[a.name].gpus, found[a.name].cpus) for a in last.allocations] == [(a.gpus, a.cpus) for a in last.allocations]
    assert "new-0" in found
