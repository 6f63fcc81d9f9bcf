"""Are empty nodes exchanged only where nobody could tell them apart?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve
from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.exact.rules.alike import first_of_alike_holds_most
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import classify, repair_task
from tests.solver.fleets import stack_of

JOB: dict[str, Any] = {"each": {"gpus": 8, "gpu_power": "700 W"}}
TUNING = {"cool": {"gpu_power": "300 W"}, "warm": {"gpu_power": "400 W"}}


def model_of(nodes: dict[str, dict[str, Any]], workloads: dict[str, Any], **rest: Any) -> FleetModel:
    """The model of all that is to be placed, with that rule alone."""
    snapshot = snapshot_of(stack_of(nodes, workloads, **rest), Placement())
    fleet = FleetModel(repair_task(snapshot, classify(snapshot)), Counter())
    first_of_alike_holds_most(fleet)
    return fleet


def test_nodes_that_are_alike_have_one_order_and_a_placement_keeps_its_worth_in_it() -> None:
    fleet = model_of({f"n{i}": {"rack": "r"} for i in range(3)}, {"one": {"each": {"gpus": 1}}, "two": {"each": {"gpus": 2}}})
    assert [nodes for nodes, _ in fleet.alike] == [["n0", "n1", "n2"]]
    assert fleet.in_order(Counter({("one", "n0"): 1, ("two", "n2"): 1})) == {("one", "n1"): 1, ("two", "n0"): 1}


@pytest.mark.parametrize(
    "other",
    [
        {"rack": "s"},
        {"site": "fra"},
        {"labels": {"disk": "fast"}},
        {"taints": {"quiet": "yes"}},
        {"hardware": "l40s"},
        {"tuning": "warm"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_node_that_differs_in_anything_is_not_alike(other: dict[str, Any]) -> None:
    nodes = {"a": {"rack": "r", "tuning": "cool"}, "b": {"rack": "r", "tuning": "cool"} | other}
    assert model_of(nodes, {"one": {"each": {"gpus": 1}, "place": {"tolerate": {"quiet": "*"}}}}, tuning=TUNING).alike == []


def test_the_second_node_is_used_where_the_first_may_not_be() -> None:
    """Rack r is at its budget with a limit of 300 W; s has 8 · 400 W to spare."""
    nodes = {"a": {"rack": "r", "tuning": "cool"}, "b": {"rack": "s", "tuning": "cool"}}
    stack = stack_of(nodes, {"hot": JOB}, tuning=TUNING, racks={"r": {"power": "2400 W"}, "s": {"power": "5600 W"}})
    found = solve(stack)
    assert [a.node for a in found.placement.allocations] == ["b"] and judge(stack, found.placement) == ()


def test_who_runs_is_at_home_on_any_of_nodes_that_were_alike() -> None:
    nodes = {f"n{i}": {"rack": "r"} for i in range(4)}
    stack = stack_of(nodes, {"a": {"each": {"gpus": 5}}, "b": {"each": {"gpus": 4}, "replicas": 2}})
    first = solve(stack).placement
    spread = first.model_copy(
        update={"allocations": tuple(a.model_copy(update={"node": f"n{3 - i}"}) for i, a in enumerate(first.allocations))}
    )
    more = stack.model_copy(update={"workloads": stack.workloads | stack_of(nodes, {"c": {"each": {"gpus": 8}}}).workloads})
    found = solve(more, spread)
    assert found.moves == () and len(found.placement.allocations) == 4
