"""Is no more memory of a machine given out in a change than is declared of it, and does a declaration that is lowered block nothing?

What a machine has beyond its declaration is for itself. On all fleets of the laws one node has more than is declared of it; here
it is declared anew while work is there.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.state import Desired, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan import steps
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet, as_converged
from tests.plan.test_laws import ORDERS, Order, any_order, carry_out, plan_of
from tests.plan.test_recall import SEEDS, lent, with_lent

pytestmark = pytest.mark.engine

MEMORY = st.fixed_dictionaries({name: st.integers(1, fleets.MEMORY + 80) for name in fleets.NODES})
FOUND = st.fixed_dictionaries({name: st.sampled_from([0, fleets.MEMORY, fleets.MEMORY + 64]) for name in fleets.NODES})


def declared(desired: dict[str, Desired], memory: dict[str, int]) -> dict[str, Desired]:
    """The same, of machines of which so much memory is declared."""
    less = {name: fleets.DECLARED.model_copy(update={"memory": memory[name]}) for name in desired}
    return {name: each.model_copy(update={"hardware": less[name]}) for name, each in desired.items()}


def found(observed: dict[str, Observed], memory: dict[str, int]) -> dict[str, Observed]:
    """The same, where so much is found; 0: nobody looked at the machine."""
    facts = {name: each.facts.model_copy(update={"memory": memory[name]}) for name, each in observed.items()}
    return {
        name: each.model_copy(update={"facts": facts[name] if memory[name] else type(each.facts)()})
        for name, each in observed.items()
    }


@pytest.mark.parametrize("node", ["n2", "n3"])
def test_who_comes_waits_for_lent_memory_also_where_the_machine_has_more_than_is_declared(node: str) -> None:
    """n2 has 164 of which 100 are declared, n3 has the 100."""
    job, chat = fleets.allocation("train-0", (2,), (), 40), fleets.allocation("chat-0", (0,), (), 40)
    before, after = ({node: fleets.node({"train-0": lent(job, 40, most), **more})} for most, more in (
        (100, {}), (60, {"chat-0": chat}),
    ))  # fmt: skip
    plan = steps(fleets.observed(before), fleets.desired(after, before))
    slices = {step.allocation: step for step in plan.steps if step.verb is Verb.SLICE}
    assert slices["chat-0"].after == (slices["train-0"].id,)


@LAWS
@given(fleets.states(), SEEDS, MEMORY)
def test_another_declaration_alone_needs_no_step(state: dict[str, NodeState], seed: int, memory: dict[str, int]) -> None:
    states = with_lent(state, seed)
    plan = steps(fleets.observed(states), declared(fleets.desired(states), memory))
    assert plan.steps == ()


@LAWS
@given(fleets.states(), fleets.states(), SEEDS, MEMORY, FOUND, ORDERS)
def test_whatever_is_declared_of_it_a_change_is_reached_and_no_more_is_given_out(
    old: dict[str, NodeState], new: dict[str, NodeState], seed: int, memory: dict[str, int], there: dict[str, int], order: Order
) -> None:
    """Jobs alone are never refused (`plan_of`), however little is declared: who holds more may keep it until the end."""
    before, after = with_lent(old, seed), with_lent(new, seed + 1)
    observed = found(fleets.observed(before), there)
    desired = declared(fleets.desired(after, before), memory)
    plan = plan_of(observed, desired)
    if plan is None:
        return
    late = {left.step.id for left in plan.deferred}
    for each in (any_order(order, plan), as_converged(plan)):
        fleet = carry_out(Fleet(observed, desired), each)
        assert late or fleet.nodes == after
