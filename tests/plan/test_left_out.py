"""What may a plan do while a node is dark, or is not the machine that was declared?"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.state import Declared, Desired, Facts, GpuFacts, NodeState, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import steps
from swarm_iac.plan.state.mismatch import differences
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet
from tests.plan.test_laws import ORDERS, Order, any_order, carry_out, plan_of

WHAT = st.dictionaries(
    st.sampled_from(sorted(fleets.NODES)), st.sampled_from(["unreachable", "mismatch"]), min_size=1, max_size=2
)


def struck(what: Mapping[str, str], observed: dict[str, Observed], desired: dict[str, Desired]) -> None:
    """Some nodes do not answer (their last known state stands in), others have a card too few."""
    for name, kind in what.items():
        if kind == "unreachable":
            observed[name] = observed[name].model_copy(update={"error": "no route to host", "facts": Facts()})
        else:
            declared = Declared(gpus=fleets.GPUS + 1, gpu_model="H100", cpus=fleets.CPUS)
            desired[name] = desired[name].model_copy(update={"hardware": declared})


def planned(
    old: dict[str, NodeState], new: dict[str, NodeState], what: dict[str, str]
) -> tuple[dict[str, Observed], dict[str, Desired], Plan | None]:
    """The fleet with these nodes dark or differing, and what is planned for it."""
    observed, desired = fleets.observed(old), fleets.desired(new, old)
    struck(what, observed, desired)
    return observed, desired, plan_of(observed, desired)


def running(nodes: Mapping[str, NodeState]) -> set[str]:
    return {name for node in nodes.values() for name, one in node.allocations.items() if one.unit.active}


@pytest.mark.engine
@LAWS
@given(fleets.states(), fleets.states(), WHAT, ORDERS)
def test_it_takes_nothing_there_and_stops_nobody_who_cannot_start_again(
    old: dict[str, NodeState], new: dict[str, NodeState], what: dict[str, str], order: Order
) -> None:
    observed, desired, plan = planned(old, new, what)
    if plan is None:
        return
    fleet = carry_out(Fleet(observed, desired), any_order(order, plan))
    assert running(old) & running(new) <= running(fleet.nodes), "it stopped for a place that it cannot have"
    for name, kind in what.items():
        assert any(name in line for line in plan.warnings)
        if kind == "unreachable":
            assert fleet.nodes[name] == old[name]
        else:
            here = fleet.nodes[name]
            assert all(old[name].allocations.get(one) == state for one, state in here.allocations.items())
            assert (here.settings, here.gpus) == (old[name].settings, old[name].gpus)


@pytest.mark.engine
@LAWS
@given(fleets.states(), fleets.states(), WHAT, ORDERS)
def test_what_was_left_is_done_once_the_node_is_back(
    old: dict[str, NodeState], new: dict[str, NodeState], what: dict[str, str], order: Order
) -> None:
    _, desired, plan = planned(old, new, what)
    if plan is None:
        return
    half = carry_out(Fleet(fleets.observed(old), desired), any_order(order, plan))
    whole = fleets.desired(new, half.nodes)
    then = plan_of(half.observed(), whole)
    if then is not None:
        assert carry_out(Fleet(half.observed(), whole), any_order(order, then)).nodes == new


CARD = GpuFacts(index=0, pci="0", uuid="u", model="NVIDIA H100 80GB HBM3", memory=80 * 10**9)
FACTS = Facts(cpus=8, memory=16 * 10**9, gpus=(CARD,), numa={0: "0-3", 1: "4-7"}, interfaces={"eth1": 0})


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (Declared(gpus=1, gpu_model="H100", cpus=8, memory=15 * 10**9, numa=2), ()),
        (Declared(gpus=1, cpus=4), ()),
        (Declared(gpus=1, gpu_model="H200|H100"), ()),
        (Declared(gpus=2, gpu_model="H100"), ("1 x H100 found, 2 x H100 declared",)),
        (Declared(), ("1 x H100 found, 0 declared",)),
        (Declared(gpus=1, gpu_model="L40S"), ("1 x H100 found, 1 x L40S declared",)),
        (Declared(gpus=1, cpus=9), ("8 CPUs found, 9 declared",)),
        (Declared(gpus=1, memory=17 * 10**9), ("16.00 GB of memory found, 17.00 GB declared",)),
        (Declared(gpus=1, numa=4), ("2 NUMA nodes found, 4 declared",)),
    ],
)
def test_what_differs_is_said_in_numbers(declared: Declared, words: tuple[str, ...]) -> None:
    assert differences(FACTS, declared, "eth1") == words


def test_an_interface_that_is_not_there_is_named() -> None:
    assert differences(FACTS, Declared(gpus=1), "eth7") == ("no interface eth7 found (eth1 there)",)


def test_a_machine_that_differs_and_is_not_ours_yet_is_not_touched() -> None:
    blank = Observed(node="n1", facts=FACTS)
    wanted = Desired(node="n1", address="local", fleet="f", hardware=Declared(gpus=8, gpu_model="H100"), state=fleets.node({}))
    plan = steps({"n1": blank}, {"n1": wanted}, agent="new")
    assert plan.steps == ()
    assert "1 x H100 found, 8 x H100 declared" in plan.warnings[0]
