"""Are ranges of `gpu_power` lowered as little as a rack's budget asks for, and never beyond it?"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.power import by_node, caps, loss
from swarm_iac.model.stack import Stack
from swarm_iac.plan import desired
from swarm_iac.solver import solve, why
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.stackfile.locks import lock
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_paths
from tests.solver.test_rules import fleet_of


def racks(first: str, power: str, jobs: int = 2, **rest: Any) -> Stack:
    """Two racks of two machines with eight GPUs; jobs that want 620 W on four GPUs each."""
    nodes = {f"{rack}{i}": {"rack": rack, "tuning": "cool"} for rack in "ab" for i in range(2)}
    hot = {"each": {"gpus": 4, "gpu_power": "620 W"}}
    return stack_of(
        nodes,
        {f"hot{i}": hot for i in range(jobs)},
        racks={"a": {"power": first}, "b": {"power": "8 kW"}},
        tuning={"cool": {"gpu_power": power}},
        **rest,
    )


def test_lower_limits_by_eight_percent_place_one_job_more() -> None:
    """Rack a has 480 W to spare, which is 4 · (620 − 500) W; b has none: 12 · 460 W + 4 · 620 W = 8 kW."""
    fixed, ranged = racks("8480 W", "500 W"), racks("8480 W", "450..500 W")
    one, both = solve(fixed).placement, solve(ranged).placement
    assert len(one.allocations) == 1 and len(both.allocations) == 2 and judge(ranged, both) == ()
    assert {name: int(cap) for name, cap in caps(ranged, both).items()} == {"a0": 500, "a1": 500, "b0": 460, "b1": 460}
    assert set(caps(ranged, Placement()).values()) == {500}


def test_who_waits_is_told_what_the_lower_ends_leave() -> None:
    stack = racks("8 kW", "450..500 W", jobs=3)
    found = solve(stack).placement
    assert len(found.allocations) == 2 and found.unplaced[0].reasons[0].rule == "power_stays_under_rack_budget"
    assert "120 W" in found.unplaced[0].reasons[0].text
    edits = {str(one.edits[0]) for one in why(stack, found, found.unplaced[0].workload).fixes}
    # Short of 560 W; of the 16 GPUs of a rack eight are the jobs', so each of the others gives 70 W.
    assert {"racks.a.power=8560 W", "tuning.cool.gpu_power=380..500 W"} <= edits


def test_a_range_is_the_fix_where_one_value_leaves_no_room() -> None:
    stack = racks("8 kW", "500 W", jobs=1)
    found = solve(stack).placement
    edits = {str(one.edits[0]) for one in why(stack, found, "hot0").fixes}
    # 4 · (620 − 500) W over the twelve others.
    assert {"racks.a.power=8480 W", "tuning.cool.gpu_power=460..500 W"} <= edits


def test_the_upper_end_moves_nothing_and_is_in_no_lock() -> None:
    stack, wider = racks("8 kW", "450..500 W"), racks("8 kW", "450..700 W")
    assert lock.dump(lock.make(stack, solve(stack).placement)) == lock.dump(lock.make(wider, solve(wider).placement))


def some_racks(rng: random.Random) -> Stack:
    """Nodes of two kinds in racks with and without a budget, some lost or without a tuning; some jobs bring a limit."""
    lows = {name: rng.randint(100, 400) for name in "xyz"}
    tuning = {name: {"gpu_power": f"{low}..{low + rng.choice([0, 1, 7, 50, 300])} W"} for name, low in lows.items()}
    nodes: dict[str, Any] = {}
    least = {"r": 0, "s": 0, "t": 0}
    for i in range(rng.randint(2, 7)):
        rack, own, kind = rng.choice("rst"), rng.choice("xyz-"), rng.choice(["h100", "l40s"])
        state = "lost" if rng.random() < 0.1 else "ready"
        nodes[f"n{i}"] = {"rack": rack, "hardware": kind, "state": state} | ({} if own == "-" else {"tuning": own})
        least[rack] += 8 * lows.get(own, 0)
    budgets = {rack: {"power": f"{max(1, least[rack]) + rng.randint(0, 3000)} W"} for rack in "rs"}
    works = {
        f"w{i}": {
            "replicas": rng.randint(1, 4),
            "each": {"gpus": rng.randint(1, 4)} | ({"gpu_power": f"{rng.randint(50, 700)} W"} if rng.random() < 0.7 else {}),
        }
        for i in range(rng.randint(0, 5))
    }
    return stack_of(nodes, works, racks={**budgets, "t": {}}, tuning=tuning)


@pytest.mark.parametrize("seed", range(150))
def test_a_rack_draws_no_more_than_its_budget_and_no_watt_is_kept_back(seed: int) -> None:
    stack = some_racks(random.Random(seed))
    found = solve(stack).placement
    assert judge(stack, found) == ()
    states = desired(stack, found)
    powers = caps(stack, found)
    for name, rack in stack.racks.items():
        inside = [one for one in states.values() if stack.nodes[one.node].rack == name]
        drawn = sum(gpu.power_w or 0 for one in inside for gpu in one.state.gpus.values())
        ranges = {one.node: own for one in inside if (own := stack.tuning_of(one.node).gpu_power) is not None}
        assert all(own.least <= powers[node] <= own.most for node, own in ranges.items())
        lowered = [node for node, own in ranges.items() if powers[node] < own.most]
        if rack.power is None:
            assert not lowered
            continue
        assert drawn <= rack.power
        # One watt more on every GPU of the nodes that could have it would be too much.
        assert not lowered or drawn + sum(8 for _ in ranges) > int(rack.power)


@pytest.mark.parametrize("seed", range(40))
def test_a_wider_range_never_places_less(seed: int) -> None:
    stack = some_racks(random.Random(seed))
    tuning = {
        name: one.model_copy(update={"gpu_power": one.gpu_power.between(50, int(one.gpu_power.most))})
        for name, one in stack.tuning.items()
        if one.gpu_power is not None
    }
    wider = stack.model_copy(update={"tuning": tuning})
    first, second = (solve(each).placement for each in (stack, wider))
    assert judge(wider, second) == ()
    assert sum(len(one.gpus) for one in second.allocations) >= sum(len(one.gpus) for one in first.allocations)


def some_losses(rng: random.Random) -> Stack:
    """One rack whose nodes have up to three tunings with small ranges, some with a loss; a job brings its own limit."""
    names = "xyz"[: rng.randint(1, 3)]
    lows, spans = {one: rng.randint(100, 300) for one in names}, {one: rng.choice([1, 2, 5, 9]) for one in names}
    tuning = {
        one: {"gpu_power": f"{lows[one]}..{lows[one] + spans[one]} W"}
        | rng.choice([{}, {"gpu_power_loss": rng.randint(1, 30)}])
        for one in names
    }
    nodes = {f"n{i}": {"rack": "r", "hardware": "l40s", "tuning": rng.choice(names)} for i in range(rng.randint(1, 4))}
    least = sum(4 * lows[one["tuning"]] for one in nodes.values())
    jobs = {"hot": {"each": {"gpus": 1, "gpu_power": f"{rng.randint(90, 330)} W"}}} if rng.random() < 0.5 else {}
    return stack_of(nodes, jobs, racks={"r": {"power": f"{least + rng.randint(0, 60)} W"}}, tuning=tuning)


def lost_at(stack: Stack, gpus: dict[str, int], caps_of: dict[str, int]) -> Fraction:
    return sum(
        (gpus[tuning] * _loss_per_watt(stack, tuning) * _below(stack, tuning, cap) for tuning, cap in caps_of.items()),
        Fraction(0),
    )


def _loss_per_watt(stack: Stack, tuning: str) -> Fraction:
    own = stack.tuning[tuning].gpu_power
    assert own is not None
    return Fraction(stack.tuning[tuning].gpu_power_loss or 0, int(own.most) - int(own))


def _below(stack: Stack, tuning: str, cap: int) -> int:
    own = stack.tuning[tuning].gpu_power
    assert own is not None
    return int(own.most) - cap


@pytest.mark.parametrize("seed", range(80))
def test_no_other_limits_within_the_budget_lose_less_speed(seed: int) -> None:
    """Every combination of whole watts is tried, the same on all GPUs of a tuning. Ours are rounded down: by less than a watt each."""
    stack = some_losses(random.Random(seed))
    found = solve(stack).placement
    assert judge(stack, found) == ()
    held = Counter(one.node for one in found.allocations for _ in one.gpus)
    gpus: Counter[str] = Counter()
    for name, node in stack.nodes.items():
        gpus[node.tuning or ""] += 4 - held[name]
    own = sum(int(stack.workloads[one.workload].each.gpu_power or 0) * len(one.gpus) for one in found.allocations)
    ranges = {one: stack.tuning[one].gpu_power for one in gpus}
    choices = [range(int(own_), int(own_.most) + 1) for own_ in ranges.values() if own_ is not None]
    budget = int(stack.racks["r"].power or 0) - own
    best = min(
        lost_at(stack, gpus, dict(zip(gpus, each, strict=True)))
        for each in itertools.product(*choices)
        if sum(gpus[one] * cap for one, cap in zip(gpus, each, strict=True)) <= budget
    )
    ours = {stack.nodes[name].tuning or "": int(cap) for name, cap in caps(stack, found).items()}
    assert sum(gpus[one] * cap for one, cap in ours.items()) <= budget
    lost, rounding = lost_at(stack, gpus, ours), sum((gpus[one] * _loss_per_watt(stack, one) for one in gpus), Fraction(0))
    assert best <= lost < best + rounding or lost == best == 0
    for name, cap in caps(stack, found).items():
        tuning = stack.nodes[name].tuning or ""
        assert loss(stack, name, cap) == _loss_per_watt(stack, tuning) * _below(stack, tuning, int(cap))


def test_who_loses_less_speed_gives_its_power_first() -> None:
    """16 GPUs of each kind at 500 W would draw 16 kW, and a job of four brings 120 W more each: 480 W come from those that lose 2%."""
    nodes = {f"n{i}": {"rack": "r", "tuning": ("steady", "fast")[i % 2]} for i in range(4)}
    tuning = {
        "steady": {"gpu_power": "450..500 W", "gpu_power_loss": 2},
        "fast": {"gpu_power": "450..500 W", "gpu_power_loss": 12},
    }
    hot = {"hot": {"each": {"gpus": 4, "gpu_power": "620 W"}, "place": {"select": {"one": "here"}}}}
    nodes["n0"]["labels"] = {"one": "here"}  # type: ignore[assignment]
    stack = stack_of(nodes, hot, racks={"r": {"power": "16 kW"}}, tuning=tuning)
    found = solve(stack).placement
    assert {name: int(cap) for name, cap in caps(stack, found).items()} == {"n0": 460, "n2": 460, "n1": 500, "n3": 500}
    assert (loss(stack, "n0", 460), loss(stack, "n1", 500)) == (Fraction(8, 5), 0)


def machines(power: str, tuning: str = "450..500 W", jobs: int = 2, **rest: Any) -> Stack:
    """Two machines of eight GPUs with a budget each; jobs that want 620 W on four GPUs each."""
    shape = {"gpus": "8 x H100", "vcpus": 64, "memory": "1 TB", "power": power}
    return stack_of(
        {f"n{i}": {"hardware": "own", "tuning": "cool"} for i in range(2)},
        {f"hot{i}": {"each": {"gpus": 4, "gpu_power": "620 W"}} for i in range(jobs)},
        hardware={"own": shape},
        tuning={"cool": {"gpu_power": tuning}},
        **rest,
    )


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
@pytest.mark.parametrize(("power", "placed"), [("4279 W", 0), ("4280 W", 2), ("4959 W", 2), ("4960 W", 4)])
def test_a_node_carries_what_its_own_budget_does(answer: Any, power: str, placed: int) -> None:
    """8 · 450 W + 4 · 170 W = 4280 W; 8 · 620 W = 4960 W."""
    stack = machines(power, jobs=4)
    found = answer(stack).placement
    assert len(found.allocations) == placed and judge(stack, found) == ()


def test_the_limits_of_a_node_are_lowered_to_its_own_budget() -> None:
    """4 · 620 W leave 4 · 470 W of 4360 W; the node beside it is not lowered at all, and the rack has enough for both."""
    stack = machines("4360 W", jobs=1)
    found = solve(stack).placement
    (node,) = {one.node for one in found.allocations}
    other = "n1" if node == "n0" else "n0"
    assert {name: int(cap) for name, cap in caps(stack, found).items()} == {node: 470, other: 500}
    assert by_node(stack, found, node) and not by_node(stack, found, other)
    drawn = sum(gpu.power_w or 0 for gpu in desired(stack, found)[node].state.gpus.values())
    assert drawn == 4360 == desired(stack, found)[node].power_w


def test_who_waits_for_the_power_of_a_node_is_told_so_and_each_fix_places_it() -> None:
    stack = machines("4100 W", "500 W", jobs=1)
    found = solve(stack).placement
    reason = found.unplaced[0].reasons[0]
    assert (reason.rule, reason.path) == ("power_stays_under_node_budget", "hardware.own.power")
    assert reason.text == "needs 480 W more of a node's power; the most that is left is 100 W on n0"
    edits = {str(one.edits[0]) for one in why(stack, found, "hot0").fixes}
    # Short of 380 W; the four other GPUs give 95 W each.
    assert {"hardware.own.power=4480 W", "tuning.cool.gpu_power=405..500 W"} <= edits


@pytest.mark.parametrize("seed", range(8))
def test_no_budget_of_a_node_is_exceeded_and_no_better_placement_missed_on_any_path(seed: int) -> None:
    before, now = fleet_of(("power_stays_under_node_budget",), 700 + seed)
    check_paths(before, now)


def test_a_budget_that_was_lowered_moves_what_it_carries_no_more() -> None:
    """Both jobs ran on one node; with 4280 W each node carries one of them, and the other one goes."""
    before = machines("4960 W")
    last = solve(before).placement
    assert len({one.node for one in last.allocations}) == 1
    now = machines("4280 W")
    found = solve(now, last)
    assert len({one.node for one in found.placement.allocations}) == 2 and judge(now, found.placement) == ()


def test_what_an_empty_fleet_could_take_counts_the_budget_of_nodes() -> None:
    """600 W are left on each node and a replica needs 4 · (620 − 450) W; then 680 W are."""
    for power, most in (("4200 W", 0), ("4280 W", 1)):
        assert possible(snapshot_of(machines(power, jobs=1), Placement())) == {"hot0": most}
