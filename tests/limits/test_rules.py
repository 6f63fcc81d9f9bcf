"""Does each rule, broken alone, give exactly its own violation?"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from swarm_iac.limits import NAMES, RULES, amounts, excused, judge, usage
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.row import Capacity, Resource
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.stack import Stack
from swarm_iac.units import Bytes
from tests.sized import sizes

STACK: dict[str, Any] = {
    "fleet": "lab",
    "teams": {"a": {"users": ["ada", "bo"]}},
    "tuning": {"t": {"gpu_power": "500 W"}},
    "hardware": {
        "h": {"gpus": "8 x H100", "vcpus": 16, "memory": "100 GB", "nvme": "1 TB", "nic": "10 Gbit/s", "numa": 2},
        "l": {"gpus": "4 x L40S", "vcpus": 16, "memory": "100 GB", "nvme": "1 TB", "nic": "10 Gbit/s"},
    },
    "racks": {"r1": {"power": "9 kW", "uplink": "15 Gbit/s"}, "r2": {}},
    "nodes": {
        name: {"name": name, "hardware": shape, "rack": rack, "ssh": "local", "tuning": "t", "labels": {"disk": disk}}
        for name, shape, rack, disk in (("n1", "h", "r1", "fast"), ("n2", "h", "r1", "slow"), ("n3", "l", "r2", "fast"))
    },
    "workloads": {
        "w": {
            "user": "ada",
            "replicas": "0..4",
            "each": {"gpus": "2 x H100", "vcpus": 2, "pinned": True, "memory": "10 GB", "scratch": "100 GB"},
            "network": {"egress": "1 Gbit/s", "ingress": "1 Gbit/s"},
        },
        "free": {"user": "bo", "replicas": "0..9", "each": {"vcpus": 1, "memory": "1 GB"}},
    },
}


def stack(**changes: Any) -> Stack:
    """STACK with values replaced by dotted path, `__` for a dot."""
    data: dict[str, Any] = Stack.model_validate(STACK).model_dump(mode="json", by_alias=True, exclude_unset=True)
    for path, value in changes.items():
        *steps, last = path.split("__")
        owner = data
        for step in steps:
            owner = owner.setdefault(step, {})
        owner[last] = value
    return Stack.model_validate(data)


def put(
    of: Stack, name: str, node: str, gpus: tuple[int | str, ...] = (), cpus: tuple[int, ...] = (), **other: Any
) -> Allocation:
    """An allocation with the sizes that its workload asks for."""
    key, _, index = name.rpartition("-")
    request = of.workloads[key]
    values: dict[str, Any] = {
        "workload": key, "index": int(index), **sizes(request),
    } | other  # fmt: skip
    return Allocation(name=name, node=node, gpus=gpus, cpus=cpus, **values)


def _near(of: Stack) -> list[Allocation]:
    """Two workloads on different nodes of one rack; each is told, if it is the one that asks for as much."""
    return [put(of, "w-0", "n1", (0, 1), (0, 1)), put(of, "free-0", "n2")]


def _team_pair(of: Stack) -> list[Allocation]:
    """Of both users of a team, 5 vCPUs in all."""
    return [*pair(of), put(of, "free-0", "n3")]


#: `free` has two MIG instances each, and n1 and n2 may cut their cards.
CUT = {"workloads__free__each__gpus": "2 x H100/1g.10gb", "hardware__h__mig": True}
UNCUT = {"workloads__free__each__gpus": "1 x H100/2g.20gb"}
EACH = ("0:1g.10gb@0/8", "3:1g.10gb@6/8")
#: `free` has half of a GPU.
HALF = {"workloads__free__each__gpus": 0.5, "workloads__free__replicas": 3}


def halves(of: Stack) -> list[Allocation]:
    """Two halves of one GPU."""
    return [put(of, f"free-{i}", "n1", ("0:0.5",)) for i in range(2)]


def test_parts_of_a_gpu_may_be_all_of_it() -> None:
    of = stack(**HALF, limits__user__gpus=1, limits__node__gpus=1, limits__cluster__gpus=1)
    assert rules(of, *halves(of)) == []


def rules(of: Stack, *ones: Allocation, **options: Any) -> list[str]:
    return [found.rule for found in judge(of, Placement(allocations=ones), **options)]


def pair(of: Stack, first: str = "n1", second: str = "n2") -> tuple[Allocation, Allocation]:
    return put(of, "w-0", first, (0, 1), (0, 1)), put(of, "w-1", second, (2, 3), (2, 3))


def free_on(of: Stack, *nodes: str) -> list[Allocation]:
    return [put(of, f"free-{i}", node) for i, node in enumerate(nodes)]


def test_good_placement_has_no_violation() -> None:
    assert rules(stack(), *pair(stack()), put(stack(), "free-0", "n3")) == []
    assert rules(stack()) == []


MANY_MEMORY = {"workloads__free__each__memory": "60 GB"}
MANY_SCRATCH = {"workloads__free__each__scratch": "600 GB"}
MANY_OUT = {"workloads__free__network": {"egress": "6 Gbit/s"}}
MANY_IN = {"workloads__free__network": {"ingress": "6 Gbit/s"}}
ON = "workloads__w__place__"
#: Who asks for linked GPUs, and a machine that has some.
JOINED: dict[str, Any] = {ON + "links": "required", "hardware__h__links": {"nvlink": [[0, 1], [4, 5, 6, 7]]}}
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("everything_is_known", {}, lambda s: [put(s, "free-0", "n9")]),
    ("everything_is_known", {}, lambda s: [_gone(s)]),
    ("indices_are_unique", {}, lambda s: [put(s, "free-0", "n1"), put(s, "free-0", "n2")]),
    ("indices_are_unique", {"workloads__free__replicas": 1}, lambda s: [put(s, "free-0", "n1"), put(s, "free-9", "n1")]),
    ("indices_are_unique", {"workloads__free": {"user": "bo", "gang": 1}}, lambda s: [put(s, "free-9", "n1")]),
    ("indices_are_unique", {}, lambda s: [put(s, "free-0", "n1", index=1)]),
    ("sizes_equal_request", {}, lambda s: [put(s, "free-0", "n1", memory="2 GB")]),
    ("sizes_equal_request", {}, lambda s: [put(s, "w-0", "n1", (0,), (0, 1))]),
    ("sizes_equal_request", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (0,))]),
    ("sizes_equal_request", {}, lambda s: [put(s, "w-0", "n1").released().model_copy(update={"memory": Bytes(1)})]),
    ("gpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "w-1", "n1", (1, 2), (2, 3))]),
    ("gpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (7, 8), (0, 1))]),
    ("gpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (3, 3), (0, 1))]),
    ("gpus_have_one_owner", HALF, lambda s: [put(s, "free-0", "n1", ("0:0.5",)), put(s, "w-0", "n1", (0, 1), (0, 1))]),
    ("gpus_have_one_owner", HALF, lambda s: [put(s, f"free-{i}", "n1", ("0:0.5",)) for i in range(3)]),
    ("sizes_equal_request", HALF, lambda s: [put(s, "free-0", "n1", ())]),
    ("gpus_match_request", {}, lambda s: [put(s, "w-0", "n1", (0, "1:0.5", "2:0.5"), (0, 1))]),
    ("users_stay_under_limit", {**HALF, "limits__user__gpus": 0.9}, halves),
    ("nodes_stay_under_limit", {**HALF, "limits__node__gpus": 0.9}, halves),
    ("cluster_stays_under_limit", {**HALF, "limits__cluster__gpus": 0.9}, halves),
    ("gpus_match_request", {}, lambda s: [put(s, "w-0", "n3", (0, 1), (0, 1))]),
    ("gpus_match_request", CUT, lambda s: [put(s, "free-0", "n1", ("0:2g.20gb@0-1/8",))]),
    ("gpus_match_request", CUT, lambda s: [put(s, "free-0", "n1", ("1:0.125", "0:1g.10gb@4/8"))]),
    ("gpus_have_one_owner", CUT, lambda s: [put(s, f"free-{i}", "n1", (f"{i}:1g.10gb@2/8", "5:1g.10gb@6/8")) for i in (0, 1)]),
    ("gpus_have_one_owner", CUT, lambda s: [put(s, "free-0", "n1", ("0:1g.10gb@2/8",) * 2)]),
    ("gpus_have_one_owner", CUT, lambda s: [put(s, "free-0", "n1", EACH), put(s, "w-0", "n1", (0, 7), (0, 1), numa=(0, 1))]),
    ("instances_lie_where_cards_allow", CUT, lambda s: [put(s, "free-0", "n1", ("0:1g.10gb@7/8", "0:1g.10gb@0/8"))]),
    ("instances_lie_where_cards_allow", UNCUT, lambda s: [put(s, "free-0", "n1", ("0:2g.20gb@0-1/8",))]),
    ("gpus_match_request", {"workloads__w__each__gpus": {"count": 2, "memory": "141 GB"}}, lambda s: pair(s)[:1]),
    ("cpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "w-1", "n1", (2, 3), (1, 2))]),
    ("cpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (15, 16))]),
    ("cpus_have_one_owner", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1), numa=(2,))]),
    ("vcpus_fit_node", {"workloads__free__each__vcpus": 8.5}, lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n1")]),
    ("memory_fits_node", MANY_MEMORY, lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n1")]),
    ("memory_fits_numa", MANY_MEMORY, lambda s: [put(s, "free-0", "n1", numa=(1,))]),
    (
        "memory_fits_numa",
        {"workloads__free__each__memory": "30 GB"},
        lambda s: [put(s, "free-0", "n1", numa=(0,)), put(s, "free-1", "n1", numa=(0,)), put(s, "free-2", "n1", numa=(0, 1))],
    ),
    (
        "memory_fits_numa",
        {"workloads__free__each__memory": "18 GB", "hardware__h__numa": 4},
        lambda s: [put(s, f"free-{i}", "n1", numa=numa) for i, numa in enumerate(((0,), (0, 1), (1,)))],
    ),
    ("numa_covers_devices", {}, lambda s: [put(s, "w-0", "n1", (3, 4), (0, 1), numa=(0,))]),
    ("numa_covers_devices", {}, lambda s: [put(s, "w-0", "n1", (0, 1), (7, 8), numa=(0,))]),
    ("replicas_are_on_one_numa_node", {ON + "numa": "single"}, lambda s: [put(s, "w-0", "n1", (3, 4), (0, 1))]),
    ("gpus_of_a_replica_are_linked", {ON + "links": "required"}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1))]),
    ("gpus_of_a_replica_are_linked", JOINED, lambda s: [put(s, "w-0", "n1", (1, 2), (0, 1))]),
    ("replicas_are_on_one_numa_node", {ON + "numa": "single"}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 8))]),
    ("replicas_are_on_one_numa_node", {ON + "numa": "single"}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1), numa=(0, 1))]),
    ("storage_fits_node", MANY_SCRATCH, lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n1")]),
    ("nic_carries_node", MANY_OUT, lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n1")]),
    ("nic_carries_node", MANY_IN, lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n1")]),
    (
        "uplink_carries_rack",
        {"workloads__free__network": {"egress": "8 Gbit/s"}},
        lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n2")],
    ),
    (
        "uplink_carries_rack",
        {"workloads__free__network": {"ingress": "8 Gbit/s"}},
        lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n2")],
    ),
    (
        "links_carry_gangs",
        {
            "workloads__w": {
                "user": "ada",
                "gang": 2,
                "each": {"gpus": "2 x H100", "vcpus": 2, "pinned": True, "memory": "10 GB"},
                "network": {"between": "5 Gbit/s"},
            },
            "nodes__n1__site": "a",
            "nodes__n2__site": "b",
            "sites": {"b": {"links": {"a": "4999 Mbit/s"}}, "a": {}},
        },
        lambda s: list(pair(s)),
    ),
    ("power_stays_under_rack_budget", {"racks__r1__power": "7999 W"}, lambda s: []),
    ("power_stays_under_rack_budget", {"workloads__w__each__gpu_power": "800 W"}, lambda s: list(pair(s))),
    ("power_stays_under_node_budget", {"hardware__l__power": "1999 W"}, lambda s: []),
    (
        "power_stays_under_node_budget",
        {"workloads__w__each__gpu_power": "800 W", "hardware__h__power": "4500 W", "racks__r1__power": "99 kW"},
        lambda s: pair(s)[:1],
    ),
    ("states_allow", {"nodes__n1__state": "drain"}, lambda s: [put(s, "free-0", "n1")]),
    ("states_allow", {"nodes__n1__state": "lost"}, lambda s: [put(s, "free-0", "n1")]),
    ("states_allow", {"nodes__n1__state": "cordon"}, lambda s: [put(s, "free-0", "n1")]),
    ("labels_match_select", {ON + "select": {"disk": "slow"}}, lambda s: pair(s)[:1]),
    ("labels_match_select", {ON + "select": {"rack": "r2"}}, lambda s: pair(s)[:1]),
    ("taints_keep_new_work_away", {"nodes__n1__taints": {"for": "a"}}, lambda s: pair(s)[:1]),
    ("taints_keep_new_work_away", {"nodes__n1__taints": {"for": "a"}, ON + "tolerate": {"for": "b"}}, lambda s: pair(s)[:1]),
    (
        "taints_keep_new_work_away",
        {
            "nodes__n1__taints": {"for": {"value": "a", "teams": ["b"]}},
            ON + "tolerate": {"for": "*"},
            "teams__b": {"users": []},
        },
        lambda s: pair(s)[:1],
    ),
    ("replicas_are_spread", {ON + "spread": "node"}, lambda s: pair(s, "n1", "n1")),
    ("replicas_are_spread", {ON + "spread": "rack"}, pair),
    ("replicas_stay_within", {ON + "within": "node"}, pair),
    (
        "replicas_stay_within",
        {"workloads__free__place__within": "rack"},
        lambda s: [put(s, "free-0", "n1"), put(s, "free-1", "n3")],
    ),
    ("replicas_stay_under_per_node", {ON + "per_node": 1}, lambda s: pair(s, "n1", "n1")),
    ("replicas_are_spread", {ON + "spread": "site", "nodes__n1__site": "s", "nodes__n2__site": "s"}, pair),
    ("replicas_stay_within", {ON + "within": "site", "nodes__n1__site": "s"}, pair),
    ("replicas_stay_under_per_rack", {ON + "per_rack": 1}, pair),
    ("replicas_stay_under_per_site", {ON + "per_site": 1, "nodes__n1__site": "s", "nodes__n2__site": "s"}, pair),
    ("replicas_are_balanced", {"workloads__free__place__balance": "rack"}, lambda s: free_on(s, "n1", "n2")),
    (
        "replicas_are_balanced",
        {"workloads__free__place__balance": {"over": "rack", "skew": 2}},
        lambda s: free_on(s, "n1", "n2", "n1"),
    ),
    (
        "replicas_are_balanced",
        {"workloads__free__place__balance": "site", "nodes__n1__site": "s", "nodes__n2__site": "s"},
        lambda s: free_on(s, "n1", "n2"),
    ),
    (
        "replicas_are_balanced",
        {
            "workloads__free__place": {"balance": "rack", "within": "site"},
            **{f"nodes__n{i}__site": "s" for i in (1, 2, 3)},
        },
        lambda s: free_on(s, "n1", "n2"),
    ),
    ("workloads_stay_apart", {ON + "apart": "rack", "workloads__free__place__apart": "node"}, _near),
    (
        "workloads_stay_apart",
        {ON + "apart": "site", "workloads__free__place__apart": "node", "nodes__n1__site": "s", "nodes__n3__site": "s"},
        lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "free-0", "n3")],
    ),
    (
        "workloads_keep_away",
        {ON + "away_from": ["free"]},
        lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "free-0", "n1")],
    ),
    ("workloads_keep_away", {ON + "away_from": {"rack": ["free"]}}, _near),
    (
        "workloads_keep_away",
        {"workloads__free__place__away_from": {"site": ["w"]}, "nodes__n1__site": "s", "nodes__n3__site": "s"},
        lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "free-0", "n3")],
    ),
    ("replicas_have_company", {ON + "only_with": ["free"]}, lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1))]),
    (
        "replicas_have_company",
        {ON + "only_with": ["free"]},
        lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "free-0", "n3")],
    ),
    (
        "replicas_have_company",
        {ON + "only_with": {"rack": ["free"]}},
        lambda s: [put(s, "w-0", "n1", (0, 1), (0, 1)), put(s, "free-0", "n3")],
    ),
    ("gangs_are_whole", {"workloads__w__gang": 3}, pair),
    ("gangs_are_whole", {"workloads__w__gang": 4}, lambda s: [*pair(s), put(s, "w-2", "n9").released()]),
    ("users_stay_under_limit", {"limits__user__gpus": 3}, pair),
    ("users_stay_under_limit", {"limits__user__bandwidth": "1 Gbit/s"}, pair),
    ("users_stay_under_limit", {"limits__user__replicas": 1}, pair),
    ("teams_stay_under_limit", {"limits__team__replicas": 1}, pair),
    ("nodes_stay_under_limit", {"limits__node__replicas": 1}, lambda s: pair(s, "n1", "n1")),
    ("cluster_stays_under_limit", {"limits__cluster__replicas": 1}, pair),
    ("nodes_stay_under_limit", {"limits__node__vcpus": 3}, lambda s: pair(s, "n1", "n1")),
    ("teams_stay_under_limit", {**HALF, "limits__team__gpus": 0.9}, halves),
    ("teams_stay_under_limit", {"teams__a__limits": {"memory": "15 GB"}}, pair),
    ("teams_stay_under_limit", {"limits__team__vcpus": 4, "teams__a__limits": {"vcpus": 3}}, pair),
    ("teams_stay_under_limit", {"teams__a__parent": "lab", "teams__lab": {"limits": {"vcpus": 4}}}, _team_pair),
    ("cluster_stays_under_limit", {"limits__cluster__storage": "150 GB"}, pair),
    ("gpus_stay_under_limit_of_model", {"limits__user__gpus_by_model": {"H100": 3, "L40S": 0}}, pair),
    ("gpus_stay_under_limit_of_model", {"teams__a__limits": {"gpus_by_model": {"H100": 3}}}, pair),
    ("gpus_stay_under_limit_of_model", {**HALF, "limits__cluster__gpus_by_model": {"H100": 0.9}}, halves),
]


def _crowded(row: Resource, there: Capacity) -> tuple[str, dict[str, Any], Any]:
    """Two replicas with 6,000 each on a machine with 10,000; megabytes, since less than a page is none."""
    one = 10**6 if row.unit is Bytes else 1
    has, asks = row.text(10_000 * one), row.text(6_000 * one)
    changes = {f"hardware__h__{there.key}": has, f"workloads__free__{row.key.replace('.', '__')}": asks}
    return there.judged, changes, lambda s: [put(s, f"free-{n}", "n1") for n in range(2)]


_BY_HAND = {case[0] for case in CASES}
CASES += [
    _crowded(row, row.capacity) for row in RESOURCES if row.capacity and row.capacity.judged not in (*_BY_HAND, "")
]  # fmt: skip


def _gone(of: Stack) -> Allocation:
    return put(of, "free-0", "n1").model_copy(update={"workload": "gone"})


@pytest.mark.parametrize(("rule", "changes", "ones"), CASES)
def test_rule_broken_alone_is_told_alone(rule: str, changes: dict[str, Any], ones: Any) -> None:
    of = stack(**changes)
    found = judge(of, Placement(allocations=tuple(ones(of))))
    assert [one.rule for one in found] == [rule]
    assert found[0].text and found[0].subject


def test_every_rule_has_a_case_and_an_equation() -> None:
    assert {case[0] for case in CASES} == NAMES
    assert all(rule.__doc__ and rule.__doc__.startswith("For every") for rule in RULES)


@pytest.mark.parametrize(
    ("gpus", "broken"), [((0, 1), []), ((4, 7), []), ((1, 0), []), ((1, 4), ["gpus_of_a_replica_are_linked"])]
)
def test_a_group_joins_each_two_of_its_gpus_and_no_others(gpus: tuple[int, ...], broken: list[str]) -> None:
    of = stack(**JOINED)
    assert rules(of, put(of, "w-0", "n1", gpus, (0, 1))) == broken
    assert rules(of, put(of, "w-0", "n1", gpus, (0, 1)), kept=frozenset({"w-0"})) == [], "who ran so stays"
    joined = stack(**JOINED | {"hardware__h__links": {"nvlink": "all"}})
    assert rules(joined, put(joined, "w-0", "n1", gpus, (0, 1))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes__n1__state": "drain"},
        {"nodes__n1__state": "lost"},
        {"nodes__n1__state": "cordon"},
        {ON + "select": {"disk": "slow"}},
        {ON + "spread": "node"},
        {ON + "balance": "rack", "hardware__l__gpus": "4 x H100"},
        {"nodes__n1__taints": {"for": "a"}},
        {ON + "numa": "single"},
        {ON + "links": "required"},
        {"limits__user__gpus": 1, "limits__user__memory": "1 GB"},
        {"limits__user__storage": "150 GB"},
        {"limits__node__storage": "150 GB", "limits__cluster__storage": "1 GB"},
        {"limits__user__replicas": 0, "limits__team__replicas": 0, "limits__node__replicas": 0, "limits__cluster__replicas": 0},
        {"hardware__h__nvme": "150 GB"},
        {"workloads__w__gang": 2},
        {"workloads__w__each__scratch": "1 GB"},
    ],
)
def test_files_of_finished_jobs_break_no_rule(changes: dict[str, Any]) -> None:
    of = stack(**changes)
    ends = [put(stack(), f"w-{i}", "n1", (0, 1), (0, 1)).released() for i in range(2)]
    assert rules(of, *ends) == []
    assert rules(of, *(one.model_copy(update={"node": "n9"}) for one in ends)) == [], "and none where their node is gone"


def test_who_comes_finds_the_disk_less_the_files_of_finished_jobs() -> None:
    files = put(stack(), "w-0", "n1").released()
    for changes, rule in (
        ({"hardware__h__nvme": "150 GB"}, "storage_fits_node"),
        ({"limits__user__storage": "150 GB"}, "users_stay_under_limit"),
        ({"limits__node__storage": "150 GB"}, "nodes_stay_under_limit"),
    ):
        assert rules(stack(**changes), files, put(stack(), "w-1", "n1", (0, 1), (0, 1))) == [rule]


def test_what_was_there_may_stay_on_a_cordoned_node() -> None:
    of = stack(nodes__n1__state="cordon")
    assert rules(of, put(of, "free-0", "n1"), kept=frozenset({"free-0"})) == []


def test_what_was_there_may_stay_beside_a_taint_and_what_tolerates_it_may_come() -> None:
    of = stack(nodes__n1__taints={"for": "a"})
    assert rules(of, put(of, "free-0", "n1"), kept=frozenset({"free-0"})) == []
    for value in ("a", "*"):
        of = stack(
            nodes__n1__taints={"for": {"value": "a", "teams": ["a"]}}, workloads__free__place={"tolerate": {"for": value}}
        )
        assert rules(of, put(of, "free-0", "n1")) == []


BALANCED = {"workloads__free__place": {"balance": "rack"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes__n3__state": "drain"},
        {"nodes__n3__state": "cordon"},
        {"nodes__n3__state": "lost"},
        {"nodes__n3__taints": {"for": "a"}},
        {"workloads__free__place": {"balance": "rack", "select": {"rack": "r1"}}},
        {"workloads__free__place": {"balance": "rack", "within": "site"}, "nodes__n3__site": "t"},
        {"workloads__free__each": {"vcpus": 1, "gpus": 1, "gpu_power": "500 W", "memory": "1 GB"}, "hardware__l__gpus": 0},
        {"workloads__free__each": {"vcpus": 1, "gpus": "1 x H100"}},
        {"workloads__free__each": {"vcpus": 1, "gpus": {"count": 1, "memory": "60 GB"}}},
        {"workloads__free__each__vcpus": 9, "hardware__l__vcpus": 8},
        {"workloads__free__each__memory": "40 GB", "hardware__l__memory": "30 GB"},
        {"workloads__free__each__scratch": "300 GB", "hardware__l__nvme": "200 GB"},
        {"workloads__free__network": {"egress": "4 Gbit/s"}, "hardware__l__nic": "3 Gbit/s"},
    ],
)
def test_only_racks_that_could_hold_a_replica_are_compared(changes: dict[str, Any]) -> None:
    """Labels, taints, states, GPUs and sizes: what a machine has too little of if it were empty."""
    of = stack(**BALANCED)
    gpus: tuple[int | str, ...] = (0,) if "gpus" in str(changes) else ()
    assert rules(of, *free_on(of, "n1", "n2")) == ["replicas_are_balanced"]
    of = stack(**BALANCED | changes)
    ones = [put(of, f"free-{i}", node, gpus) for i, node in enumerate(("n1", "n2"))]
    assert rules(of, *ones) == []


def test_what_runs_unevenly_stays_and_nothing_new_comes_to_the_fuller_rack() -> None:
    of = stack(**BALANCED)
    three = free_on(of, "n1", "n2", "n1")
    kept = frozenset(one.name for one in three)
    assert rules(of, *three, kept=kept) == []
    assert rules(of, *three, put(of, "free-3", "n3"), kept=kept) == []
    assert rules(of, *three, put(of, "free-3", "n2"), kept=kept) == ["replicas_are_balanced"]
    found = judge(of, Placement(allocations=(*three, put(of, "free-3", "n2"))), kept=kept)[0]
    assert (found.subject, found.path) == ("free", "workloads.free.place.balance")
    assert excused(of, Placement(allocations=tuple(three)), kept) == kept, "the machines are asked whether they ran there"
    assert excused(of, Placement(allocations=tuple(free_on(of, "n1", "n3"))), kept) == frozenset()
    assert found.text == (
        "4 replicas of free are in the rack r1 and 0 in r2, and it may have 1 more in one rack than in another"
    )


def test_what_ran_keeps_fewer_numa_nodes_than_its_devices_lie_on_and_never_more_memory() -> None:
    of = stack(workloads__free__each__memory="30 GB")
    split = put(of, "w-0", "n1", (3, 4), (0, 1), numa=(0,))
    assert rules(of, split, kept=frozenset({"w-0"})) == []
    full = [put(of, f"free-{i}", "n1", numa=(0,)) for i in range(2)]
    assert rules(of, *full, kept=frozenset({"free-0", "free-1"})) == ["memory_fits_numa"]


def test_memory_that_is_bound_nowhere_may_lie_anywhere() -> None:
    of = stack(workloads__free__each__memory="30 GB")
    assert rules(of, *(put(of, f"free-{i}", "n1", numa=numa) for i, numa in enumerate(((0,), (), (1,))))) == []


def test_expired_exception_blocks_growth_and_never_evicts() -> None:
    day = {"user": "ada", "gpus": 4, "until": "2026-05-31", "reason": "paper"}
    of = stack(limits={"user": {"gpus": 2}, "except": [day]})
    before, after = datetime.date(2026, 5, 31), datetime.date(2026, 6, 1)
    assert rules(of, *pair(of), today=before) == []
    assert rules(of, *pair(of), today=after) == ["users_stay_under_limit"]
    assert rules(of, *pair(of), today=after, held={"w-0": amounts(pair(of)[0])}) == ["users_stay_under_limit"]
    assert rules(of, *pair(of), today=after, held={one.name: amounts(one) for one in pair(of)}) == []


@pytest.mark.parametrize("level", ["user", "team", "cluster"])
def test_a_lowered_limit_blocks_growth_and_never_evicts(level: str) -> None:
    of = stack(limits={level: {"gpus": 2}})
    rule = {
        "user": "users_stay_under_limit",
        "team": "teams_stay_under_limit",
        "cluster": "cluster_stays_under_limit",
    }[level]
    assert rules(of, *pair(of)) == rules(of, *pair(of), held={"w-1": amounts(pair(of)[1])}) == [rule]
    held = {one.name: amounts(one) for one in pair(of)}
    assert rules(of, *pair(of), held=held) == []
    assert rules(of, *pair(of), held={**held, "w-0": (1, *held["w-0"][1:])}) == [rule], "it held one less"


def test_limits_on_a_model_count_where_a_replica_runs() -> None:
    """And what ran on the model before may stay, whichever of its workload's replicas it is now."""
    of = stack(workloads__free__each={"gpus": 2, "vcpus": 1}, limits__user__gpus_by_model={"H100": 2})
    both, apart = ([put(of, "free-0", "n1", (0, 1)), put(of, "free-1", node, (2, 3))] for node in ("n1", "n3"))
    assert rules(of, *apart) == [], "two GPUs are on H100, and two on L40S"
    assert rules(of, *both) == ["gpus_stay_under_limit_of_model"]
    held = {one.name: amounts(one) for one in both}
    assert rules(of, *both, held=held) == ["gpus_stay_under_limit_of_model"], "nobody knows where it ran"
    assert rules(of, *both, held=held, ran={one.name: one.node for one in both}) == []
    assert rules(of, *both, held=held, ran={"free-0": "n1", "free-1": "n3"}) == ["gpus_stay_under_limit_of_model"]
    assert rules(of, *both, held=held, ran={"free-0": "n1", "free-1": "gone"}) == ["gpus_stay_under_limit_of_model"]


