"""Is more of a disk or of huge pages never promised than there is? Small fleets, added up here by hand from the stack alone."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.plan import desired
from swarm_iac.solver import solve
from tests.solver.fleets import stack_of

PAGE, GIANT, M = 2 << 20, 1 << 30, 10**6
SHAPE = {"vcpus": 64, "memory": "256 GB", "nvme": "1 TB", "disk": "/dev/vdb"}
#: What machines say of their disk and of their pages; one says nothing.
SHAPES: dict[str, dict[str, Any]] = {
    "fast": {**SHAPE, "disk_read": "600 MB/s", "disk_write": "300 MB/s", "disk_iops": 9000, "hugepages": "64 GB"},
    "both": {**SHAPE, "disk_read": "500 MB/s", "hugepages": "32 GB", "hugepages_1g": "8 GiB"},
    "mute": SHAPE,
}


def drawn(seed: int) -> Stack:
    rng = random.Random(seed)
    works: dict[str, Any] = {}
    for i in range(rng.randint(2, 4)):
        low = rng.choice([100, 200, 300])
        io: dict[str, Any] = rng.choice([{}, {"read": f"{low}..{low * 3} MB/s"}, {"read": f"{low} MB/s", "iops": "4000..9000"}])
        pages = rng.choice([{}, {}, {"hugepages": "24 GB"}, {"hugepages_1g": "2300 MB"}])
        works[f"w{i}"] = {
            "replicas": rng.randint(1, 3),
            "each": {"io": io, **pages},
            "priority": rng.choice(["normal", "high"]),
        }
    nodes = {f"n{i}": {"hardware": rng.choice(sorted(SHAPES))} for i in range(rng.randint(1, 2))}
    return stack_of(nodes, works, hardware=SHAPES)


def sums(stack: Stack, node: str, names: list[str]) -> bool:
    """Do replicas of these workloads fit on a node, by hand?"""
    has, each = stack.hardware[stack.nodes[node].hardware], [stack.workloads[name].each for name in names]
    rates = ((has.disk_read, "read"), (has.disk_write, "write"), (has.disk_iops, "iops"))
    disk = all(not most or sum(int(getattr(one.io, key) or 0) for one in each) <= int(most) for most, key in rates)
    giant = sum(-(-int(one.hugepages_1g) // GIANT) for one in each) <= int(has.hugepages_1g) // GIANT
    return disk and giant and sum(int(one.hugepages) // PAGE for one in each) <= int(has.hugepages) // PAGE


def best(stack: Stack) -> int:
    """The most replicas, high before normal, of every way to distribute them."""
    replicas = [name for name, one in stack.workloads.items() for _ in range(one.members)]
    found = 0
    for where in itertools.product((None, *stack.nodes), repeat=len(replicas)):
        lists = {node: [name for name, at in zip(replicas, where, strict=True) if at == node] for node in stack.nodes}
        if all(sums(stack, node, names) for node, names in lists.items()):
            placed = [name for names in lists.values() for name in names]
            found = max(found, sum(100 if stack.workloads[name].priority == "high" else 1 for name in placed))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_no_more_is_promised_than_there_is_and_no_less_is_placed_than_could_be(seed: int) -> None:
    stack = drawn(seed)
    found = solve(stack).placement
    assert judge(stack, found) == ()
    for node in stack.nodes:
        assert sums(stack, node, [one.workload for one in found.allocations if one.node == node])
    if sum(one.members for one in stack.workloads.values()) <= 7:
        placed = [stack.workloads[one.workload].priority for one in found.allocations]
        assert sum(100 if one == "high" else 1 for one in placed) == best(stack)


@pytest.mark.parametrize("seed", range(30))
def test_no_slice_may_exceed_its_ceiling_or_use_pages_of_others(seed: int) -> None:
    stack = drawn(seed)
    found = solve(stack).placement
    for node, state in desired(stack, found).items():
        has, pages = stack.hardware[stack.nodes[node].hardware], Counter[str]()
        for one in state.state.allocations.values():
            io, slice_ = stack.workloads[one.workload].each.io, one.slice
            assert slice_.io_read_bps == (None if io.read is None else int(io.read.most))
            assert slice_.io_read_iops == slice_.io_write_iops == (None if io.iops is None else int(io.iops.most))
            assert (slice_.hugetlb_2m is None) == (not has.hugepages), "where there are pages nobody is without a limit"
            assert (slice_.hugetlb_1g is None) == (not has.hugepages_1g)
            pages += Counter({"2m": slice_.hugetlb_2m or 0, "1g": slice_.hugetlb_1g or 0})
            rates = [(io.read, has.disk_read), (io.write, has.disk_write), (io.iops, has.disk_iops)]
            parts = [int(own or 0) * 10_000 // int(most) for own, most in rates if most]
            assert slice_.io_weight == (max(1, *parts) if parts else None)
        assert pages["2m"] <= (state.state.settings.hugepages_2m or 0) * PAGE
        assert pages["1g"] <= (state.state.settings.hugepages_1g or 0) * GIANT


def test_the_judge_refuses_what_the_solver_never_gives() -> None:
    works = {"w": {"replicas": 2, "each": {"io": {"read": "100 MB/s"}, "hugepages_1g": "4 GiB"}}}
    stack = stack_of({"n": {"hardware": "both"}}, works, hardware=SHAPES)
    found = solve(stack).placement
    assert len(found.allocations) == 2
    for key, value, rule in (("disk_read", "150 MB/s", "reads_fit_disk"), ("hugepages_1g", "7 GiB", "giant_pages_fit_node")):
        less = stack_of({"n": {"hardware": "both"}}, works, hardware={"both": SHAPES["both"] | {key: value}})
        assert [one.rule for one in judge(less, Placement(allocations=found.allocations))] == [rule]
        assert len(solve(less).placement.allocations) == 1
