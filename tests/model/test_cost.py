"""Does a placement cost what its GPUs cost?"""

from __future__ import annotations

from swarm_iac.model import cost
from swarm_iac.model.device import gpu
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve
from tests.solver.fleets import stack_of

NODES = {"a": {"hardware": "h100"}, "b": {"hardware": "l40s"}, "c": {"hardware": "cpu"}}
WISHES = {
    "train": {"each": {"gpus": "3 x H100"}, "replicas": 2},
    "chat": {"each": {"gpus": "1 x L40S"}},
    "tidy": {"each": {"gpus": 0}},
}


def test_only_allocated_gpus_with_a_price_cost() -> None:
    stack = stack_of(NODES, WISHES, prices={"H100": "2.5 EUR/h", "L40S": "0.805 EUR/h"})
    placement = solve(stack).placement
    assert str(cost.cost(stack, placement)) == "15.805 EUR/h"
    assert str(cost.cost(stack, Placement())) == "0.00 EUR/h"
    assert cost.format_change(stack, Placement(), placement) == "15.805 EUR/h, before 0.00 EUR/h: +15.805 EUR/h"
    assert cost.format_change(stack, placement, placement) == "15.805 EUR/h, as before"


def test_models_without_a_price_are_named_and_stacks_without_prices_say_nothing() -> None:
    stack = stack_of(NODES, WISHES, prices={"H100": "1 EUR/h"})
    placement = solve(stack).placement
    assert cost.unpriced(stack, placement) == ("L40S",)
    assert cost.format_change(stack, placement, placement) == "6.00 EUR/h, as before (without L40S, which has no price)"
    assert cost.format_change(stack_of(NODES, WISHES), Placement(), placement) == ""
    assert cost.as_json(stack_of(NODES, WISHES), Placement(), placement) is None


def test_what_leaves_the_stack_is_what_is_saved() -> None:
    prices = {"H100": "2.5 EUR/h", "L40S": "0.805 EUR/h"}
    before = solve(stack_of(NODES, WISHES, prices=prices)).placement
    fewer = {name: request for name, request in WISHES.items() if name != "train"}
    stack = stack_of(NODES, fewer, prices=prices)
    assert cost.format_change(stack, before, solve(stack, before).placement) == "0.805 EUR/h, before 15.805 EUR/h: -15.00 EUR/h"


def test_part_of_a_gpu_costs_its_part() -> None:
    request = {"each": {"gpus": {"count": 1, "model": "H100", "share": 0.25}}}
    stack = stack_of(NODES, {"w": request, "v": {"each": {"gpus": "1 x H100"}}}, prices={"H100": "2 EUR/h"})
    v = solve(stack_of(NODES, {"v": {"each": {"gpus": "1 x H100"}}})).placement.allocations[0]
    w = v.model_copy(update={"name": "w-0", "workload": "w", "gpus": (gpu(1, 250),)})
    assert str(cost.cost(stack, Placement(allocations=(v, w)))) == "2.50 EUR/h"