def test_an_exception_for_a_model_counts_until_its_day() -> None:
    day = {"user": "ada", "gpus_by_model": {"H100": 4}, "until": "2026-05-31", "reason": "paper"}
    of = stack(limits={"user": {"gpus_by_model": {"H100": 2}}, "except": [day]})
    assert rules(of, *pair(of), today=datetime.date(2026, 5, 31)) == []
    assert rules(of, *pair(of), today=datetime.date(2026, 6, 1)) == ["gpus_stay_under_limit_of_model"]


def test_what_is_used_of_a_model_is_a_row_wherever_a_limit_names_it() -> None:
    of = stack(limits__user__gpus_by_model={"H100": 2})
    rows = {
        (one.level, one.subject): one for one in usage(of, Placement(allocations=tuple(pair(of)))) if "H100" in one.resource
    }
    assert {key: (one.used_text, one.ceiling_text) for key, one in rows.items()} == {
        ("user", "ada"): ("4", "2"),
        ("user", "bo"): ("0", "2"),
        ("cluster", "lab"): ("4", ""),
    }


def _nested(**limits: Any) -> Stack:
    """ada in a, bo in b; both are inside lab, and lab is inside all."""
    teams = {
        "a": {"users": ["ada"], "parent": "lab"},
        "b": {"users": ["bo"], "parent": "lab"},
        "lab": {"parent": "all"},
        "all": {},
    }
    return stack(teams={name: team | ({"limits": limits[name]} if name in limits else {}) for name, team in teams.items()})


