"""Is each rule of `place` told as it is meant: why a replica is pending, what the other nodes have, and which edit lifts it?

Each value again, by hand, since the solver derives what it says from one row (docs/architecture.md, *A rule of placement*).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from swarm_iac.limits import NAMES
from swarm_iac.model.place.groups import PER_NODE, Group
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.solver import solve, why
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.explain.counting import TAINTS
from swarm_iac.solver.explain.lacking import lacking
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.suitability import FIT, PLACE
from tests.solver.fleets import stack_of

HARDWARE = {name: {"gpus": f"{gpus} x H100", "vcpus": 64, "memory": "1 TB"} for name, gpus in (("big", 8), ("small", 2))}
#: Two racks, of which the first has a large and a small node.
NODES: dict[str, dict[str, Any]] = {
    "n1": {"hardware": "big", "rack": "r1", "labels": {"zone": "a"}},
    "n2": {"hardware": "small", "rack": "r1", "labels": {"zone": "b"}},
    "n3": {"hardware": "small", "rack": "r2", "labels": {"zone": "a"}},
}


@dataclass(frozen=True)
class Case:
    """A workload of which a replica is pending."""

    place: dict[str, Any]
    replicas: int
    gpus: int
    placed: int
    text: str  # of the rule
    lacking: str
    of_those: str = ""  # what the reason about GPUs says of the nodes that the rule leaves
    others: dict[str, Any] = field(default_factory=dict)  # changes of NODES
    last: dict[str, Any] = field(default_factory=dict)  # what n3 is in their place
    beside: dict[str, Any] = field(default_factory=dict)  # another workload, of a higher priority
    judged: str = ""


BRIDGES = {"links": {"nvlink": [[0, 1], [2, 3]]}}
CASES: dict[str, list[Case]] = {
    "spread_keeps_apart": [
        Case(
            {"spread": "node"}, 4, 1, 3, judged="replicas_are_spread",
            text="no two replicas on one node: no other node has capacity",
            lacking="3 nodes: 3 hold a replica already",
        ),
        Case(
            {"spread": "node"}, 2, 4, 1, judged="replicas_are_spread",
            text="no two replicas on one node: no other node has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 holds a replica already",
            of_those="of those without a replica of it the most that is free is 2 on n3",
        ),
        Case(
            {"spread": "site"}, 2, 4, 1, judged="replicas_are_spread",
            text="no two replicas in one site: no other site has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 holds a replica already",
            others={"site": "s"},
        ),
        Case(
            {"spread": "rack"}, 2, 4, 1, judged="replicas_are_spread",
            text="no two replicas in one rack: no other rack has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 holds a replica already",
            of_those="of those without a replica of it in the rack the most that is free is 2 on n3",
        ),
    ],
    "within_keeps_together": [
        Case(
            {"within": "site"}, 6, 2, 5, judged="replicas_stay_within",  # no node names one, so each rack is one
            text="all in one site: no site fits all",
            lacking="3 nodes: 2 lack GPUs, 1 is outside its site",
            of_those="of those with its others in the site the most that is free is none",
        ),
        Case(
            {"within": "node"}, 5, 2, 4, judged="replicas_stay_within",
            text="all in one node: no node fits all",
            lacking="3 nodes: 2 are outside its node, 1 lacks GPUs",
            of_those="of those with its others the most that is free is none",
        ),
        Case(
            {"within": "rack"}, 6, 2, 5, judged="replicas_stay_within",
            text="all in one rack: no rack fits all",
            lacking="3 nodes: 2 lack GPUs, 1 is outside its rack",
            of_those="of those with its others in the rack the most that is free is none",
        ),
    ],
    "per_node_holds": [
        Case(
            {"per_node": 2}, 7, 1, 6, judged="replicas_stay_under_per_node",
            text="at most 2 on one node: no other node has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 holds 2 of its replicas already",
        ),
        Case(
            {"per_node": 1}, 2, 4, 1, judged="replicas_stay_under_per_node",
            text="at most 1 on one node: no other node has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 holds 1 of its replicas already",
            of_those="of those with fewer of its replicas the most that is free is 2 on n3",
        ),
    ],
    "per_rack_holds": [
        Case(
            {"per_rack": 3}, 7, 1, 5, judged="replicas_stay_under_per_rack",
            text="at most 3 in one rack: no other rack has capacity",
            lacking="3 nodes: 2 have 3 of its replicas in the rack already, 1 lacks GPUs",
            of_those="of those with fewer of its replicas in the rack the most that is free is none",
        ),
    ],
    "per_site_holds": [
        Case(
            {"per_site": 3}, 7, 1, 5, judged="replicas_stay_under_per_site",
            text="at most 3 in one site: no other site has capacity",
            lacking="3 nodes: 2 have 3 of its replicas in the site already, 1 lacks GPUs",
            of_those="of those with fewer of its replicas in the site the most that is free is none",
        ),
        Case(
            {"per_site": 3}, 7, 1, 3, judged="replicas_stay_under_per_site",
            text="at most 3 in one site: no other site has capacity",
            lacking="3 nodes: 3 have 3 of its replicas in the site already",
            others={"site": "s"},
        ),
    ],
    "balance_holds_skew": [
        Case(
            {"balance": "rack"}, 6, 1, 5, judged="replicas_are_balanced",
            text="at most 1 more in one rack than in another; rack r2 has 2 and no capacity for one more",
            lacking="3 nodes: 2 have as many of its replicas in the rack as `balance` allows, 1 lacks GPUs",
            of_those="of those with fewer of its replicas in the rack the most that is free is none",
        ),
        Case(
            {"balance": "site"}, 2, 4, 1, judged="replicas_are_balanced",
            text="at most 1 more in one site than in another; site t has none and no capacity for one more",
            lacking="3 nodes: 2 lack GPUs, 1 has as many of its replicas in the site as `balance` allows",
            others={"site": "s"},
            last={"hardware": "big", "rack": "r2", "site": "t"},
            beside={"each": {"gpus": 8}, "place": {"select": {"site": "t"}}},
        ),
    ],
    "apart_keeps_away": [
        Case(
            {"apart": "node"}, 9, 1, 8, judged="workloads_stay_apart",
            text="no other workload with `apart` near it: each node with capacity is too near to one",
            lacking="3 nodes: 2 are too near to another workload with `apart`, 1 lacks GPUs",
            of_those="of those without another workload with `apart` the most that is free is none",
            beside={"replicas": 2, "each": {"gpus": 1}, "place": {"spread": "node", "apart": "node"}},
        ),
        Case(
            {"apart": "rack"}, 2, 2, 1, judged="workloads_stay_apart",
            text="no other workload with `apart` near it: each node with capacity is too near to one",
            lacking="3 nodes: 2 are too near to another workload with `apart`, 1 lacks GPUs",
            beside={"each": {"gpus": 4}, "place": {"apart": "node"}},
        ),
        Case(
            {"apart": "site"}, 1, 2, 0, judged="workloads_stay_apart",
            text="no other workload with `apart` near it: each node with capacity is too near to one",
            lacking="3 nodes: 3 are too near to another workload with `apart`",
            others={"site": "s"}, beside={"each": {"gpus": 4}, "place": {"apart": "node"}},
        ),
        Case(
            {"apart": "node"}, 5, 1, 2, judged="workloads_stay_apart",
            text="no other workload with `apart` near it: each node with capacity is too near to one",
            lacking="3 nodes: 2 are too near to another workload with `apart`, 1 lacks GPUs",
            beside={"each": {"gpus": 4}, "place": {"apart": "rack"}},
        ),
    ],
    "away_from_keeps_off": [
        Case(
            {"away_from": {"node": ["beside"]}}, 5, 1, 4, judged="workloads_keep_away",
            text="kept away from beside: each node with capacity has a replica of it",
            lacking="3 nodes: 2 lack GPUs, 1 is too near to beside",
            of_those="of those without beside the most that is free is none",
            beside={"each": {"gpus": 4}},
        ),
        Case(
            {"away_from": {"rack": ["beside"]}}, 3, 1, 2, judged="workloads_keep_away",
            text="kept away from beside: each rack with capacity has a replica of it",
            lacking="3 nodes: 2 are too near to beside, 1 lacks GPUs",
            of_those="of those without beside in the rack the most that is free is none",
            beside={"each": {"gpus": 4}},
        ),
    ],
    "company_is_near": [
        Case(
            {"only_with": {"node": ["beside"]}}, 5, 1, 4, judged="replicas_have_company",
            text="asks for a node with a replica of beside; 1 of 3 is such, and has no capacity",
            lacking="3 nodes: 2 have nobody whom it names, 1 lacks GPUs",
            of_those="of those near whom it names the most that is free is none",
            beside={"each": {"gpus": 4}},
        ),
        Case(
            {"only_with": {"rack": ["beside"]}}, 7, 1, 6, judged="replicas_have_company",
            text="asks for a node with a replica of beside in its rack; 2 of 3 are such, and none of them has capacity",
            lacking="3 nodes: 2 lack GPUs, 1 has nobody whom it names",
            of_those="of those near whom it names the most that is free is none",
            beside={"each": {"gpus": 4}},
        ),
        Case(
            {"only_with": {"node": ["beside"]}}, 1, 1, 0, judged="replicas_have_company",
            text="asks for a node with a replica of beside; there is none",
            lacking="3 nodes: 3 have nobody whom it names",
            beside={"each": {"gpus": 16}},
        ),
    ],
    "selector_matches": [
        Case(
            {"select": {"zone": "b"}}, 1, 4, 0, judged="labels_match_select",
            text="asks for nodes with zone: b; 1 of 3 has it, and has no capacity",
            lacking="3 nodes: 2 have other labels, 1 lacks GPUs",
            of_those="of those with its labels the most that is free is 2 on n2",
        ),
    ],
    "numa_node_suffices": [
        Case(
            {"numa": "single"}, 1, 8, 0, judged="replicas_are_on_one_numa_node",
            text="needs 8 GPUs on one NUMA node, and those of the nodes that would do are smaller; the largest has 4",
            lacking="3 nodes: 3 have NUMA nodes that are too small",
            others={"hardware": "two"},
        ),
    ],
    "linked_gpus_suffice": [
        Case(
            {"links": "required"}, 1, 4, 0, judged="gpus_of_a_replica_are_linked",
            text="needs 4 GPUs that NVLink joins, and the nodes that would do have none; the largest group has 2",
            lacking="3 nodes: 3 have NVLink between fewer GPUs",
            others={"hardware": "bridged"},
        ),
    ],
}  # fmt: skip
_ALL = [(rule, case) for rule, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("rule", "case"), _ALL, ids=[f"{rule}-{case.place}-{case.gpus}" for rule, case in _ALL])
def test_what_is_pending_is_told_by_its_rule(rule: str, case: Case) -> None:
    request = {"replicas": case.replicas, "each": {"gpus": case.gpus}, "place": case.place}
    beside = {"beside": {"priority": "high", **case.beside}} if case.beside else {}
    nodes = {name: node | case.others for name, node in NODES.items()}
    nodes["n3"] = nodes["n3"] | case.last
    stack = stack_of(
        nodes,
        {"w": request, **beside},
        hardware=HARDWARE | {"two": HARDWARE["big"] | {"numa": 2}, "bridged": HARDWARE["big"] | BRIDGES},
    )
    placement = solve(stack).placement
    assert sum(one.workload == "w" for one in placement.going()) == case.placed
    snapshot = snapshot_of(stack, placement)
    answer = why(stack, placement, "w")
    texts = {reason.rule: (reason.text, reason.path) for reason in answer.reasons}
    (key,) = case.place
    assert texts[rule] == (case.text, f"workloads.w.place.{key}")
    assert lacking(capacity_of(snapshot, placement), snapshot.requests["w"]) == case.lacking
    assert case.of_those in texts.get("gpus_fit_node", ("",))[0]
    edits = {edit.path: edit.value for fix in answer.fixes for edit in fix.edits}
    entry = next(iter(case.place[key])) if isinstance(case.place[key], dict) else ""
    assert edits.get(f"workloads.w.place.{key}{'.' if entry else ''}{entry}", "not told") is None


def test_every_rule_of_place_has_a_case_and_one_that_judges_it() -> None:
    rows = {one.rule: one.judged for one in GROUP_RULES} | {one.name: one.judged for one in FIT}
    assert {*rows.values()} <= NAMES
    assert {rule: {case.judged for case in cases} for rule, cases in CASES.items()} == {
        rule: {rows[rule]}
        for rule in PLACE
        if rule != TAINTS  # what lifts it is a key more: tests/solver/test_taints.py
    }


def test_a_number_bounds_each_group_of_its_level() -> None:
    by_rack = replace(PER_NODE, level="rack")
    assert [Group(rule, 2).level for rule in (PER_NODE, by_rack)] == ["node", "rack"]
    assert [Group(by_rack, 3).left({"rack r1": held}, "rack r1") for held in (0, 2, 3, 4)] == [3, 1, 0, 0]
