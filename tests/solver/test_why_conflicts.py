"""Is the conflict that `swarm why` tells minimal? Each is tried again without the solver: by enumeration and the judge.

A conflict must forbid what is missing, and without any one of its rules, closed nodes or holders it must not; holders are
in the way only on nodes that would take the workload if they were empty. Nothing
here counts rooms: replicas are put on nodes in every possible way, and `limits` says which rules that breaks.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from swarm_iac.limits import Violation, judge
from swarm_iac.limits.machines import NODE_RULES
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import LIMITED
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, why
from swarm_iac.solver.explain.conflict import GANG, Causes, capacity_of
from swarm_iac.solver.explain.counting import CEILING_RULES, STATES
from swarm_iac.solver.explain.facts import Conflict, conflict_of
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.sized import sizes
from tests.solver.crowded import crowded
from tests.solver.fleets import HARDWARE, stack_of

FLEETS = 300
_SAME = (*NODE_RULES, "power_stays_under_rack_budget")
_NAMES = {
    "gpus_have_one_owner": "gpus_fit_node",
    "cpus_have_one_owner": "cores_fit_node",
    "labels_match_select": "selector_matches",
    **{rule.judged: rule.rule for rule in GROUP_RULES},
    "gangs_are_whole": GANG,
}
_LEVELS = {"users_stay_under_limit": "user", "nodes_stay_under_limit": "node", "cluster_stays_under_limit": "cluster"}


def rules_of(violation: Violation, way: str) -> set[str]:
    """The solver's names for a rule of the judge; a bandwidth that is over may be so in either way, others in each."""
    rule, text = violation.rule, violation.text
    if rule in _NAMES:
        return {_NAMES[rule]}
    if rule in _LEVELS:
        what = violation.path.rpartition(".")[2]
        rows = (way,) if what == "bandwidth" else tuple(row.name for row in LIMITED[what])
        return {f"{_LEVELS[rule]}_stays_under_limits {each}" for each in rows}
    if rule == "nic_carries_node":
        return {"egress_fits_nic" if "bandwidth out" in text else "ingress_fits_nic"}
    if rule == "uplink_carries_rack":
        return {"egress_fits_uplink" if "leave" in text else "ingress_fits_uplink"}
    if rule == "gpus_match_request":
        return {"gpu_memory_suffices" if "GPUs of" in text else "gpu_model_matches"}
    return {STATES} if rule == "states_allow" else {rule} if rule in _SAME else set()


def allocation(stack: Stack, workload: str, index: int, node: str, there: list[Allocation]) -> Allocation:
    """A replica on a node, with the lowest devices that nobody there has; else with devices that somebody has."""
    request = stack.workloads[workload]
    gpus, cpus = request.each.gpus.count, int(request.each.vcpus) // 1000 if request.each.pinned else 0
    taken = {gpu for one in there for gpu in one.cards}, {cpu for one in there for cpu in one.cpus}
    free = ([i for i in range(99) if i not in held] for held in taken)
    picked = [tuple(ids[:count]) for ids, count in zip(free, (gpus, cpus), strict=True)]
    return Allocation(
        name=f"{workload}-{index}", workload=workload, index=index, node=node, gpus=picked[0], cpus=picked[1],
        **sizes(request),
    )  # fmt: skip


def added(stack: Stack, stays: list[Allocation], workload: str, nodes: Iterable[str], indices: list[int]) -> list[Violation]:
    """What is broken once these replicas stand on these nodes, beside those that stay."""
    every = list(stays)
    for index, node in zip(indices, nodes, strict=True):
        every.append(allocation(stack, workload, index, node, [a for a in every if a.node == node]))
    return judge(stack, Placement(allocations=tuple(every)), kept=frozenset(a.name for a in stays))


