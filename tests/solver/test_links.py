"""Is every replica of `place: {links: required}` on GPUs that NVLink joins, and placed wherever that can be?"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.device import whole_gpus
from swarm_iac.model.gpus.links import partition
from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, why
from swarm_iac.solver.exact.rules.numa import UNIONS
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.packing.gpu_domains import Pool, closest, unions
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.repair.kinds import kinds_of
from swarm_iac.solver.repair.unsplitting import split
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify, repair_task
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, still
from tests.solver.test_numa import NODES, SHAPE, each, fleet

#: Fleets that are drawn; `LINK_DRAWS=3000 pytest tests/solver/test_links.py` for many.
DRAWS = int(os.environ.get("LINK_DRAWS", "40"))
ONE = {"n1": {"hardware": "h"}}
PAIRS = {"nvlink": [[0, 1], [2, 3], [4, 5], [6, 7]]}
QUADS = {"nvlink": [[0, 1, 2, 3], [4, 5, 6, 7]]}
ACROSS = {"nvlink": [[0, 2], [1, 3], [4, 6], [5, 7]]}
LINKED = {"place": {"links": "required"}}
BOTH = {"place": {"links": "required", "numa": "single"}}


def unlinked(stack: Stack, placement: Placement) -> list[str]:
    """Those that have to be on linked GPUs and are not, by the lists of the stack file."""
    found = []
    for a in placement.allocations:
        links = stack.hardware_of(a.node).links.nvlink
        groups = [range(64)] if links == "all" else [*links]
        if stack.workloads[a.workload].place.links and len(a.gpus) > 1 and not any({*a.cards} <= {*group} for group in groups):
            found.append(a.name)
    return found


def at(stack: Stack, name: str, *gpus: int, node: str = "n1") -> Allocation:
    """A replica that runs on these GPUs."""
    workload, _, index = name.rpartition("-")
    request = stack.workloads[workload].each
    return Allocation(
        name=name, workload=workload, index=int(index), node=node, user="ada", gpus=whole_gpus(gpus),
        vcpus=request.vcpus.least, memory=request.memory.least, numa=tuple(sorted({i // 4 for i in gpus})),
    )  # fmt: skip


def test_four_free_gpus_in_two_halves_of_groups_take_no_job_of_four() -> None:
    """The reason names the node, what is free there and what each group has."""
    works = {"a": each(2), "b": each(2), "new": each(4, **LINKED)}
    stack = fleet(works, ONE, links=QUADS)
    found = solve(stack, Placement(allocations=(at(stack, "a-0", 0, 1), at(stack, "b-0", 4, 5))))
    (gone,) = found.placement.unplaced
    assert (gone.workload, gone.code) == ("new", "Topology")
    assert gone.nodes == "1 node: 1 has it free only on GPUs that are not linked"
    (reason,) = gone.reasons
    assert (reason.rule, reason.path) == ("replicas_fit_link_groups", "workloads.new.place.links")
    assert reason.text == "needs 4 GPUs that NVLink joins; 4 GPUs are free on n1, but 2 in each group of linked ones"
    edits = [edit.path for fix in why(stack, found.placement, "new").fixes for edit in fix.edits]
    assert "workloads.new.place.links" in edits
    free = fleet(works | {"new": each(4)}, ONE, links=QUADS)
    assert "new-0" in solve(free, found.placement).placement.by_name(), "without the rule there is capacity"


def test_it_goes_where_a_group_is_whole() -> None:
    stack = fleet({"a": each(2), "b": each(2), "new": each(4, **LINKED)}, links=QUADS)
    last = Placement(allocations=(at(stack, "a-0", 0, 1), at(stack, "b-0", 4, 5)))
    found = solve(stack, last)
    assert found.placement.by_name()["new-0"].node == "n2" and not found.moves and found.proof.optimal


def test_three_of_four_leave_one_of_each_group() -> None:
    """A machine of two groups of four holds two of three, not the two and two thirds that its total says."""
    stack = fleet({"new": each(3, replicas=4, **LINKED)}, ONE, links=QUADS)
    found = solve(stack)
    assert len(found.placement.allocations) == 2 and found.proof.optimal
    assert not unlinked(stack, found.placement) and judge(stack, found.placement) == ()


def test_a_switch_joins_all_and_no_links_join_none() -> None:
    works = {"new": each(8, **LINKED)}
    assert solve(fleet(works, ONE, links={"nvlink": "all"})).placement.allocations
    (gone,) = solve(fleet(works, ONE)).placement.unplaced
    assert gone.nodes == "1 node: 1 has no NVLink declared"
    assert gone.reasons[0].text.endswith("the nodes that would do have none; `links` of their hardware declares no NVLink")


def test_a_group_over_two_numa_nodes_is_one_only_without_numa_single() -> None:
    """A bridge between the sockets: 0 with 4, and so on."""
    across = {"nvlink": [[i, i + 4] for i in range(4)]}
    assert solve(fleet({"new": each(2, replicas=4, **LINKED)}, ONE, links=across)).placement.unplaced == ()
    (gone,) = solve(fleet({"new": each(2, **BOTH)}, ONE, links=across)).placement.unplaced
    assert gone.reasons[0].rule == "linked_gpus_suffice" and "on one NUMA node" in gone.reasons[0].text


def test_the_largest_group_is_told_of_nodes_that_would_do_otherwise() -> None:
    """n1 has all eight on a switch and no memory for it, n2 the memory and pairs."""
    shapes = {"switch": SHAPE | {"links": {"nvlink": "all"}, "memory": "8 GB"}, "pairs": SHAPE | {"links": PAIRS}}
    nodes = {"n1": {"hardware": "switch"}, "n2": {"hardware": "pairs"}}
    stack = stack_of(nodes, {"new": each(4, memory="16 GB", **LINKED)}, hardware=shapes)
    (gone,) = solve(stack).placement.unplaced
    told = {reason.rule: reason.text for reason in gone.reasons}
    assert told["linked_gpus_suffice"].endswith("the nodes that would do have none; the largest group has 2")


@pytest.mark.parametrize("threes", ["n1", "n2"])
@pytest.mark.parametrize("first", ["x", "y", "z"])
def test_each_node_has_those_that_its_groups_hold(threes: str, first: str) -> None:
    """Six GPUs are free on both nodes: three and three, or four and two. By totals any two that need six would do there."""
    fours = "n2" if threes == "n1" else "n1"
    works = {"x": each(4, **LINKED), "y": each(2, **LINKED), "z": each(3, replicas=2, **LINKED), "old": each(1, replicas=2)}
    works[first]["priority"] = "high"
    shapes = {"h3": SHAPE | {"links": QUADS}, "h4": SHAPE | {"gpus": "6 x H100", "links": {"nvlink": [[0, 1, 2, 3], [4, 5]]}}}
    stack = stack_of({threes: {"hardware": "h3"}, fours: {"hardware": "h4"}}, works, hardware=shapes)
    last = Placement(allocations=(at(stack, "old-0", 0, node=threes), at(stack, "old-1", 4, node=threes)))
    found = solve(stack, last)
    assert found.placement.unplaced == () and found.moves == () and not unlinked(stack, found.placement)
    assert {name: a.node for name, a in found.placement.by_name().items() if name[0] in "xyz"} == {
        "x-0": fours, "y-0": fours, "z-0": threes, "z-1": threes,
    }  # fmt: skip


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize(("first", "joined"), [(PAIRS, 0), (QUADS, 2)])
def test_who_is_alike_in_all_but_links_is_not_taken_for_it(
    answer: Any, names: tuple[str, str], first: Any, joined: int
) -> None:
    """Four are joined on no node, or on n1, and eight are free on both; shares of teams count in the same way."""
    bound, free = names
    works = {bound: each(4, replicas=4 - joined, **LINKED), free: each(4, replicas=4 - joined)}
    shapes, nodes = {"h1": SHAPE | {"links": first}, "h": SHAPE | {"links": PAIRS}}, NODES | {"n1": {"hardware": "h1"}}
    for teams in ({}, {"x": {"users": ["ada"], "share": 1}, "y": {"users": ["bo"], "share": 1}}):
        stack = stack_of(nodes, works, hardware=shapes, **({"teams": teams} if teams else {}))
        found = answer(stack, Placement())
        assert Counter(a.workload for a in found.placement.allocations) == Counter({free: 4 - joined, bound: joined})
        assert next(goal.bound for goal in found.proof.goals if goal.name == "normal_placed_gpus") == 16
        snapshot = snapshot_of(stack, Placement())
        assert sum(greedy(repair_task(snapshot, classify(snapshot))).values()) == 4, "and at first sight"
        assert possible(snapshot) == {free: 4 - joined, bound: joined}
        assert len(kinds_of(FreeCapacity(snapshot), sorted(names), priorities=False)[0]) == 2


def test_who_restarts_where_it_was_gets_linked_gpus() -> None:
    """Another user's from now on, so it starts anew, and no longer on the two that it had."""
    stack = fleet({"job": {"user": "bo", **each(2, **LINKED)}}, ONE, links=PAIRS)
    found = solve(stack, Placement(allocations=(at(stack, "job-0", 1, 2),)))
    assert not unlinked(stack, found.placement) and {*found.placement.by_name()["job-0"].cards} & {1, 2}