@pytest.mark.parametrize("team", ["lab", "all"])
def test_a_team_holds_what_the_teams_inside_it_hold(team: str) -> None:
    for most, wrong in ((4, True), (5, False)):
        of = _nested(**{team: {"vcpus": most}})
        found = judge(of, Placement(allocations=tuple(_team_pair(of))))
        assert [(one.rule, one.subject, one.path) for one in found] == [
            ("teams_stay_under_limit", team, f"teams.{team}.limits.vcpus")
        ] * wrong


def test_an_exception_of_a_team_counts_until_its_day() -> None:
    day = {"team": "a", "gpus": 4, "until": "2026-05-31", "reason": "paper"}
    of = stack(limits={"team": {"gpus": 2}, "except": [day]})
    assert rules(of, *pair(of), today=datetime.date(2026, 5, 31)) == []
    assert rules(of, *pair(of), today=datetime.date(2026, 6, 1)) == ["teams_stay_under_limit"]


@pytest.mark.parametrize(
    "teams",
    [
        {"b": {"users": ["ada", "bo"], "limits": {"gpus": 2}}},
        {"a": {"users": ["bo"]}, "b": {"users": ["ada"], "limits": {"gpus": 2}}},
        {"a": {"users": ["ada", "bo"], "parent": "lab"}, "lab": {"limits": {"gpus": 2}}},
    ],
)
def test_who_changes_teams_counts_in_the_new_one_at_once(teams: dict[str, Any]) -> None:
    """Renamed, moved, or under another parent: nobody is evicted, and nothing is added until enough is released there."""
    of = stack(teams=teams)
    held = {one.name: amounts(one) for one in pair(of)}
    assert rules(of, *pair(of), held=held) == []
    assert rules(of, *pair(of), held={"w-0": held["w-0"]}) == ["teams_stay_under_limit"]


