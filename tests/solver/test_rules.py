"""Is every rule kept, alone and beside every other? Tiny fleets with one or two rules in play, each placement enumerated.

A rule for each row of the table and each level that bounds it: a row that is new is tried here by itself.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from swarm_iac.model.resources.row import Resource
from swarm_iac.model.stack import Stack
from swarm_iac.solver.snapshot.layout import CLUSTER, NODE, RACK, TEAMS, USER, Budget
from tests.solver.fleets import GROUPED, asking, limiting, stack_of, with_all
from tests.solver.oracle import as_large, check_change, check_exact, check_fill

Wishes = dict[str, dict[str, Any]]
#: (fleet: nodes, workloads, and the rest by key) is changed so that the rule binds.
Rule = Callable[[random.Random, dict[str, Any]], None]


def _each(key: str, *values: Any) -> Rule:
    """What one replica asks for, drawn for two workloads of three."""

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        for name in rng.sample(sorted(fleet["workloads"]), 2):
            fleet["workloads"][name]["each"][key] = rng.choice(values)

    return rule


def _request(key: str, *values: Any) -> Rule:
    """A wish of one workload."""

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        request = fleet["workloads"][rng.choice(sorted(fleet["workloads"]))]
        request[key] = request.get(key, {}) | value if isinstance(value := rng.choice(values), dict) else value

    return rule


def _requests(row: Resource, *counts: int) -> Rule:
    """So much of one resource, drawn for two workloads of three."""

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        for name in rng.sample(sorted(fleet["workloads"]), 2):
            fleet["workloads"][name] = asking(fleet["workloads"][name], row, rng.choice(counts))

    return rule


def _limit(budget: Budget) -> Rule:
    """A limit for users, teams, nodes or the cluster on what two workloads of three ask for more of."""
    row = budget.row
    assert row is not None

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        _requests(row, 1, 2)(rng, fleet)
        levels = fleet.setdefault("limits", {})
        if budget.level == "team":
            _teams(rng, fleet, budget)
            return
        levels[budget.level] = levels.get(budget.level, {}) | limiting(budget.key, rng.choice([2, 3, 4]))

    return rule


def _lab(fleet: dict[str, Any]) -> dict[str, Any]:
    """ada and bo in two teams inside a third one."""
    teams = {"a": {"users": ["ada"], "parent": "lab"}, "b": {"users": ["bo"], "parent": "lab"}, "lab": {}}
    found: dict[str, Any] = fleet.setdefault("teams", teams)
    return found


def _teams(rng: random.Random, fleet: dict[str, Any], budget: Budget) -> None:
    """One of the two teams has limits, or both and the one around them."""
    outer = _lab(fleet)
    for name, most in (("lab", 5), ("a", 4), ("b", 4)) if budget.depth == 2 else ((rng.choice("ab"), 3),):
        limits = outer[name].get("limits", {})
        outer[name]["limits"] = limits | limiting(budget.key, rng.choice([most - 1, most]))


def _by_model(rng: random.Random, fleet: dict[str, Any]) -> None:
    """A limit on GPUs of one model, of some level, and two workloads of three that ask for more of it or may avoid it."""
    gpus = rng.sample([1, 2, "1 x H100", "1 x H100|L40S", "2 x L40S|H100"], 2)
    for name, asked in zip(rng.sample(sorted(fleet["workloads"]), 2), gpus, strict=True):
        request = fleet["workloads"][name]
        request["each"] = request["each"] | {"gpus": asked}
    level, levels = rng.choice(["user", "team", "cluster"]), fleet.setdefault("limits", {})
    models = {rng.choice(["H100", "L40S"]): rng.choice([0, 1, 2])}
    levels[level] = levels.get(level, {}) | {"gpus_by_model": models}
    _lab(fleet)


def _gang(rng: random.Random, fleet: dict[str, Any]) -> None:
    request = fleet["workloads"][rng.choice(sorted(fleet["workloads"]))]
    request.pop("replicas", None)
    request["gang"] = 2


def _site_links(rng: random.Random, fleet: dict[str, Any]) -> None:
    """Two sites, a rack each, and gangs whose members send each other more than the link carries for all of them."""
    fleet["sites"] = {"s1": {}, "s2": {"links": {"s1": f"{rng.choice([0, 1, 2, 3, 4])} Gbit/s"}}}
    for node in fleet["nodes"].values():
        node["site"] = node["rack"].replace("r", "s")
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        request = fleet["workloads"][name]
        request.pop("replicas", None)
        request["gang"] = rng.choice([2, 2, 3])
        request["network"] = request.get("network", {}) | {"between": f"{rng.choice([1, 2])} Gbit/s"}


def _uplink(budget: Budget) -> Rule:
    """Traffic in racks of which one has an uplink."""
    row = budget.row
    assert row is not None

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        _requests(row, 4, 6)(rng, fleet)
        fleet["racks"]["r1"]["uplink"] = "8 Gbit/s"

    return rule


def _power(rng: random.Random, fleet: dict[str, Any]) -> None:
    cards = sum(int(HARDWARE[one["hardware"]]["gpus"].split()[0]) for one in fleet["nodes"].values() if one["rack"] == "r1")
    fleet["racks"]["r1"]["power"] = f"{max(rng.choice([3200, 3600]), 300 * cards)} W"
    fleet["tuning"] = {"cool": {"gpu_power": rng.choice(["300 W", "300..500 W"])}}
    for node in fleet["nodes"].values():
        node["tuning"] = "cool"
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        fleet["workloads"][name]["each"]["gpu_power"] = rng.choice(["400 W", "700 W"])


def _node_power(rng: random.Random, fleet: dict[str, Any]) -> None:
    """Machines whose budget carries one workload, or two, that bring a limit; their GPUs are limited differently."""
    fleet.setdefault("tuning", {}).update({"cool": {"gpu_power": "300 W"}, "warm": {"gpu_power": "350..500 W"}})
    for node in fleet["nodes"].values():
        node["tuning"] = rng.choice(["cool", "warm"])
    shapes = fleet.setdefault("shapes", {})
    for shape, cards in (("small", 2), ("large", 4)):
        shapes[shape] = {"power": f"{350 * cards + rng.choice([0, 110, 350, 400, 800])} W"}
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        fleet["workloads"][name]["each"]["gpu_power"] = rng.choice(["400 W", "700 W"])
    for rack in fleet["racks"].values():
        if "power" in rack:
            rack["power"] = "4 kW"


def _numa(rng: random.Random, fleet: dict[str, Any]) -> None:
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        request = fleet["workloads"][name]
        request["each"] = request["each"] | {"gpus": rng.choice([1, 2]), "pinned": rng.choice([True, False])}
        request["place"] = request.get("place", {}) | {"numa": "single"}


def _links(rng: random.Random, fleet: dict[str, Any]) -> None:
    """Some of two or three GPUs that are joined, on machines whose groups lie across NUMA nodes."""
    fleet["links"] = rng.choice([[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2]], [[1, 2, 3]], "all"])
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        request = fleet["workloads"][name]
        request["each"] = request["each"] | {"gpus": rng.choice([2, 2, 3]), "pinned": rng.choice([True, False])}
        request["place"] = request.get("place", {}) | {"links": "required"}


def _state(rng: random.Random, fleet: dict[str, Any]) -> None:
    fleet.setdefault("after", {})[rng.choice(sorted(fleet["nodes"]))] = {"state": rng.choice(["cordon", "drain", "lost"])}


def _taints(rng: random.Random, fleet: dict[str, Any]) -> None:
    """Some nodes are tainted from the start, some later; some taints are reserved, and some workloads tolerate them."""
    _lab(fleet)
    taints = ({"for": "a"}, {"for": "b"}, {"for": {"value": "a", "teams": ["b"]}}, {"for": "a", "fan": "yes"})
    later = fleet.setdefault("after", {})
    for name in rng.sample(sorted(fleet["nodes"]), 2):
        (fleet["nodes"][name] if rng.random() < 0.5 else later.setdefault(name, {}))["taints"] = rng.choice(taints)
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        request = fleet["workloads"][name]
        tolerate = rng.choice([{"for": "a"}, {"for": "*"}, {"for": "*", "fan": "*"}])
        request["place"] = request.get("place", {}) | {"tolerate": tolerate}


def _away_from(rng: random.Random, fleet: dict[str, Any]) -> None:
    for name in rng.sample(sorted(fleet["workloads"]), rng.choice([1, 2])):
        others = sorted({"w0", "w2"} - {name})  # those that are there before and after
        away = {rng.choice(["node", "node", "rack", "site"]): rng.sample(others, 1)}
        fleet["workloads"][name]["place"] = fleet["workloads"][name].get("place", {}) | {"away_from": away}


def _prefer_apart(rng: random.Random, fleet: dict[str, Any]) -> None:
    level = rng.choice(["node", "rack", "site"])
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        fleet["workloads"][name]["place"] = fleet["workloads"][name].get("place", {}) | {"prefer_apart": level}


def _with(key: str) -> Rule:
    def drawn(rng: random.Random, fleet: dict[str, Any]) -> None:
        for name in rng.sample(sorted(fleet["workloads"]), rng.choice([1, 2])):
            others = rng.sample(sorted({"w0", "w2"} - {name}), 1)  # those that are there before and after
            liked = {rng.choice(["node", "node", "rack", "site"]): others}
            fleet["workloads"][name]["place"] = fleet["workloads"][name].get("place", {}) | {key: liked}

    return drawn


def _movable(rng: random.Random, fleet: dict[str, Any]) -> None:
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        fleet["workloads"][name]["movable"] = False


#: A team, and one around it.
TEAM = (*TEAMS[0], *TEAMS[1])
#: What a machine of HARDWARE has too little of for all, in ONE; pinned cores are asked for in another way.
MUCH = {"gpus": (2, 3, 4), "vcpus": (3, 5), "memory": (7, 9), "storage": (90, 120), "egress": (4, 6), "ingress": (4, 6)}
ON_NODES: dict[str, Rule] = {
    one.rule: _each("pinned", True) if one.row.part_of else _requests(one.row, *MUCH.get(one.row.name, (5, 7)))
    for one in NODE
    if one.row and one.level == "machine"
}
#: One for each budget of a row of the table.
BUDGETS: dict[str, Rule] = {
    **ON_NODES,
    **{one.rule: _limit(one) for one in (*NODE, *USER, *TEAM, *CLUSTER) if one.row and one.rule not in ON_NODES},
    **{one.rule: _uplink(one) for one in RACK if one.row},
}
RULES: dict[str, Rule] = {
    "parts_fit_cards": _each("gpus", *({"count": 1, "share": share / 1000} for share in (300, 500, 600, 700))),
    "power_stays_under_rack_budget": _power,
    "power_stays_under_node_budget": _node_power,
    **{name: _request("place", *places) for name, places in GROUPED.items()},
    "single_fits_numa_node": _numa,
    "replicas_fit_link_groups": _links,
    "gang_is_whole_or_absent": _gang,
    "links_carry_gangs": _site_links,
    "selector_matches": _request("place", {"select": {"zone": "a"}}),
    "taints_are_tolerated": _taints,
    "away_from_keeps_off": _away_from,
    "prefer": _request("place", {"prefer": {"zone": "a"}}, {"prefer": {"zone": "b", "rack": "r1"}}),
    "near": _request("place", {"near": "rack"}, {"near": "site"}),
    "prefer_apart": _prefer_apart,
    "prefer_with": _with("prefer_with"),
    "company_is_near": _with("only_with"),
    "immovable_stay": _movable,
    "models_stay_under_limits": _by_model,
    "gpu_model_matches": _each("gpus", "2 x H100", "1 x L40S", "1 x H100"),
    "gpu_memory_suffices": _each("gpus", {"count": 1, "memory": "60 GB"}, {"count": 2, "memory": "60 GB"}),
    "node_is_ready": _state,
}
#: All rules; those that bound many resources by one name (limits) are one here, and draw the resource.
TOLD: dict[str, list[str]] = {name: [name] for name in RULES}
for one in (*NODE, *USER, *TEAM, *CLUSTER, *RACK):
    if one.rule in BUDGETS:
        TOLD.setdefault(one.shown_as, []).append(one.rule)
#: Which of two rules is drawn first, where only one order is.
TOLD_ORDER = {name: i for i, name in enumerate(TOLD)}
HARDWARE: Wishes = with_all(
    {
        "small": {"gpus": "2 x L40S", "vcpus": 4, "memory": "8 GB", "nvme": "100 GB", "nic": "10 Gbit/s"},
        "large": {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "nvme": "200 GB", "nic": "10 Gbit/s", "numa": 2},
    }
)
#: Fleets for each rule alone and for each pair.
FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
ALONE, PAIRS = (12, 3) if FULL else (2, 1)


def fleet_of(names: tuple[str, ...], seed: int) -> tuple[Stack, Stack]:
    """The stack of before, and one in which states changed and a workload is new; the rules `names` are in play."""
    rng = random.Random(f"{names} {seed}")
    fleet: dict[str, Any] = {
        "nodes": {
            f"n{i}": {"hardware": rng.choice(sorted(HARDWARE)), "rack": rng.choice(["r1", "r2"]), "labels": {"zone": zone}}
            for i, zone in enumerate(rng.choices("ab", k=rng.choice([2, 3])))
        },
        "workloads": {
            f"w{i}": {
                "user": rng.choice(["ada", "bo"]),
                "priority": rng.choice(["low", "normal", "normal", "high"]),
                "replicas": rng.choice([1, 2, 2]),
                "each": {"gpus": rng.choice([1, 1, 2]), "vcpus": rng.choice([1, 2]), "memory": "2 GB"},
            }
            for i in range(3)
        },
        "racks": {"r1": {}, "r2": {}},
    }
    sites = random.Random(f"sites {names} {seed}")
    for rack in ("r1", "r2"):
        site = sites.choice([{}, {"site": "s1"}, {"site": "s2"}])
        for node in fleet["nodes"].values():
            node.update(site if node["rack"] == rack else {})
    for name in names:
        (RULES | BUDGETS)[rng.choice(TOLD.get(name, [name]))](rng, fleet)
    nodes, works = fleet["nodes"], fleet["workloads"]
    rest = {key: value for key, value in fleet.items() if key in ("racks", "sites", "limits", "tuning", "teams")}
    joined = {"large": HARDWARE["large"] | {"links": {"nvlink": fleet["links"]}}} if "links" in fleet else {}
    shapes = {name: shape | fleet.get("shapes", {}).get(name, {}) for name, shape in (HARDWARE | joined).items()}
    rest |= {"hardware": shapes, "solve": {"moves": rng.choice([0, 1, 4])}}
    after = {name: node | fleet.get("after", {}).get(name, {}) for name, node in nodes.items()}
    before = stack_of(nodes, {name: request for name, request in works.items() if name != "w1"}, **rest)
    return before, stack_of(after, works, **rest)


@pytest.mark.parametrize("name", [*RULES, *BUDGETS])
def test_rule_alone(name: str) -> None:
    for seed in range(ALONE):
        before, now = fleet_of((name,), seed)
        check_exact(before, now)
        check_fill(as_large, now)
        check_change(as_large, before, now)


@pytest.mark.parametrize("name", TOLD)
def test_rule_beside_every_other(name: str) -> None:
    for other in TOLD:
        for seed in range(PAIRS) if name < other else ():
            pair = (name, other) if TOLD_ORDER[name] % 2 == TOLD_ORDER[other] % 2 else (other, name)
            check_exact(*fleet_of(pair, seed))
            if FULL:
                check_exact(*fleet_of(pair[::-1], seed))


@pytest.mark.slow
@pytest.mark.parametrize("one,other", list(itertools.combinations(RULES, 2)))
def test_pair_of_rules_on_both_paths(one: str, other: str) -> None:
    for seed in range(10, 20):
        before, now = fleet_of((one, other), seed)
        check_exact(before, now)
        check_fill(as_large, now)
        check_change(as_large, before, now)
