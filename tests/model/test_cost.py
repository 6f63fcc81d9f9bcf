"""Does a placement cost what its GPUs cost?"""

from __future__ import annotations

from swarm_iac.model import cost
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
    assert cost.told(stack, Placement(), placement) == "15.805 EUR/h, before 0.00 EUR/h: +15.805 EUR/h"
    assert cost.told(stack, placement, placement) == "15.805 EUR/h, as before"


def test_models_without_a_price_are_named_and_stacks_without_prices_say_nothing() -> None:
    stack = stack_of(NODES, WISHES, prices={"H100": "1 EUR/h"})
    placement = solve(stack).placement
    assert cost.unpriced(stack, placement) == ("L40S",)
    assert cost.told(stack, placement, placement) == "6.00 EUR/h, as before (without L40S, which has no price)"
    assert cost.told(stack_of(NODES, WISHES), Placement(), placement) == ""
    assert cost.as_json(stack_of(NODES, WISHES), Placement(), placement) is None