def test_a_replica_that_came_out_unlinked_is_found_but_where_it_ran() -> None:
    stack = fleet({"job": each(2, replicas=2, **LINKED)}, links=PAIRS)
    ran, came = at(stack, "job-0", 1, 2), at(stack, "job-1", 3, 4, node="n2")
    snapshot = snapshot_of(stack, Placement(allocations=(ran,)))
    assert split(snapshot, classify(snapshot), [ran, came, at(stack, "job-1", 2, 3, node="n2")]) == [came]


def test_who_runs_on_others_stays_when_the_rule_is_added() -> None:
    stack = fleet({"job": each(2, **LINKED)}, links=PAIRS)
    was = at(stack, "job-0", 1, 2)
    found = solve(stack, Placement(allocations=(was,)))
    assert found.placement.allocations == (was,) and found.moves == ()
    assert judge(stack, found.placement, kept=frozenset({"job-0"})) == ()
    assert [one.rule for one in judge(stack, found.placement)] == ["gpus_of_a_replica_are_linked"]
    told = [fact.text for fact in why(stack, found.placement, "job", last=found.placement).fits]
    assert "job-0 has GPUs of n1 that NVLink does not join: it ran so before, and is not stopped for it" in told


def test_one_gpu_leaves_pairs_whole_and_two_take_a_pair() -> None:
    """Nobody asks for links, and they are preferred all the same."""
    stack = fleet({"a": each(1, replicas=2), "b": each(2)}, ONE, links=ACROSS)
    found = solve(stack).placement.by_name()
    assert sorted((*found["a-0"].cards, *found["a-1"].cards)) in ACROSS["nvlink"], "one pair for both"
    assert [*found["b-0"].cards] in ACROSS["nvlink"]


