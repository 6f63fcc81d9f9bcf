"""Is what a workload needs met by the cheapest replicas that can be placed, on one model of GPU or on several?"""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.service.needs import derived, reached, replicas_for, written
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from swarm_iac.solver import solve_declared
from tests.solver.fleets import stack_of
from tests.solver.oracle import reached as counts_of
from tests.solver.test_variants import of, outer, within

MODELS = {"h": "H100", "a": "A100"}
SHAPES = {
    key: {"gpus": f"3 x {model}", "vcpus": 32, "memory": "64 GB", "nvme": "1 TB", "nic": "10 Gbit/s"}
    for key, model in MODELS.items()
}
PRICES = {"H100": "3 EUR/h", "A100": "1 EUR/h"}


def fleet(works: dict[str, dict[str, Any]], nodes: str = "ha", **rest: Any) -> Stack:
    machines = {f"{kind}{i}": {"hardware": kind} for i, kind in enumerate(nodes)}
    return derived(stack_of(machines, works, hardware=SHAPES, **rest))


def needing(needs: Any, speed: dict[str, Any], gpus: Any = 1, **more: Any) -> dict[str, Any]:
    return {"needs": needs, "speed": speed, "each": {"gpus": gpus, "vcpus": 1}, **more}


def done(stack: Stack, placement: Placement, name: str = "w") -> int:
    return reached(stack, name, placement, stack.workloads[name].speed)