def test_teams_inside_each_other_in_a_circle_are_limited_all_the_same() -> None:
    """No stack file has them; a request that some other program sends may."""
    of = stack(teams={"a": {"users": ["ada", "bo"], "parent": "b"}, "b": {"parent": "a", "limits": {"gpus": 3}}})
    assert rules(of, *pair(of)) == ["teams_stay_under_limit"]


def test_gang_is_whole_or_absent() -> None:
    of = stack(workloads__w__gang=2)
    assert rules(of, *pair(of)) == []
    assert rules(of) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 of 4 members of w is placed, and a gang runs whole or not at all"),
        (2, "2 of 4 members of w are placed, and a gang runs whole or not at all"),
    ],
)
def test_a_sentence_about_one_is_not_in_the_plural(count: int, text: str) -> None:
    of = stack(workloads__w__gang=4)
    assert [one.text for one in judge(of, Placement(allocations=pair(of)[:count]))] == [text]


def test_usage_counts_users_nodes_and_the_cluster() -> None:
    of = stack(limits__user__gpus=16)
    rows = {(row.level, row.subject, row.resource): row for row in usage(of, Placement(allocations=pair(of)))}
    assert (rows["user", "ada", "gpus"].used, rows["user", "ada", "gpus"].ceiling) == (4000, 16_000)
    assert rows["node", "n1", "memory"].used_text == "10 GB"
    assert rows["cluster", "lab", "bandwidth"].used_text == "2 Gbit/s"
    assert rows["user", "bo", "vcpus"].used == 0
    assert rows["cluster", "lab", "vcpus"].ceiling_text == ""


def test_usage_of_what_is_limited_is_the_part_of_it_that_has_a_ceiling() -> None:
    limits = {"user": {"gpus": 16, "gpus_by_model": {"H100": 2}}, "node": {"memory": "1 TB"}, "cluster": {"vcpus": 900}}
    of = stack(limits=limits)
    placed = Placement(allocations=pair(of))
    found = usage(of, placed, limited=True)
    assert found == tuple(row for row in usage(of, placed) if row.ceiling is not None)
    assert {row.level for row in found} == {"user", "node", "cluster"}