def test_a_preference_costs_no_placement() -> None:
    """Two halves of pairs are free, and who does not require links takes them."""
    stack = fleet({"a": each(1, replicas=6), "new": each(2)}, ONE, links=PAIRS)
    last = Placement(allocations=tuple(at(stack, f"a-{i}", gpu) for i, gpu in enumerate((0, 1, 2, 4, 6, 7))))
    assert solve(stack, last).placement.by_name()["new-0"].cards == (3, 5)


def test_without_nvlink_one_pcie_switch_is_preferred() -> None:
    hardware = Hardware.model_validate({"gpus": 8, "vcpus": 8, "memory": "1 GB", "links": {"pcie": [[0, 2], [1, 3]]}})
    assert sorted(closest(hardware, range(8), 2)) == [0, 2]
    assert sorted(closest(hardware, [1, 2, 3], 2)) == [1, 3]
    assert sorted(closest(hardware, [0, 1, 2, 3, 5], 1)) == [5], "who needs one leaves the pairs whole"
    assert sorted(closest(hardware, [1, 2, 5], 1, near=(0,))) == [2], "beside what it has"


def test_a_mesh_is_split_into_groups_in_which_all_are_joined() -> None:
    """Eight V100: each card is joined with the three others of its half, and with one of the other half."""
    peers = [[j for j in range(8) if j != i and (j // 4 == i // 4 or j == (i + 4) % 8)] for i in range(8)]
    assert partition(peers) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert partition([[1], [0], [], [0]]) == ((0, 1),), "what one side alone says joins nothing"
    assert partition([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]) == ((0, 1, 2, 3),)


def _lies(free: dict[int, frozenset[int]], wants: list[tuple[int, bool, bool]], groups: list[set[int]], half: int) -> int:
    """The most GPUs that can be given out, by trying every choice of GPUs for each replica in turn."""
    if not wants:
        return 0
    (count, linked, single), *rest = wants
    best = _lies(free, rest, groups, half)
    seen = set()
    for pick in itertools.combinations(sorted(free), count):
        if linked and count > 1 and not any({*pick} <= group for group in groups):
            continue
        if single and len({i // half for i in pick}) > 1:
            continue
        left = {i: own for i, own in free.items() if i not in pick}
        alike = tuple(sorted(Counter(left.values()).items(), key=str))
        if alike not in seen:
            seen.add(alike)
            best = max(best, count + _lies(left, rest, groups, half))
    return best


def _drawn(seed: int) -> tuple[Stack, int]:
    """One machine whose groups and NUMA nodes overlap in any way, and the most GPUs that can be placed there."""
    chance = random.Random(f"links {seed}")
    gpus = chance.choice([4, 6, 6, 8])
    order = chance.sample(range(gpus), gpus)
    groups, rest = [], order
    while len(rest) > 1 and chance.random() < 0.85:
        size = chance.choice([2, 2, 3, 4])
        groups.append(rest[:size])
        rest = rest[size:]
    groups = [group for group in groups if len(group) > 1]
    places = [{}, LINKED["place"], LINKED["place"], BOTH["place"], {"numa": "single"}]
    works, wants = {}, []
    for i in range(chance.randint(1, 3)):
        count, place, replicas = chance.choice([1, 2, 2, 3, 4]), chance.choice(places), chance.choice([1, 1, 2])
        if count <= gpus // 2 or "numa" not in place:
            works[f"w{i}"] = each(count, replicas=replicas, place=place)
            wants += [(count, "links" in place, "numa" in place)] * replicas
    kind = {i: frozenset([(i // (gpus // 2)), *(10 + g for g, group in enumerate(groups) if i in group)]) for i in range(gpus)}
    stack = fleet(works, ONE, gpus=f"{gpus} x H100", links={"nvlink": groups})
    return stack, _lies(kind, wants, [{*group} for group in groups], gpus // 2)


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
def test_no_way_to_give_gpus_out_places_more(answer: Any, seed: int) -> None:
    stack, most = _drawn(seed)
    found = answer(stack, Placement())
    assert not unlinked(stack, found.placement)
    assert judge(stack, found.placement) == ()
    placed = sum(len(a.gpus) for a in found.placement.allocations)
    bound = next((goal.bound for goal in found.proof.goals if goal.name == "normal_placed_gpu_milli"), 1000 * most)
    assert placed == most if answer is solve else placed <= most
    assert bound >= 1000 * most, "no bound is below what can be reached"


@pytest.mark.parametrize("seed", range(DRAWS))
def test_no_change_takes_a_linked_gpu_of_what_runs_or_splits_who_comes(seed: int) -> None:
    """Replicas come, go and change size beside others; who stays keeps its GPUs, and who is new has linked ones."""
    chance = random.Random(f"change {seed}")
    stack, _ = _drawn(seed)
    last = solve(stack).placement
    data = stack.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for work in data["workloads"].values():
        if chance.random() < 0.4:
            work["each"]["gpus"] = chance.choice([1, 2, 3])
        if chance.random() < 0.3:
            work["place"] = chance.choice([{}, dict(LINKED["place"])])
    data["workloads"]["more"] = data["workloads"].get("w0", {}) | {"user": "ada", **each(2, priority="high", **LINKED)}
    now = Stack.model_validate(data)
    found = solve(now, last)
    again = still(found.placement, last)
    assert judge(now, found.placement, **again) == ()
    before = last.by_name()
    here = {a.name for a in found.placement.allocations if a.name in before and before[a.name].cards == a.cards}
    assert {name for name in unlinked(now, found.placement)} <= here, "only who ran so before is on others"


def test_a_pool_counts_what_sets_of_cells_hold_together() -> None:
    """Each set alone would fit: what lies in their union would not."""
    pool = Pool([1, 1, 1])
    pool.bind(frozenset({0, 1}), 1)
    pool.bind(frozenset({1, 2}), 1)
    assert pool.left(frozenset({0, 2})) == 1 and pool.left(frozenset({1})) == 1
    pool.bind(frozenset({1}), 1)
    assert pool.left(frozenset({0})) == 0 == pool.left(frozenset({0, 2}))


@pytest.mark.parametrize("seed", range(200))
def test_a_pool_has_left_what_every_set_of_cells_has(seed: int) -> None:
    """Compared with the smallest that is left of any set of cells (Hall), of all that there are."""
    chance = random.Random(f"pool {seed}")
    count = chance.randint(1, 5)
    free, sets = [chance.randint(0, 3) for _ in range(count)], dict[frozenset[int], int]()
    pool = Pool(free)
    for _ in range(chance.randint(0, 6)):
        cells = frozenset(chance.sample(range(count), chance.randint(1, count)))
        if more := chance.randint(0, pool.left(cells)):
            pool.bind(cells, more)
            sets[cells] = sets.get(cells, 0) + more
    every = [frozenset(some) for size in range(1, count + 1) for some in itertools.combinations(range(count), size)]
    left = {some: sum(free[c] for c in some) - sum(held for own, held in sets.items() if own <= some) for some in every}
    for cells in every:
        assert pool.left(cells) == min(least for some, least in left.items() if cells <= some)
    if sets:
        cells, held = chance.choice(sorted(sets.items(), key=str))
        pool.bind(cells, -held)
        assert pool.left(cells) >= held, "what is released may be bound again"


def test_groups_across_many_numa_nodes_take_no_time_that_doubles_with_each() -> None:
    """A stack file that declares such a machine must not stop the check of its pull request."""
    works = {"a": each(2, **LINKED), "b": each(1, place={"numa": "single"}), "c": each(15, replicas=2, **LINKED)}
    across = {"nvlink": [[*range(0, 32, 2)], [*range(1, 32, 2)]]}
    rows = [frozenset((2 * j, 2 * j + 1)) for j in range(16)]
    assert len(unions([*rows, *map(frozenset, across["nvlink"])], UNIONS)) < 200
    begin = time.process_time()
    found = solve(fleet(works, ONE, gpus="32 x H100", numa=16, links=across))
    assert {*found.placement.by_name()} == {"b-0", "c-0", "c-1"} and time.process_time() - begin < 20