@pytest.mark.parametrize("seed", range(60))
def test_needs_are_met_whenever_any_replicas_on_any_models_could_meet_them(seed: int) -> None:
    """Compared with every number of replicas on each node, and the cheapest model that is enough alone."""
    rng = random.Random(seed)
    speed = {"H100": rng.randint(2, 9), "A100": rng.randint(1, 6)}
    gpus = rng.choice([1, 1, 2])
    needs = rng.randint(3, 40)
    nodes = rng.choice(["h", "ha", "hha", "haa"])
    prices = PRICES if rng.random() < 0.5 else {}
    stack = fleet({"w": needing(needs, speed, gpus)}, nodes, **({"prices": prices} if prices else {}))
    now, found = solve_declared(stack, Placement())
    assert judge(now, found.placement) == ()
    room = 3 // gpus
    ways = [
        sum(speed[MODELS[kind]] * count for kind, count in zip(nodes, pick, strict=True))
        for pick in itertools.product(range(room + 1), repeat=len(nodes))
    ]
    met = done(stack, found.placement) >= stack.workloads["w"].needs.amount  # type: ignore[union-attr]
    assert met == any(way >= needs for way in ways)
    alone = {
        model: -(-needs // speed[model])
        for kind, model in MODELS.items()
        if kind in nodes and -(-needs // speed[model]) <= room * nodes.count(kind)
    }
    if alone:
        price = {"H100": 3, "A100": 1} if prices else {"H100": 1, "A100": 1}
        models = {stack.hardware_of(one.node).gpus.model or "" for one in found.placement.allocations}
        assert len(models) == 1
        (model,) = models
        assert len(found.placement.allocations) == alone[model]
        assert alone[model] * price[model] == min(count * price[one] for one, count in alone.items())


@pytest.mark.parametrize("seed", range(24))
def test_no_way_to_meet_needs_beside_others_is_better(seed: int) -> None:
    """Against every way and every placement, in pairs with what else a workload may say."""
    rng = random.Random(1000 + seed)
    beside: list[dict[str, Any]] = [
        {}, {"priority": "high"}, {"priority": "low"}, {"place": {"spread": "node"}}, {"place": {"per_node": 2}},
        {"lighter_for": "low"}, {"place": {"apart": "node"}},
    ]  # fmt: skip
    speed = {"H100": rng.randint(2, 6), "A100": rng.randint(1, 4)}
    works: dict[str, dict[str, Any]] = {"w": needing(rng.randint(3, 12), speed, **beside[seed % len(beside)])}
    model = rng.choice(["H100", "A100"])
    works["x"] = {"each": {"gpus": f"{rng.randint(1, 3)} x {model}"}, "priority": rng.choice(["low", "normal", "high"])}
    stack = fleet(works, "ha")
    now, found = solve_declared(stack, Placement())
    assert judge(now, found.placement) == ()
    least, most = within(stack)
    taken, counts = of(stack, found), counts_of(found)
    placed = any(name == "w" for name, _ in counts)
    picks = [taken["w"]] if placed else list(stack.workloads["w"].variants)
    assert any(least <= outer(stack, taken | {"w": pick}, counts) <= most for pick in picks)


def test_four_of_one_or_seven_of_another_and_both_where_neither_is_enough() -> None:
    speed = {"H100": "25 kTok/s", "A100": "15 kTok/s"}
    request = needing("100 kTok/s", speed)
    both = fleet({"w": request}, "hhaaa")
    assert {name: one.replicas.least for name, one in both.workloads["w"].variants.items() if one.replicas} == {
        "h100": 4, "a100": 7, "mixed-4": 4, "mixed-5": 5, "mixed-6": 6, "mixed-7": 7,
    }  # fmt: skip
    # Of mixed ones the number is least with which it is enough where the solver puts them: models that count less first.
    for nodes, counts in (
        ("hh", {"H100": 4}),
        ("aaa", {"A100": 7}),
        ("haa", {"H100": 1, "A100": 6}),
        ("ha", {"H100": 3, "A100": 3}),
    ):
        stack = fleet({"w": request}, nodes)
        _, found = solve_declared(stack, Placement())
        models = [stack.hardware_of(one.node).gpus.model for one in found.placement.allocations]
        assert {model: models.count(model) for model in set(models)} == counts, nodes
        assert not found.placement.unplaced


def test_the_cheapest_is_first_by_price_and_else_by_gpus() -> None:
    speed = {"H100": 2, "A100": 1}
    assert next(iter(fleet({"w": needing(4, speed)}, prices=PRICES).workloads["w"].variants)) == "a100", "4 EUR, not 6"
    assert next(iter(fleet({"w": needing(4, speed)}).workloads["w"].variants)) == "h100", "2 GPUs, not 4"


def test_what_runs_stays_on_its_model_until_the_cheaper_one_fits_and_then_returns() -> None:
    request = needing(4, {"H100": 2, "A100": 1}, kind="serve", on_update="roll")
    prices = {"prices": PRICES}
    full = fleet({"w": request, "x": {"each": {"gpus": "3 x A100"}}}, "haa", **prices)
    first = solve_declared(full, Placement())[1]
    assert of(full, first) == {"w": "h100"}
    again = solve_declared(full, first.placement)[1]
    assert again.placement.allocations == first.placement.allocations
    free = fleet({"w": request}, "haa", **prices)
    assert of(free, solve_declared(free, first.placement)[1]) == {"w": "a100"}
    job = fleet({"w": request | {"on_variant": "restart"}}, "haa", **prices)
    assert of(job, solve_declared(job, first.placement)[1]) == {"w": "h100"}


@pytest.mark.parametrize(
    ("text", "amount", "shown"),
    [
        ("25 kTok/s", 25_000 * 10**6, "25 kTok/s"), ("0.5 req/s", 5 * 10**5, "0.5 req/s"), (0.52, 520_000, "0.52"), (4, 4 * 10**6, "4"),
        ("1500 Mimg/s", 1500 * 10**12, "1.5 Gimg/s"), ("0.000001", 1, "0.000001"), (1e-6, 1, "0.000001"),
    ],
)  # fmt: skip
def test_rates_are_exact_and_read_back_as_they_are_shown(text: Any, amount: int, shown: str) -> None:
    rate = Rate.parse(text)
    assert (rate.amount, str(rate)) == (amount, shown)
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize(
    "text",
    ["", "fast", "-1", 0, "0 Tok/s", True, None, float("inf"), float("nan"), 1e300, "1 Tok", "1 Tok/s\n", "1\x1b[31m/s", "9" * 50, [], {}],
)  # fmt: skip
def test_what_is_no_rate_is_refused(text: Any) -> None:
    if text == "1 Tok/s\n":
        assert Rate.parse(text).unit == "Tok", "a last line break is white space"
        return
    with pytest.raises(ValueError, match=r"is no rate|a rate is above 0"):
        Rate.parse(text)


def test_the_number_of_replicas_is_the_least_that_is_enough() -> None:
    for needs, speed in itertools.product(range(1, 40), range(1, 12)):
        n = replicas_for(Rate(needs), Rate(speed))
        assert n * speed >= needs > (n - 1) * speed
        assert n == -(-Fraction(needs, speed) // 1)


def test_derived_variants_are_nothing_of_the_file() -> None:
    stack = fleet({"w": needing(4, {"H100": 2, "A100": 1})})
    plain = written(stack)
    assert isinstance(plain.workloads["w"], Workload) and not plain.workloads["w"].variants
    assert derived(plain) == stack