def allows(stack: Stack, placement: Placement, workload: str, conflict: Conflict, *, possible: bool) -> bool:
    """Is there a way to add one replica (all of a gang) that breaks none of the conflict's rules?

    `possible`: only on nodes that would take one if nobody else stood anywhere, and no other one.
    """
    request = stack.workloads[workload]
    stays = [a for a in placement.allocations if a.workload == workload or a.workload in conflict.holders]
    free = [i for i in range(request.members) if i not in {a.index for a in stays if a.workload == workload}]
    indices = free if GANG in conflict.rules else free[:1]
    way = "ingress" if request.network.ingress else "egress"
    names = would_take(stack, placement, workload, free[0]) if possible else stack.nodes
    for nodes in itertools.combinations_with_replacement(names, len(indices)):
        broken = added(stack, stays, workload, nodes, indices)
        if not any(rules_of(one, way) & {*conflict.rules} and _counts(one, conflict) for one in broken):
            return True
    return False


def would_take(stack: Stack, placement: Placement, workload: str, index: int) -> list[str]:
    """The nodes that would take a replica, if only the others of its workload stood where they do."""
    own = [a for a in placement.allocations if a.workload == workload]
    way = "ingress" if stack.workloads[workload].network.ingress else "egress"
    anywhere = {GANG, *CEILING_RULES}
    return [
        node
        for node in stack.nodes
        if not any(rules_of(one, way) - anywhere for one in added(stack, own, workload, [node], [index]))
    ]


def _counts(violation: Violation, conflict: Conflict) -> bool:
    """A node's state counts where the conflict names the node."""
    return violation.rule != "states_allow" or violation.path.split(".")[1] in conflict.closed


def without_a_rule(conflict: Conflict) -> list[Conflict]:
    """The conflict without each of its rules. That states forbid goes with the last closed node."""
    return [
        replace(conflict, rules=tuple(r for r in conflict.rules if r != rule)) for rule in conflict.rules if rule != STATES
    ] + [replace(conflict, closed=tuple(n for n in conflict.closed if n != node)) for node in conflict.closed]


def without_a_holder(conflict: Conflict) -> list[Conflict]:
    """The conflict without each of those who hold the room."""
    return [replace(conflict, holders=tuple(h for h in conflict.holders if h != name)) for name in conflict.holders]


