"""Does `place.balance` keep racks, or sites, alike, stop nobody for it, and say which of them is in the way?"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.limits.came import came
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, why
from swarm_iac.solver.balance.even import even, uneven
from swarm_iac.solver.exact.attempt import attempt
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.explain.counting import EVERY, Tally, reach
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.evening import without_surplus
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.neighbourhood import neighbourhood
from swarm_iac.solver.repair.ruin_recreate import improved
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify, repair_task
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_paths, still
from tests.solver.test_rules import RULES, fleet_of

#: Fleets that are drawn; `BALANCE_DRAWS=3000 pytest tests/solver/test_balance.py` for many.
DRAWS = int(os.environ.get("BALANCE_DRAWS", "150"))
SHAPE = {"gpus": "4 x H100", "vcpus": 64, "memory": "1 TB"}
PATHS = pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])


def fleet(
    works: dict[str, dict[str, Any]],
    racks: int = 3,
    each: int = 2,
    changes: dict[str, dict[str, Any]] | None = None,
    **rest: Any,
) -> Stack:
    """Racks r0, r1, … with so many machines of four GPUs each: r0-0, r0-1, …"""
    nodes = {f"r{r}-{i}": {"hardware": "h", "rack": f"r{r}"} for r in range(racks) for i in range(each)}
    nodes = {name: node | (changes or {}).get(name, {}) for name, node in nodes.items()}
    return stack_of(nodes, works, **{"hardware": {"h": SHAPE}} | rest)


def of(replicas: int, balance: Any = "rack", gpus: int = 1, **more: Any) -> dict[str, Any]:
    """A workload that is spread evenly."""
    size = {} if "gang" in more else {"replicas": replicas}
    return {**size, "each": {"gpus": gpus}, "place": {"balance": balance, **more.pop("place", {})}, **more}


def filler(rack: str, replicas: int, **more: Any) -> dict[str, Any]:
    """Takes GPUs of one rack, before all others."""
    return {"priority": "high", "replicas": replicas, "each": {"gpus": 1}, "place": {"select": {"rack": rack}}, **more}


def by_rack(stack: Stack, placement: Placement, name: str = "w") -> list[int]:
    """Replicas in each rack, in the order of their names."""
    counts = Counter(stack.nodes[a.node].rack for a in placement.going() if a.workload == name)
    return [counts[rack] for rack in sorted({str(node.rack) for node in stack.nodes.values()})]


@PATHS
@pytest.mark.parametrize(
    ("balance", "taken", "placed"),
    [
        ("rack", 0, [8, 8, 8]),
        ("rack", 6, [2, 3, 3]),
        ({"over": "rack", "skew": 3}, 6, [2, 5, 5]),
        ("rack", 8, [0, 1, 1]),
        ("site", 8, [0, 1, 1]),
    ],
)
def test_no_rack_is_more_than_the_skew_ahead_of_a_full_one(answer: Any, balance: Any, taken: int, placed: list[int]) -> None:
    stack = fleet({"w": of(24, balance), "full": filler("r0", taken)})
    assert by_rack(stack, answer(stack).placement) == placed


@PATHS
@pytest.mark.parametrize("state", ["drain", "cordon", "lost"])
def test_a_rack_that_takes_nothing_new_is_not_compared(answer: Any, state: str) -> None:
    stack = fleet({"w": of(10)}, changes={name: {"state": state} for name in ("r0-0", "r0-1")})
    assert by_rack(stack, answer(stack).placement) == [0, 5, 5]


def test_neither_is_one_whose_machines_are_too_small_or_of_another_kind() -> None:
    shapes = {
        "h": SHAPE,
        "small": SHAPE | {"gpus": "1 x H100"},
        "other": SHAPE | {"gpus": "4 x L40S"},
        "cpu": {"vcpus": 64, "memory": "1 TB"},
    }
    for shape in ("small", "other", "cpu"):
        changes = {name: {"hardware": shape} for name in ("r0-0", "r0-1")}
        stack = fleet({"w": of(4) | {"each": {"gpus": "2 x H100"}}}, changes=changes, hardware=shapes)
        assert by_rack(stack, solve(stack).placement) == [0, 2, 2], shape


@PATHS
def test_a_gang_runs_only_where_all_are_even(answer: Any) -> None:
    for taken, placed in ((6, [2, 2, 2]), (7, [0, 0, 0])):
        stack = fleet({"w": of(0, gang=6), "full": filler("r0", taken)})
        found = answer(stack).placement
        assert by_rack(stack, found) == placed
        assert {gone.workload for gone in found.unplaced} == (set() if any(placed) else {"w"})
    (reason,) = [one for one in found.unplaced[0].reasons if one.rule == "balance_holds_skew"]
    assert reason.text == "at most 1 more in one rack than in another; rack r0 takes 1 of 6 members"


def test_within_a_site_only_its_racks_are_compared() -> None:
    changes = {f"r{r}-{i}": {"site": "s" if r < 2 else "t"} for r in range(3) for i in range(2)}
    stack = fleet({"w": of(12, place={"within": "site"}), "full": filler("r2", 6)}, changes=changes)
    assert by_rack(stack, solve(stack).placement) == [6, 6, 0]


def test_the_racks_in_the_way_are_named_and_each_fix_is_confirmed() -> None:
    stack = fleet({"w": of(9), "full": filler("r1", 7)})
    placement = solve(stack).placement
    (gone,) = placement.unplaced
    assert by_rack(stack, placement) == [2, 1, 2] and gone.code == "Resources"
    texts = {reason.rule: reason.text for reason in gone.reasons}
    assert (
        texts["balance_holds_skew"] == "at most 1 more in one rack than in another; rack r1 has 1 and no capacity for one more"
    )
    assert "of those with fewer of its replicas in the rack the most that is free is none" in texts["gpus_fit_node"]
    answer = why(stack, placement, "w")
    edits = {edit.path: edit.value for fix in answer.fixes for edit in fix.edits}
    assert edits["workloads.w.place.balance"] in (None, {"over": "rack", "skew": 3})
    assert (
        any("r1" in reason.text and reason.rule == "holds" for reason in answer.reasons) or "workloads.full.replicas" in edits
    )
    skewed = fleet({"w": of(9, {"over": "rack", "skew": 3}), "full": filler("r1", 7)})
    assert by_rack(skewed, solve(skewed).placement) == [4, 1, 4]


@PATHS
def test_nothing_stops_where_a_rack_comes_or_loses_a_machine(answer: Any) -> None:
    """Nine run in three racks, three each; then a rack is added, or a machine with all that ran in its rack is lost."""
    before = fleet({"w": of(9), "full": filler("r0", 4, place={"select": {"rack": "r0"}, "within": "node"})})
    last = solve(before).placement
    assert by_rack(before, last) == [3, 3, 3]
    wider = fleet({"w": of(9), "full": filler("r0", 4, place={"select": {"rack": "r0"}, "within": "node"})}, racks=4)
    found = answer(wider, last)
    assert by_rack(wider, found.placement) == [3, 3, 3, 0] and not found.moves
    more = fleet({"w": of(11), "full": filler("r0", 4, place={"select": {"rack": "r0"}, "within": "node"})}, racks=4)
    grown = answer(more, last)
    assert by_rack(more, grown.placement) == [3, 3, 3, 2] and not grown.moves, "what is new goes to the emptiest rack"
    (home,) = {a.node for a in last.going() if a.workload == "w" and a.node.startswith("r0")}
    less = fleet(
        {"w": of(9), "full": filler("r0", 4, place={"select": {"rack": "r0"}, "within": "node"})},
        changes={home: {"state": "lost"}},
    )
    lost = answer(less, last)
    assert by_rack(less, lost.placement) == [0, 3, 3] and {move.target for move in lost.moves} == {""}
    assert judge(less, lost.placement, **still(lost.placement, last)) == ()


@PATHS
def test_the_rule_moves_and_stops_nobody_when_it_is_written(answer: Any) -> None:
    plain = {"w": {"replicas": 6, "each": {"gpus": 1}, "place": {"select": {"rack": "r0"}}}}
    last = solve(fleet(plain)).placement
    for replicas, placed in ((6, [6, 0, 0]), (9, [6, 2, 1]), (4, [4, 0, 0])):
        stack = fleet({"w": of(replicas)})
        found = answer(stack, last)
        assert sorted(by_rack(stack, found.placement)[1:], reverse=True) == placed[1:]
        assert by_rack(stack, found.placement)[0] == placed[0]
        assert not [move for move in found.moves if move.target]
        assert judge(stack, found.placement, **still(found.placement, last)) == ()


@pytest.mark.parametrize("answer", [solve, as_large], ids=["exact", "large"])
def test_what_runs_unevenly_is_in_nobodys_way(answer: Any) -> None:
    """Three run in r0 and none in r1, where one GPU is held; it moves, so that a job finds four."""
    three = {"replicas": 3, "each": {"gpus": 1}, "place": {"select": {"rack": "r0"}}}
    one = {"each": {"gpus": 1}, "place": {"select": {"rack": "r1"}}}
    last = solve(fleet({"w": three, "u": one}, racks=2, each=1)).placement
    stack = fleet({"w": of(3), "u": {"each": {"gpus": 1}}, "v": {"each": {"gpus": 4}}}, racks=2, each=1)
    found = answer(stack, last)
    assert found.placement.unplaced == () and [move.name for move in found.moves] == ["u-0"]
    assert found.proof.optimal and judge(stack, found.placement, **still(found.placement, last)) == ()


def test_what_runs_unevenly_is_no_reason_to_move_in_a_rebalance_either() -> None:
    plain = {"w": {"replicas": 6, "each": {"gpus": 1}, "place": {"select": {"rack": "r0"}}}}
    last = solve(fleet(plain)).placement
    found = solve(fleet({"w": of(6)}), last, repair=False)
    assert by_rack(fleet({"w": of(6)}), found.placement) == [6, 0, 0] and not found.moves


def test_files_of_finished_jobs_do_not_take_a_rack_out_of_the_comparison() -> None:
    shapes = {"h": SHAPE | {"nvme": "1 TB"}}
    each = {"gpus": 1, "scratch": "600 GB"}
    works = {
        "done": {"kind": "batch", "run": {"command": "true"}, "each": each | {"gpus": 0}, "place": {"select": {"rack": "r0"}}},
        "w": {"replicas": 4, "each": each, "place": {"balance": "rack"}},
    }
    stack = fleet(works, each=1, hardware=shapes)
    first = solve(fleet({"done": works["done"]}, each=1, hardware=shapes)).placement
    last = Placement(allocations=tuple(one.released() for one in first.allocations))
    found = solve(stack, last).placement
    assert by_rack(stack, found) == [0, 1, 1]
    assert judge(stack, found) == ()


# ---- Counted and searched, against every placement ------------------------------------------------------------------


def drawn(seed: int) -> tuple[Stack, Placement]:
    """A few small racks, some of them partly full, one workload that is asked for, and where some of it runs."""
    rng = random.Random(f"balance {seed}")
    racks, site = rng.choice([2, 3]), rng.choice([None, "site"])
    works: dict[str, dict[str, Any]] = {}
    place: dict[str, Any] = {"balance": {"over": rng.choice(["rack", "rack", "site"]), "skew": rng.choice([1, 1, 2])}}
    if site and rng.random() < 0.4:
        place |= rng.choice(
            [{"per_site": rng.choice([1, 2, 3])}, {"within": "site"} if place["balance"]["over"] == "rack" else {}]
        )
    if rng.random() < 0.2:
        place["per_node"] = rng.choice([1, 2])
    works["w"] = {"each": {"gpus": rng.choice([1, 1, 2])}, "place": place}
    works["w"] |= {"gang": rng.choice([2, 3, 4])} if rng.random() < 0.4 else {"replicas": rng.choice([2, 3, 4, 5])}
    changes = {
        f"r{r}-{i}": ({"site": "s" if r < 2 else "t"} if site else {}) | ({"state": "cordon"} if rng.random() < 0.15 else {})
        for r in range(racks)
        for i in range(2)
    }
    for r in range(racks):
        if taken := rng.choice([0, 0, 1, 3, 4]):
            works[f"full{r}"] = filler(f"r{r}", taken)
    last = Placement()
    if rng.random() < 0.4 and "gang" not in works["w"]:
        ran = works | {"w": works["w"] | {"place": {"select": {"rack": "r0"}}, "replicas": rng.choice([1, 2, 3])}}
        shape = {"h": SHAPE | {"gpus": "2 x H100"}}
        last = solve(
            fleet(ran, racks, 2, {n: {k: v for k, v in c.items() if k == "site"} for n, c in changes.items()}, hardware=shape)
        ).placement
    return fleet(works, racks, 2, changes, hardware={"h": SHAPE | {"gpus": "2 x H100"}}), last


def most_by_trying(stack: Stack, last: Placement) -> int:
    """The most replicas of `w` in any placement of it alone that the judge accepts beside those of others."""
    snapshot = snapshot_of(stack, last)
    request, best = snapshot.requests["w"], 0
    ran = {a.name: a.node for a in last.going() if a.workload == "w"}
    gpus = request.gpus
    rooms = {name: host.capacity[0] // gpus for name, host in snapshot.nodes.items()}
    sizes = [request.members] if request.gang else range(request.members, 0, -1)
    for size in sizes:
        for pick in itertools.combinations_with_replacement(sorted(snapshot.nodes), size):
            counts = Counter(pick)
            if any(count > rooms[node] for node, count in counts.items()):
                continue
            home = Counter(ran.values())
            if any(snapshot.nodes[node].state != "ready" and counts[node] > home[node] for node in counts):
                continue
            if uneven(snapshot, "w", Counter({("w", node): count for node, count in counts.items()})):
                continue
            if _place_keeps(stack, counts):
                return size
    return best


def _place_keeps(stack: Stack, counts: Counter[str]) -> bool:
    """per_node, per_site and within, by hand."""
    place = stack.workloads["w"].place
    sites = Counter[str]()
    for node, count in counts.items():
        sites[stack.nodes[node].site or str(stack.nodes[node].rack)] += count
    well = place.per_node is None or max(counts.values(), default=0) <= place.per_node
    well = well and (place.per_site is None or max(sites.values(), default=0) <= place.per_site)
    return well and (place.within is None or len(sites) <= 1)


def test_what_is_possible_equals_what_trying_all_finds() -> None:
    for seed in range(DRAWS):
        stack, last = drawn(seed)
        snapshot = snapshot_of(stack, last)
        counted, tried = possible(snapshot)["w"], most_by_trying(stack, last)
        if last.allocations:  # where what runs may stay, it bounds from above
            assert counted >= tried, seed
        else:
            assert counted == tried, seed
            empty = capacity_of(snapshot, Placement())
            request = snapshot.requests["w"]
            assert Tally(empty, request).reach() == reach(empty, request, EVERY), seed


def test_a_limit_on_sites_bounds_the_emptiest_rack_of_each() -> None:
    """Of three in r0 and r1 together one has one, so r2 has two."""
    changes = {f"r{r}-{i}": {"site": "s" if r < 2 else "t"} for r in range(3) for i in range(2)}
    stack = fleet({"w": of(8, place={"per_site": 3})}, changes=changes)
    found = solve(stack)
    assert possible(snapshot_of(stack, Placement()))["w"] == 5 == sum(by_rack(stack, found.placement))
    assert found.proof.optimal and by_rack(stack, found.placement)[2] == 2


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    names = ("balance_holds_skew", other) if other != "balance_holds_skew" else (other,)
    for seed in range(1000, 1000 + max(1, DRAWS // 150)):
        before, now = fleet_of(names, seed)
        check_paths(before, now)


@PATHS
def test_what_is_even_stays_so_through_any_edits(answer: Any) -> None:
    """Nodes are drained, lost and opened, others come and go and replicas are more or fewer: the judge accepts each answer."""
    rng = random.Random(5)
    last, states, count = Placement(), dict[str, dict[str, Any]](), 8
    for turn in range(max(12, DRAWS // 10)):
        name = f"r{rng.randrange(3)}-{rng.randrange(2)}"
        states[name] = {"state": rng.choice(["ready", "ready", "cordon", "drain", "lost"])}
        count = rng.choice([4, 8, 10])
        works = {"w": of(count, priority=rng.choice(["low", "normal"]))}
        works |= {f"f{r}": filler(f"r{r}", rng.choice([1, 3, 6]), priority="normal") for r in range(3) if rng.random() < 0.5}
        if rng.random() < 0.3:
            works["gang"] = of(0, gang=3, gpus=2, priority="low")
        stack = fleet(works, changes=states, solve={"moves": rng.choice([0, 2, 8])})
        found = answer(stack, last)
        assert judge(stack, found.placement, **still(found.placement, last)) == (), turn
        again = answer(stack, found.placement)
        assert {a.name: a.node for a in again.placement.going()}.items() >= {
            a.name: a.node for a in found.placement.going()
        }.items()
        last = found.placement


def test_a_pass_takes_back_what_a_rack_leaves_no_budget_for() -> None:
    """The machines of r0 have room for eight, and its uplink for one."""
    nodes = {f"r{r}-{i}": {"hardware": "h", "rack": f"r{r}"} for r in range(3) for i in range(2)}
    stack = stack_of(
        nodes,
        {"w": of(24, network={"egress": "1 Gbit/s"})},
        hardware={"h": SHAPE | {"nic": "100 Gbit/s"}},
        racks={"r0": {"uplink": "1 Gbit/s"}, "r1": {}, "r2": {}},
    )
    snapshot = snapshot_of(stack, Placement())
    counts = greedy(repair_task(snapshot, classify(snapshot)))
    assert even(snapshot, counts) and counts.total() == 5


def test_emptied_nodes_are_filled_evenly() -> None:
    for seed in range(DRAWS // 10):
        rng = random.Random(seed)
        works = {f"w{i}": of(rng.choice([3, 5, 8]), gpus=rng.choice([1, 1, 2])) for i in range(3)} | {
            "f": filler("r1", rng.choice([1, 3]))
        }
        snapshot = snapshot_of(fleet(works, racks=2), Placement())
        counts = greedy(repair_task(snapshot, classify(snapshot)))
        assert even(snapshot, counts) and even(snapshot, improved(snapshot, counts, 0.05, lambda: False)), seed


def test_what_is_decided_on_one_node_leaves_the_others_even() -> None:
    """Who goes from there for a higher priority would leave two on each of two racks and none on the third."""
    shape = {"vcpus": 8, "memory": "64 GB"}
    nodes = {"n1": {"hardware": "cpu"}, "n2": {"hardware": "cpu"}, "n3": {"hardware": "gpu"}}
    works = {
        "w": {"replicas": 5, "each": {"vcpus": 2}, "place": {"balance": "rack"}},
        "whole": {"each": {"gpus": 1, "vcpus": 8}, "priority": "high"},
    }
    snapshot = snapshot_of(stack_of(nodes, works, hardware={"cpu": shape, "gpu": shape | {"gpus": "1 x H100"}}), Placement())
    counts = Counter({("w", "n1"): 2, ("w", "n2"): 2, ("w", "n3"): 1})
    near = neighbourhood(snapshot, classify(snapshot), counts, snapshot.requests["whole"], 0)
    assert near is not None and even(snapshot, counts)
    one = replace(near, nodes=frozenset({"n3"}))
    _, found, _ = attempt(snapshot, one, possible(snapshot), counts, True, Watch(), left=5.0)
    assert even(snapshot, found), found


def test_whose_coming_took_a_place_is_told_without_counting_other_racks() -> None:
    """x ran where v and two of w are now: without v it would fit beside them."""
    works = {"x": {"each": {"gpus": 5}}, "v": {"each": {"gpus": 5}}, "w": of(4)}
    stack = fleet(works, racks=2, each=1, hardware={"h": SHAPE | {"gpus": "8 x H100"}})

    def put(name: str, node: str, *gpus: int) -> Allocation:
        workload, _, index = name.rpartition("-")
        return Allocation(
            name=name, workload=workload, index=int(index), node=node, user="ada", gpus=whole_gpus(gpus),
            vcpus=stack.workloads[workload].each.vcpus.least, memory=stack.workloads[workload].each.memory.least, numa=(0,),
        )  # fmt: skip

    ran = put("x-0", "r0-0", 0, 1, 2, 3, 4)
    now = [
        put("v-0", "r0-0", 0, 1, 2, 3, 4),
        put("w-0", "r0-0", 5),
        put("w-1", "r0-0", 6),
        put("w-2", "r1-0", 0),
        put("w-3", "r1-0", 1),
    ]
    assert came(stack, Placement(allocations=(ran,)), Placement(allocations=tuple(now)), (ran,), None).names == ("v",)


def test_a_surplus_goes_and_a_gang_goes_whole() -> None:
    snapshot = snapshot_of(fleet({"w": of(8), "g": of(0, gang=4)}), Placement())
    counts = Counter({("w", "r0-0"): 4, ("w", "r1-0"): 1, ("g", "r0-0"): 4})
    left = without_surplus(snapshot, counts)
    assert left == Counter({("w", "r0-0"): 1, ("w", "r1-0"): 1}) and even(snapshot, left) and not even(snapshot, counts)


def test_a_large_fleet_is_even_in_seconds() -> None:
    """500 machines in 25 racks and 1,000 replicas of two workloads, beside others that fill a rack."""
    stack = fleet(
        {"w": of(700), "v": of(300, {"over": "rack", "skew": 4}), "full": filler("r3", 60)},
        racks=25, each=20, limits={"user": {"gpus": 5000, "vcpus": 50_000, "memory": "100 TB"}, "cluster": {"gpus": 5000}},
    )  # fmt: skip
    before = time.process_time()
    found = solve(stack).placement
    assert time.process_time() - before < 60
    counts = by_rack(stack, found)
    full = sorted(str(node.rack) for node in stack.nodes.values() if node.name.endswith("-0")).index("r3")
    assert counts[full] + by_rack(stack, found, "v")[full] == 20, "the rack that is nearly full is used whole"
    assert max(counts) - min(counts) <= 1
    assert max(by_rack(stack, found, "v")) - min(by_rack(stack, found, "v")) <= 4
    assert judge(stack, found) == ()
