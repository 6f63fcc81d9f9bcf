"""Does a large fill keep priorities strictly, and still use what is left?"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import level_bounds
from swarm_iac.solver.decide import large
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.benchmarks.scale import fleet
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, check_fill, still
from tests.solver.test_oracle import HARDWARE


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(3))
def test_low_priority_gets_what_is_left_and_nothing_that_a_higher_one_could_use(seed: int) -> None:
    """High and normal ask for about four fifths of the GPUs, all together for more than there are."""
    rng = random.Random(seed)
    nodes: dict[str, dict[str, Any]] = {f"n{i:03d}": {"hardware": rng.choice(["h100", "h100", "l40s"])} for i in range(120)}
    total = sum(8 if node["hardware"] == "h100" else 4 for node in nodes.values())
    requests: dict[str, dict[str, Any]] = {}
    for i in range(45):
        gpus: Any = rng.choice([1, 1, 2, 3, 4, {"count": 1, "share": rng.choice([0.3, 0.5, 0.7])}])
        size = gpus["share"] if isinstance(gpus, dict) else gpus
        requests[f"w{i:02d}"] = {
            "priority": ("high", "normal", "low")[i % 3],
            "replicas": max(1, round((0.25, 0.5, 0.6)[i % 3] * total / 15 / size)),
            "each": {"gpus": gpus, "vcpus": max(1, round(size * rng.choice((3, 6, 10, 15, 22, 28)))), "memory": "32 GB"},
        }
    stack = stack_of(nodes, requests)
    solution = solve(stack)
    assert judge(stack, solution.placement) == ()
    goals = {goal.name: goal for goal in solution.proof.goals}
    for level in ("high", "normal"):
        assert goals[f"{level}_placed_gpu_milli"].value == goals[f"{level}_placed_gpu_milli"].bound
    low = goals["low_placed_gpu_milli"]
    assert low.bound - low.value <= 0.02 * 1000 * total


def test_no_node_is_open_and_what_runs_there_has_grown() -> None:
    """Both stand on a cordoned node and do not fit beside each other any more. There was no shape of an open node to bound."""
    runs = {"stays": {"priority": "high", "each": {"gpus": 2}}, "grows": {"each": {"gpus": 1}}}
    last = solve(stack_of({"n": {"hardware": "l40s"}}, runs)).placement
    stack = stack_of({"n": {"hardware": "l40s", "state": "cordon"}}, runs | {"grows": {"each": {"gpus": 4}}})
    solution = as_large(stack, last)
    assert judge(stack, solution.placement, **still(solution.placement, last)) == ()
    assert [a.name for a in solution.placement.allocations] == ["stays-0"]
    assert [one.workload for one in solution.placement.unplaced] == ["grows"]


def test_what_may_stay_on_a_cordoned_node_takes_no_room_elsewhere_in_a_bound() -> None:
    """High stands on the cordoned node. Normal takes the other one, for which a low one stops."""
    runs = {"high": {"priority": "high", "each": {"gpus": 4}}, "low": {"priority": "low", "each": {"gpus": 4}}}
    nodes = {"a": {"hardware": "l40s"}, "b": {"hardware": "l40s"}}
    last = solve(stack_of(nodes, runs)).placement
    home = last.by_name()["high-0"].node
    nodes[home]["state"] = "cordon"
    stack = stack_of(nodes, runs | {"normal": {"priority": "normal", "each": {"gpus": 4}}})
    solution = as_large(stack, last)
    assert {a.workload: a.node for a in solution.placement.allocations} == {"high": home, "normal": ({"a", "b"} - {home}).pop()}
    assert [goal.bound for goal in solution.proof.goals if goal.name == "normal_placed_gpus"] == [4]


def test_a_bandwidth_that_just_two_want_is_no_trouble_for_the_columns() -> None:
    """In bits per second beside counts of replicas it once ended the linear program as imprecise, and the solve in an error."""
    works: dict[str, dict[str, Any]] = {
        "w0": {"user": "bo", "each": {"gpus": 2, "vcpus": 1, "memory": "1 GB"}, "network": {"egress": "4 Gbit/s"}},
        "w1": {
            "user": "bo",
            "each": {"gpus": 3, "vcpus": 2, "memory": "1 GB"},
            "network": {"egress": "4 Gbit/s"},
            "replicas": 2,
        },
    }
    rest: dict[str, Any] = {
        "hardware": HARDWARE,
        "racks": {"r1": {"uplink": "8 Gbit/s"}, "r2": {}},
        "limits": {"user": {"bandwidth": "4 Gbit/s"}, "node": {"gpus": 3}},
    }
    check_fill(as_large, stack_of({"n0": {"hardware": "large", "rack": "r1"}}, works, **rest))


@pytest.mark.engine
def test_a_small_fleet_is_filled_no_worse_than_a_large_one() -> None:
    """One model of 88 nodes and parts of GPUs left a tenth of them empty; columns fill them all, and so begins the search."""
    stack = fleet(400, 60, 2)
    solution = solve(stack.model_copy(update={"solve": stack.solve.model_copy(update={"effort": "quick"})}))
    assert judge(stack, solution.placement) == ()
    (gpus,) = [goal for goal in solution.proof.goals if goal.name.endswith("_placed_gpu_milli")]
    assert len(stack.nodes) < 100 and gpus.value == gpus.bound


def test_who_keeps_apart_stands_beside_those_who_gain_as_much() -> None:
    """Pricing left him out, since others of his size were there: one of them, on a node for two. The bound was too low."""
    requests = {
        "one": {"each": {"gpus": 2}},
        "two": {"each": {"gpus": 2}, "replicas": 2, "place": {"spread": "node"}},
    }
    stack = stack_of({"n": {"hardware": "l40s"}}, requests)
    snapshot = snapshot_of(stack, Placement())
    assert level_bounds(snapshot, Counter(), possible(snapshot), "normal", TimeLimit()).together == {1: 4000}


def test_replicas_of_two_workloads_that_few_may_be_on_a_node_of_all_find_a_place() -> None:
    """Those of one were handed out first, as many as a node may have, and the last node could not be filled."""
    hardware = {f"h{n}": {"gpus": f"{n} x H100", "vcpus": 64, "memory": "512 GB"} for n in (1, 2, 4)}
    nodes = {f"n{i}": {"hardware": f"h{n}"} for i, n in enumerate((1, 1, 4, 2, 4))}
    works = {f"w{i}": {"replicas": n, "each": {"gpus": 1}, "place": {"per_node": 2}} for i, n in enumerate((6, 5))}
    assert len(as_large(stack_of(nodes, works, hardware=hardware)).placement.going()) == 11


def test_nothing_new_comes_to_a_cordoned_node_beside_what_had_to_change_there() -> None:
    """What was placed there already was counted again as what may stay: a third replica came."""
    hardware = {
        "a": {"gpus": "4 x H100", "vcpus": 32, "memory": "256 GB"},
        "b": {"gpus": "2 x L40S", "vcpus": 16, "memory": "128 GB"},
    }
    before = solve(
        stack_of({"n4": {"hardware": "a"}}, {"w0": {"replicas": 2, "each": {"gpus": 2}}}, hardware=hardware)
    ).placement
    works = {"w0": {"priority": "high", "replicas": 3, "each": {"gpus": 1}}, "w1": {"priority": "high", "each": {"gpus": 2}}}
    now = stack_of({"n2": {"hardware": "b"}, "n4": {"hardware": "a", "state": "cordon"}}, works, hardware=hardware)
    found = as_large(now, before).placement
    assert judge(now, found, kept=frozenset(("w0-0", "w0-1"))) == ()
    assert sum(one.node == "n4" for one in found.going()) == 2


def test_who_ran_over_several_numa_nodes_is_in_the_bound() -> None:
    before = solve(stack_of({"n": {}}, {"w": {"each": {"gpus": 8}}})).placement
    works = {"w": {"each": {"gpus": 8}, "place": {"numa": "single"}}}
    goals = {goal.name: goal for goal in as_large(stack_of({"n": {}}, works), before).proof.goals}
    assert (goals["normal_placed_replicas"].value, goals["normal_placed_replicas"].bound) == (1, 1)


def test_a_gang_of_low_priority_stops_whole_for_a_higher_one() -> None:
    """On a large fleet gangs stayed where they were, whatever waited for their nodes."""
    runs = {"low": {"priority": "low", "gang": 2, "each": {"gpus": 6}}, "side": {"each": {"gpus": 1}}}
    nodes: dict[str, dict[str, Any]] = {"n1": {}, "n2": {}}
    before = solve(stack_of(nodes, runs)).placement
    now = stack_of(nodes, runs | {"high": {"priority": "high", "each": {"gpus": 8}}})
    found = as_large(now, before)
    assert sorted(one.workload for one in found.placement.going()) == ["high", "side"]
    assert judge(now, found.placement) == () and [one.workload for one in found.placement.unplaced] == ["low"]


def test_what_fails_while_it_is_bounded_costs_the_bound_and_not_the_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two whole nodes that are asked for one is had, once what stands there has moved: a greedy pass moves nobody."""
    teams, one, whole = {"t": {"users": ["ada"], "share": 1}}, {"each": {"gpus": 1}}, {"each": {"gpus": 8}}
    here, there = (solve(stack_of({node: {}}, {name: one})).placement for node, name in (("n", "a"), ("m", "c")))
    last = Placement(allocations=(*here.allocations, *there.allocations))
    stack = stack_of({"n": {}, "m": {}}, {"a": one, "c": one, "b": whole, "d": whole}, teams=teams)
    found = as_large(stack, last)
    assert len(found.placement.allocations) == 3 and len(found.moves) == 1 and "failed" not in found.proof.parameters

    def fails(*args: Any, **keys: Any) -> Any:
        raise RuntimeError("no bound")

    monkeypatch.setattr(large, "level_bounds", fails)
    failed = as_large(stack, last)
    assert failed.placement == found.placement
    assert "no bound" in str(failed.proof.parameters["failed"]) and not failed.proof.optimal
    assert all(goal.bound >= goal.value for goal in failed.proof.goals if "placed" in goal.name)
