"""Is every rule kept, alone and beside every other? Tiny fleets with one or two rules in play, each placement enumerated."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from swarm_iac.model.stack import Stack
from tests.solver.fleets import stack_of
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


def _wish(key: str, *values: Any) -> Rule:
    """A wish of one workload."""

    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        wish = fleet["workloads"][rng.choice(sorted(fleet["workloads"]))]
        wish[key] = wish.get(key, {}) | value if isinstance(value := rng.choice(values), dict) else value

    return rule


def _limit(level: str, *values: dict[str, Any]) -> Rule:
    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        fleet["limits"] = fleet.get("limits", {}) | {level: fleet.get("limits", {}).get(level, {}) | rng.choice(values)}

    return rule


def _gang(rng: random.Random, fleet: dict[str, Any]) -> None:
    wish = fleet["workloads"][rng.choice(sorted(fleet["workloads"]))]
    wish.pop("replicas", None)
    wish["gang"] = 2


def _traffic(way: str, uplink: str | None) -> Rule:
    def rule(rng: random.Random, fleet: dict[str, Any]) -> None:
        for name in rng.sample(sorted(fleet["workloads"]), 2):
            wish = fleet["workloads"][name]
            wish["network"] = wish.get("network", {}) | {way: rng.choice(["4 Gbit/s", "6 Gbit/s"])}
        if uplink:
            fleet["racks"]["r1"]["uplink"] = uplink

    return rule


def _power(rng: random.Random, fleet: dict[str, Any]) -> None:
    fleet["racks"]["r1"]["power"] = rng.choice(["3200 W", "3600 W"])
    fleet["tuning"] = {"cool": {"gpu_power": "300 W"}}
    for node in fleet["nodes"].values():
        node["tuning"] = "cool"
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        fleet["workloads"][name]["each"]["gpu_power"] = rng.choice(["400 W", "700 W"])


def _numa(rng: random.Random, fleet: dict[str, Any]) -> None:
    for name in rng.sample(sorted(fleet["workloads"]), 2):
        wish = fleet["workloads"][name]
        wish["each"] = wish["each"] | {"gpus": rng.choice([1, 2]), "pinned": rng.choice([True, False])}
        wish["place"] = wish.get("place", {}) | {"numa": "single"}


def _state(rng: random.Random, fleet: dict[str, Any]) -> None:
    fleet["after"] = {rng.choice(sorted(fleet["nodes"])): {"state": rng.choice(["cordon", "drain", "lost"])}}


RULES: dict[str, Rule] = {
    "gpus_fit_node": _each("gpus", 2, 3, 4),
    "parts_fit_cards": _each("gpus", *({"count": 1, "share": share} for share in (300, 500, 600, 700))),
    "vcpus_fit_node": _each("vcpus", 3, 5),
    "cores_fit_node": _each("pinned", True),
    "memory_fits_node": _each("memory", "7 GB", "9 GB"),
    "storage_fits_node": _each("scratch", "90 GB", "120 GB"),
    "egress_fits_nic": _traffic("egress", None),
    "ingress_fits_nic": _traffic("ingress", None),
    "node_stays_under_limits": _limit("node", {"gpus": 3}, {"vcpus": 4}, {"memory": "8 GB"}, {"bandwidth": "5 Gbit/s"}),
    "egress_fits_uplink": _traffic("egress", "8 Gbit/s"),
    "ingress_fits_uplink": _traffic("ingress", "8 Gbit/s"),
    "power_stays_under_rack_budget": _power,
    "user_stays_under_limits": _limit("user", {"gpus": 2}, {"vcpus": 4}, {"memory": "6 GB"}),
    "cluster_stays_under_limits": _limit("cluster", {"gpus": 4}, {"vcpus": 6}, {"storage": "100 GB"}),
    "spread_keeps_apart": _wish("place", {"spread": "node"}, {"spread": "rack"}),
    "within_keeps_together": _wish("place", {"within": "node"}, {"within": "rack"}),
    "single_fits_numa_node": _numa,
    "gang_is_whole_or_absent": _gang,
    "selector_matches": _wish("place", {"select": {"zone": "a"}}),
    "gpu_model_matches": _each("gpus", "2 x H100", "1 x L40S", "1 x H100"),
    "gpu_memory_suffices": _each("gpus", {"count": 1, "memory": "60 GB"}, {"count": 2, "memory": "60 GB"}),
    "node_is_ready": _state,
}
HARDWARE: Wishes = {
    "small": {"gpus": "2 x L40S", "vcpus": 4, "memory": "8 GB", "nvme": "100 GB", "nic": "10 Gbit/s"},
    "large": {"gpus": "4 x H100", "vcpus": 8, "memory": "16 GB", "nvme": "200 GB", "nic": "10 Gbit/s", "numa": 2},
}
#: Fleets for each rule alone and for each pair.
ALONE, PAIRS = (12, 3) if os.environ.get("HYPOTHESIS_PROFILE") == "full" else (4, 1)


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
    for name in names:
        RULES[name](rng, fleet)
    nodes, works = fleet["nodes"], fleet["workloads"]
    rest = {key: value for key, value in fleet.items() if key in ("racks", "limits", "tuning")}
    rest |= {"hardware": HARDWARE, "solve": {"moves": rng.choice([0, 1, 4])}}
    after = {name: node | fleet.get("after", {}).get(name, {}) for name, node in nodes.items()}
    before = stack_of(nodes, {name: wish for name, wish in works.items() if name != "w1"}, **rest)
    return before, stack_of(after, works, **rest)


@pytest.mark.parametrize("name", RULES)
def test_rule_alone(name: str) -> None:
    for seed in range(ALONE):
        before, now = fleet_of((name,), seed)
        check_exact(before, now)
        check_fill(as_large, now)
        check_change(as_large, before, now)


@pytest.mark.parametrize("name", RULES)
def test_rule_beside_every_other(name: str) -> None:
    for other in RULES:
        for seed in range(PAIRS) if name < other else ():
            check_exact(*fleet_of((name, other), seed))
            check_exact(*fleet_of((other, name), seed))


@pytest.mark.slow
@pytest.mark.parametrize("one,other", list(itertools.combinations(RULES, 2)))
def test_pair_of_rules_on_both_paths(one: str, other: str) -> None:
    for seed in range(10, 20):
        before, now = fleet_of((one, other), seed)
        check_exact(before, now)
        check_fill(as_large, now)
        check_change(as_large, before, now)
