"""Does a part that is asked for keep every law, leave the rest alone, and say what it leaves?"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Team
from swarm_iac.model.state import AllocationState, NodeState
from swarm_iac.model.step import Plan
from swarm_iac.model.workload import Workload
from swarm_iac.plan import steps
from swarm_iac.plan.step_graph.partial import Only, only, part
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet, as_converged
from tests.plan.test_laws import HEALTH, ORDERS, Order, any_order, carry_out, plan_of

pytestmark = pytest.mark.engine

WORKLOADS = sorted({name.rpartition("-")[0] for name in fleets.HANDOVER})
PARTS = st.builds(
    lambda nodes, workloads: Only(nodes, workloads, "x"),
    st.frozensets(st.sampled_from(fleets.NODES), max_size=2),
    st.frozensets(st.sampled_from(WORKLOADS), max_size=2),
).filter(lambda each: bool(each.nodes or each.workloads))


def places(nodes: Mapping[str, NodeState]) -> dict[tuple[str, str], AllocationState]:
    """Every allocation where it is; cores that are shared are nobody's."""
    found = {}
    for node, state in nodes.items():
        for name, one in state.allocations.items():
            shared = one.slice.cpu_quota_m is not None
            found[name, node] = one.model_copy(update={"slice": one.slice.model_copy(update={"cpus": ""})}) if shared else one
    return found


def may_change(asked: Only, *found: Mapping[str, NodeState]) -> set[str]:
    """Allocations that are named, with their gang."""
    homes = [(name, node) for nodes in found for name, node in places(nodes)]
    named = {name for name, node in homes if node in asked.nodes or name.rpartition("-")[0] in asked.workloads}
    return named | ({"gang-0", "gang-1"} if any(name.startswith("gang") for name in named) else set())


def running(nodes: Mapping[str, NodeState]) -> set[str]:
    return {name for (name, _), one in places(nodes).items() if one.unit.active}


@LAWS
@given(fleets.states(), fleets.states(), HEALTH, PARTS, ORDERS)
def test_a_part_never_breaks_a_law_nor_touches_the_rest(
    old: dict[str, NodeState], new: dict[str, NodeState], health: dict[str, str], asked: Only, order: Order
) -> None:
    observed, desired = fleets.observed(old, health), fleets.desired(new, old)
    try:
        plan = steps(observed, desired, only=asked)
    except Refused:
        return
    whole = plan_of(observed, desired) or Plan()
    assert {step.id for step in whole.steps} <= {step.id for step in plan.steps} | {left.step.id for left in plan.deferred}
    mixed = part(observed, desired, asked).desired
    for found in (any_order(order, plan), as_converged(plan)):
        fleet = carry_out(Fleet(observed, mixed), found)
        before, after = places(old), places(fleet.nodes)
        changed = {name for name, node in before.keys() | after.keys() if before.get((name, node)) != after.get((name, node))}
        assert changed <= may_change(asked, old, new)
        assert running(old) & running(new) <= running(fleet.nodes), "what runs on never stops for good"
        for node in fleets.NODES:
            assert node in asked.nodes or fleet.nodes[node].settings == old[node].settings
    then = plan_of(fleet.observed(), fleets.desired(new, fleet.nodes))
    if then is not None:
        assert carry_out(Fleet(fleet.observed(), fleets.desired(new, fleet.nodes)), list(then.steps)).nodes == new


@LAWS
@given(fleets.states(), fleets.states(), ORDERS)
def test_all_parts_together_are_never_less_than_the_whole(
    old: dict[str, NodeState], new: dict[str, NodeState], order: Order
) -> None:
    observed, desired = fleets.observed(old), fleets.desired(new, old)
    everything = Only(frozenset(fleets.NODES), text="n1, n2, n3")
    plan = plan_of(observed, desired)
    if plan is not None:
        found = steps(observed, desired, only=everything)
        assert found.deferred == () and carry_out(Fleet(observed, desired), any_order(order, found)).nodes == new


def one(name: str, gpu: int, command: str = "x") -> dict[str, AllocationState]:
    return {name: fleets.allocation(name, (gpu,), (), 20, command)}


def test_who_has_no_capacity_beside_the_rest_stays_and_says_why() -> None:
    old = {"n1": fleets.node(one("train-0", 0)), "n2": fleets.node(one("code-0", 0))}
    new = {"n1": fleets.node(one("code-0", 0)), "n2": fleets.node(one("train-0", 0))}
    plan = steps(fleets.observed(old), fleets.desired(new), only=Only(workloads=frozenset({"train"}), text="research"))
    assert plan.steps == ()
    assert "--only research: train-0 stays as it is: GPU 0 of n2 is still held by code-0" in plan.warnings
    assert {left.cause for left in plan.deferred} == {"part"}
    assert plan.warnings[-1] == f"--only research: {len(plan.deferred)} steps are left for later, on n1, n2"


def test_a_chosen_node_is_its_own_canary_and_the_rest_rolls_out_later() -> None:
    old = {name: fleets.node({}, "60") for name in fleets.NODES}
    new = {name: fleets.node({}, "1") for name in fleets.NODES}
    plan = steps(fleets.observed(old), fleets.desired(new), only=Only(frozenset({"n2"}), text="n2"))
    assert [(step.id, step.after) for step in plan.steps] == [("n2/settings", ())]
    assert [left.step.id for left in plan.deferred] == ["n1/settings", "n3/settings"]


def test_a_part_of_a_change_that_is_refused_as_a_whole_is_done() -> None:
    old = {"n1": fleets.node(one("chat-0", 0)), "n2": fleets.node(one("code-0", 0))}
    new = {"n1": fleets.node(one("code-0", 0)), "n2": fleets.node(one("chat-0", 0), "60")}
    observed = fleets.observed({**old, "n3": fleets.node({})})
    observed["n3"] = observed["n3"].model_copy(update={"error": "no route"})
    desired = fleets.desired({**new, "n3": fleets.node(one("train-0", 0))})
    with pytest.raises(Refused):
        steps(observed, desired)
    found = steps(observed, desired, only=Only(workloads=frozenset({"train"}), text="research"))
    assert {left.cause for left in found.deferred} == {"unreachable"}


def test_a_name_is_a_node_or_a_team() -> None:
    from swarm_iac.model.stack import Stack

    stack = Stack(fleet="f", teams={"research": Team(users=("ada",))})
    assert only("", fleets.NODES, stack) is None
    assert only("n1, research", fleets.NODES, stack) == Only(frozenset({"n1"}), frozenset(), "n1, research")
    works = {"w": Workload(user="ada"), "v": Workload(user="bo")}
    teams = {"research": Team(users=("ada",), parent="all"), "all": Team(users=("bo",))}
    nested = Stack(fleet="f", teams=teams, workloads=works)
    assert only("research", (), nested) == Only(frozenset(), frozenset({"w"}), "research")
    assert only("all", (), nested) == Only(frozenset(), frozenset({"w", "v"}), "all"), "with the teams inside it"
    with pytest.raises(Refused, match="--only n9: no node and no team of that name"):
        only("n9", fleets.NODES, stack)