@pytest.mark.parametrize("part", range(6))
def test_conflict_forbids_and_nothing_of_it_can_be_left_out(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part * FLEETS // 6, (part + 1) * FLEETS // 6):
        before, stack = crowded(seed)
        placement = solve(stack, solve(before).placement).placement
        snapshot = snapshot_of(stack, placement)
        for gone in placement.unplaced:
            request = snapshot.requests[gone.workload]
            conflict = conflict_of(Causes(capacity_of(snapshot, placement)).seen(request), request)
            assert conflict.rules, f"seed {seed}: {gone.workload} is unplaced and nothing forbids it"
            assert not allows(stack, placement, gone.workload, conflict, possible=True), f"seed {seed}: {conflict} leaves room"
            for part_of in without_a_rule(conflict):
                assert allows(stack, placement, gone.workload, part_of, possible=False), f"seed {seed}: {part_of} forbids it"
            for part_of in without_a_holder(conflict):
                assert allows(stack, placement, gone.workload, part_of, possible=True), f"seed {seed}: {part_of} forbids it"
            seen.update(conflict.rules)
            seen.update({"closed": len(conflict.closed), "holders": len(conflict.holders)})
    assert len(seen) >= 8 and seen["closed"] and seen["holders"], seen


def test_who_stands_on_nodes_of_another_model_is_not_in_the_way() -> None:
    """The nodes with L40S are full, too; but "needs 4 x H100 on one node" speaks of the other one."""
    nodes = {"h": {"labels": {"is": "h"}}, "l": {"hardware": "l40s", "labels": {"is": "l"}}}
    there = {name: {"priority": "high", "place": {"select": {"is": name}}} for name in ("h", "l")}
    stack = stack_of(nodes, {
        "on-h": there["h"] | {"each": {"gpus": 6}}, "on-l": there["l"] | {"each": {"gpus": 1}}, "w": {"each": {"gpus": "4 x H100"}},
    })  # fmt: skip
    answer = why(stack, solve(stack).placement, "w")
    assert answer.reasons[0].text == "needs 4 x H100 on one node; the most that is free is 2 on h"
    assert [one.path for one in answer.reasons if one.rule == "holds"] == ["workloads.on-h"]


@pytest.mark.parametrize(
    ("other", "size"),
    [
        ({}, {"place": {"select": {"is": "in"}}}),
        ({"hardware": "l40s"}, {"each": {"gpus": {"count": 4, "memory": "80 GB"}}}),
        ({"state": "cordon"}, {}),
        ({"hardware": "few"}, {}),
        ({"hardware": "slow"}, {"each": {"gpus": 4, "vcpus": 16}}),
        ({"rack": "weak"}, {"each": {"gpus": 4}, "network": {"egress": "5 Gbit/s"}}),
    ],
    ids=["labels", "GPU memory", "state", "too few GPUs", "too few vCPUs", "rack"],
)
def test_who_stands_where_it_never_could_is_not_in_the_way(other: dict[str, Any], size: dict[str, Any]) -> None:
    """`both` holds GPUs on both nodes: told are those on the one that would do. Who is on the other one alone is not told."""
    own = 1 if other.get("hardware") in ("l40s", "few") else 4
    there = {name: {"priority": "high", "place": {"select": {"is": name}}, "each": {"gpus": 4}} for name in ("in", "out")}
    running = {
        "on-in": there["in"], "on-out": there["out"] | {"each": {"gpus": own}},
        "both": {"priority": "high", "replicas": 2, "place": {"spread": "node"}, "each": {"gpus": 1}},
    }  # fmt: skip
    shapes = {"few": {"gpus": "3 x H100"}, "slow": {"vcpus": 8}}
    hardware = HARDWARE | {name: HARDWARE["h100"] | shape for name, shape in shapes.items()}
    rest = {"racks": {"weak": {"uplink": "4 Gbit/s"}}, "hardware": hardware}
    ready = {key: value for key, value in other.items() if key != "state"}
    before, nodes = ({"in": {"labels": {"is": "in"}}, "out": {"labels": {"is": "out"}} | one} for one in (ready, other))
    stack = stack_of(nodes, running | {"w": {"each": {"gpus": 4}} | size}, **rest)
    last = solve(stack_of(before, running, **rest)).placement
    answer = why(stack, solve(stack, last).placement, "w")
    told = [one.text for one in answer.reasons if one.rule == "holds"]
    assert told == ["on-in (high, user ada) holds 4 GPUs on in", "both (high, user ada) holds 1 GPU on in"], answer.reasons


def test_what_is_short_once_the_model_is_given_up_is_told_of_all_nodes() -> None:
    """Of the nodes with another model, which have memory for it; h has a free H100, and no memory."""
    nodes = {"h": {"labels": {"is": "h"}}, "c": {"hardware": "cpu", "labels": {"is": "c"}}}
    full = {"priority": "high", "place": {"select": {"is": "h"}}, "each": {"memory": "900 GB"}}
    stack = stack_of(nodes, {"full": full, "w": {"each": {"gpus": "0.5 x H100", "memory": "200 GB"}}})
    answer = why(stack, solve(stack).placement, "w")
    besides = [one.text for one in answer.reasons if one.besides]
    assert besides == ["besides, needs 0.5 of a GPU on one card; of those with enough memory none has any left"], answer.reasons


def test_an_uplink_that_is_short_both_ways_is_told_once() -> None:
    nodes = {f"n{i}": {"rack": f"r{i}"} for i in range(2)}
    both = {"network": {"egress": "6 Gbit/s", "ingress": "6 Gbit/s"}, "gang": 3}
    racks = {f"r{i}": {"uplink": "6 Gbit/s"} for i in range(2)}
    stack = stack_of(nodes, {"w": both | {"each": {"gpus": 1}}}, racks=racks)
    texts = [one.text for one in why(stack, solve(stack).placement, "w").reasons if "uplink" in one.text]
    assert len(texts) == 1, texts


@pytest.mark.engine
def test_every_reason_has_a_path_of_the_stack() -> None:
    for seed in range(40):
        before, stack = crowded(seed)
        placement = solve(stack, solve(before).placement).placement
        for gone in placement.unplaced[:1]:
            for reason in why(stack, placement, gone.workload).reasons:
                section, name = reason.path.split(".")[:2]
                assert section in ("limits", "solve") or name in getattr(stack, section), reason
