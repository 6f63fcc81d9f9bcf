"""Is memory that is lent never in the way of a change, and given back before anybody else gets it?

On the small fleets of the laws, with all that is free on some nodes lent. The interpreter counts what each may use at each step.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.errors import Refused
from swarm_iac.model.device import Device
from swarm_iac.model.state import AllocationState, Desired, NodeState, Observed
from swarm_iac.model.step import Plan, Verb
from swarm_iac.plan import steps
from swarm_iac.plan.state import lending
from swarm_iac.plan.step_graph.partial import Only, only, part
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet, as_converged
from tests.plan.test_laws import ORDERS, Order, any_order, carry_out, full
from tests.plan.test_part import PARTS

pytestmark = pytest.mark.engine

SEEDS = st.integers(0, 2**32)


def with_lent(states: dict[str, NodeState], seed: int) -> dict[str, NodeState]:
    """The same fleet, and on some nodes what is free is lent to some, or to one. Who is bound to NUMA nodes borrows nothing."""
    rng, found = random.Random(seed), {}
    for name, node in states.items():
        ones = dict(node.allocations)
        borrowers = [each for each, one in ones.items() if not one.slice.mems and rng.random() < 0.7]
        free = fleets.MEMORY - sum(one.slice.memory_max or 0 for one in ones.values())
        if borrowers and rng.random() < 0.8:
            parts = dict.fromkeys(borrowers, free // len(borrowers)) if rng.random() < 0.5 else {rng.choice(borrowers): free}
            for each, one in ones.items():
                held = one.slice.memory_max or 0
                more = lending.limits(held, held + parts.get(each, 0))
                ones[each] = one.model_copy(update={"slice": one.slice.model_copy(update=more)})
        found[name] = node.model_copy(update={"allocations": ones})
    return found


def plan_between(observed: dict[str, Observed], desired: dict[str, Desired]) -> Plan | None:
    try:
        return steps(observed, desired)
    except Refused:
        return None


def plan_of(old: dict[str, NodeState], new: dict[str, NodeState]) -> Plan | None:
    return plan_between(fleets.observed(old), fleets.desired(new, old))


@LAWS
@given(fleets.states(), fleets.states(), SEEDS, ORDERS)
def test_what_is_lent_makes_no_change_impossible_and_no_order_gives_more_than_there_is(
    old: dict[str, NodeState], new: dict[str, NodeState], seed: int, order: Order
) -> None:
    before, after = with_lent(old, seed), with_lent(new, seed + 1)
    plan = plan_of(before, after)
    assert plan is not None or plan_of(old, new) is None
    if plan is None:
        return
    observed, desired = fleets.observed(before), fleets.desired(after, before)
    for found in (any_order(order, plan), as_converged(plan)):
        fleet = carry_out(Fleet(observed, desired), found)
        assert fleet.nodes == after
        assert steps(fleet.observed(), desired).steps == ()


@LAWS
@given(fleets.states(), fleets.states(), SEEDS, ORDERS, st.floats(0, 1))
def test_a_run_killed_while_memory_is_given_back_is_continued(
    old: dict[str, NodeState], new: dict[str, NodeState], seed: int, order: Order, share: float
) -> None:
    before, after = with_lent(old, seed), with_lent(new, seed + 1)
    plan, desired = plan_of(before, after), fleets.desired(after, before)
    if plan is None:
        return
    begun = Fleet(fleets.observed(before), desired)
    promised = begun.guaranteed
    found = any_order(order, plan)
    cut = carry_out(begun, found[: round(share * len(found))])
    now = Fleet(cut.observed(), desired).guaranteed
    again = plan_between(cut.observed(), desired)
    assert again is not None or any(now[service] > promised[service] for service in now)
    if again is not None:
        assert carry_out(Fleet(cut.observed(), desired), any_order(order, again)).nodes == after


def lending_all(states: dict[str, NodeState], *names: str) -> dict[str, NodeState]:
    """All that is free on these nodes is lent to a job there."""
    found = dict(states)
    for name in names:
        ones = {**states[name].allocations, "train-0": fleets.allocation("train-0", (2,), (), 10)}
        free = fleets.MEMORY - sum(one.slice.memory_max or 0 for one in ones.values())
        job = ones["train-0"]
        ones["train-0"] = job.model_copy(update={"slice": job.slice.model_copy(update=lending.limits(10, 10 + free))})
        found[name] = fleets.node(ones)
    return found


def test_a_replica_that_stands_in_has_its_memory_from_who_borrows_there_and_it_is_lent_again() -> None:
    """Without the loan there would be an order, so with it there is one."""
    before, after = lending_all(full("x"), "n2"), lending_all(full("y"), "n2")
    plan = steps(fleets.observed(before), fleets.desired(after, before))
    order = [step.id for step in plan.steps if step.node == "n2" and step.verb in (Verb.SLICE, Verb.RELEASE)]
    assert order == ["n2/slice/train-0/recall", "n2/slice/chat-0", "n2/release/chat-0", "n2/slice/train-0/lend"]
    assert not any(step.verb is Verb.STOP and step.allocation == "train-0" for step in plan.steps), "nothing is stopped for it"
    done = carry_out(Fleet(fleets.observed(before), fleets.desired(after, before)), list(plan.steps))
    assert done.nodes == after


def test_only_where_it_is_needed_is_anything_given_back() -> None:
    one, two = full("x"), full("y")
    before, after = ({**lending_all({**states, "n3": fleets.node({})}, "n2", "n3")} for states in (one, two))
    plan = steps(fleets.observed(before), fleets.desired(after, before))
    assert len([step for step in plan.steps if step.id.endswith("/recall")]) == 1


def test_a_part_of_a_change_gets_back_what_the_rest_was_lent() -> None:
    """Else `--only` could place nothing where another team borrows."""
    before = lending_all({"n1": fleets.node({})}, "n1")
    job, chat = before["n1"].allocations["train-0"], fleets.allocation("chat-0", (0,), (), 40)
    less = job.model_copy(update={"slice": job.slice.model_copy(update=lending.limits(10, 60))})
    after = {"n1": fleets.node({"train-0": less, "chat-0": chat})}
    asked = only("n1", ["n1"], None)
    assert asked
    chosen = type(asked)(workloads=frozenset({"chat"}), text="chat")
    plan = steps(fleets.observed(before), fleets.desired(after, before), only=chosen)
    assert [step.id for step in plan.steps if step.verb is Verb.SLICE] == ["n1/slice/train-0", "n1/slice/chat-0"]


def lent(one: AllocationState, held: int, most: int) -> AllocationState:
    return one.model_copy(update={"slice": one.slice.model_copy(update=lending.limits(held, most))})


@pytest.mark.parametrize("found", ["leaves", "stays"])
def test_no_loan_keeps_a_part_of_a_change_from_being_made(found: str) -> None:
    """Neither that of who leaves later, nor one to those that come, of memory that who leaves later still has."""
    job = fleets.allocation("train-0", (2,), (), 40)
    chat = fleets.allocation("chat-0", (0,), (), 40)
    if found == "leaves":
        before, after = {"train-0": lent(job, 40, 100)}, {"chat-0": chat}
    else:
        before, after = {"train-0": job}, {"chat-0": lent(chat, 40, 100)}
    states = {"n1": fleets.node(before)}, {"n1": fleets.node(after)}
    observed, desired = fleets.observed(states[0]), fleets.desired(states[1], states[0])
    asked = Only(workloads=frozenset({"chat"}), text="chat")
    plan = steps(observed, desired, only=asked)
    done = carry_out(Fleet(observed, desired), list(plan.steps))
    assert {name: one.slice.memory_max for name, one in done.nodes["n1"].allocations.items()} == {"train-0": 40, "chat-0": 40}
    rest = steps(done.observed(), desired)
    assert carry_out(Fleet(done.observed(), desired), list(rest.steps)).nodes == states[1]


def opened(states: dict[str, NodeState], node: str, name: str) -> dict[str, NodeState]:
    """The same, where its slice was opened by hand: it reads as if it held another card too, and all cores."""
    ones = states[node].allocations
    every = ones[name].slice.model_copy(update={"cpus": f"0-{fleets.CPUS - 1}"})
    wide = ones[name].model_copy(update={"gpus": (Device.parse(1), *ones[name].gpus), "slice": every})
    return states | {node: states[node].model_copy(update={"allocations": ones | {name: wide}})}


@pytest.mark.parametrize("by_hand", [False, True])
def test_who_returns_memory_keeps_what_is_recorded_of_it_and_not_what_was_changed_by_hand(by_hand: bool) -> None:
    """Else what was opened by hand is recorded as its own, and another one does not get its card."""
    before, after = lending_all(full("x"), "n2"), lending_all(full("y"), "n2")
    found = opened(before, "n2", "train-0") if by_hand else before
    plan = steps(fleets.observed(found), fleets.desired(after, found))
    (step,) = (step for step in plan.steps if step.id.endswith("/recall"))
    (want,) = step.want["allocations"].values()
    assert want == {"workload": "train", "slice": {"memory_low": 10, "memory_high": 0, "memory_max": 10}}


def test_who_makes_way_for_a_part_keeps_what_is_recorded_of_it() -> None:
    job, chat = fleets.allocation("train-0", (2,), (), 40), fleets.allocation("chat-0", (0,), (5,), 40)
    before = {"n1": fleets.node({"train-0": lent(job, 40, 100)})}
    after = {"n1": fleets.node({"train-0": lent(job, 40, 60), "chat-0": chat})}
    found = opened(before, "n1", "train-0")
    asked = Only(workloads=frozenset({"chat"}), text="chat")
    plan = steps(fleets.observed(found), fleets.desired(after, found), only=asked)
    (step,) = (step for step in plan.steps if step.allocation == "train-0")
    (want,) = step.want["allocations"].values()
    assert want == {
        "workload": "train",
        "slice": {"cpus": "0-4", "memory_low": 40, "memory_high": 40, "memory_max": 60},
    }


@LAWS
@given(fleets.states(), fleets.states(), SEEDS, PARTS, ORDERS)
def test_what_is_lent_leaves_no_more_of_a_part_for_later(
    old: dict[str, NodeState], new: dict[str, NodeState], seed: int, asked: Only, order: Order
) -> None:
    before, after = with_lent(old, seed), with_lent(new, seed + 1)
    observed, desired = fleets.observed(before), fleets.desired(after, before)
    found = part(observed, desired, asked)
    assert found.left.keys() <= part(fleets.observed(old), fleets.desired(new, old), asked).left.keys()
    try:
        plan = steps(observed, desired, only=asked)
    except Refused:
        return
    for each in (any_order(order, plan), as_converged(plan)):
        carry_out(Fleet(observed, found.desired), each)
