"""Do settings go to one node first, then to a few at a time, and does one failure keep the rest as they are?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.settings import SettingsState
from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired, GpuState, LedgerHead, NodeState, Observed
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan import steps
from tests.plan import fleets
from tests.plan.conftest import LAWS


def state(value: str, busy: bool = False) -> NodeState:
    held = {"train-0": fleets.allocation("train-0", (), (), 1)} if busy else {}
    return NodeState(settings=SettingsState(sysctl={"vm.swappiness": value}), allocations=fleets.node(held).allocations)


def plan(
    values: list[tuple[str, str]],
    at_once: int,
    busy: frozenset[int] = frozenset(),
    retry: bool = False,
    **seen: dict[str, object],
) -> Plan:
    """`values`: old and new of each node; `seen`: what else is known of it."""
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    names = [f"n{number:02}" for number in range(len(values))]
    observed = {
        name: Observed.model_validate({"node": name, "ledger": head, "state": state(old, number in busy), **seen.get(name, {})})
        for number, (name, (old, _)) in enumerate(zip(names, values, strict=True))
    }
    desired = {
        name: Desired(node=name, address="local", fleet="f", state=state(new, number in busy))
        for number, (name, (_, new)) in enumerate(zip(names, values, strict=True))
    }
    return steps(observed, desired, budget=Solve(max_unavailable=at_once), retry=retry)


def settings(found: Plan) -> list[Step]:
    return [step for step in found.steps if step.verb is Verb.SETTINGS]


@LAWS
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 11))
def test_never_more_than_a_few_change_at_once_nor_any_after_a_failure(count: int, at_once: int, failing: int) -> None:
    found = settings(plan([("60", "10")] * count, at_once))
    assert len(found) == count
    done: set[str] = set()
    first = True
    while True:
        ready = [step for step in found if step.id not in done and set(step.after) <= done]
        assert len(ready) <= (1 if first else at_once)
        if not ready or any(step.node == f"n{failing:02}" for step in ready):
            break
        done |= {step.id for step in ready}
        first = False
    assert failing >= count or len(done) <= count - 1


def test_the_canary_is_the_node_with_the_least_work() -> None:
    found = settings(plan([("60", "10")] * 3, 5, busy=frozenset({0, 1})))
    assert {step.node: step.after for step in found} == {
        "n00": ("n02/settings",), "n01": ("n02/settings",), "n02": (),
    }  # fmt: skip


def test_other_values_roll_out_by_themselves() -> None:
    found = settings(plan([("60", "10"), ("60", "20"), ("60", "10")], 5))
    assert {step.node: step.after for step in found} == {"n00": (), "n01": (), "n02": ("n00/settings",)}


def test_a_node_that_is_dark_or_new_holds_up_nobody() -> None:
    found = settings(plan([("60", "10")] * 4, 5, n00={"error": "no route"}, n01={"ledger": None}))
    assert {step.node: step.after for step in found} == {"n01": ("n01/prepare",), "n02": (), "n03": ("n02/settings",)}


FAILED = {"rollout_failures": {'settings.sysctl["vm.swappiness"]': {"value": "10", "why": "it broke", "serial": 7}}}


def test_what_failed_on_one_node_is_never_tried_on_another_nor_again() -> None:
    found = plan([("60", "10")] * 3 + [("10", "10")], 5, n01=FAILED)
    assert found.steps == ()
    assert [(left.step.id, left.cause) for left in found.deferred] == [(f"n0{each}/settings", "halted") for each in range(3)]
    assert "halted on n01, run 7 (it broke)" in found.deferred[1].why
    (told,) = found.warnings
    assert "the roll-out of vm.swappiness = 10 halted on n01, run 7 (it broke)" in told
    assert "untouched: n00, n02; done before: n03" in told and "swarm up --retry" in told


def test_a_roll_out_is_tried_again_where_it_failed_first() -> None:
    found = plan([("60", "10")] * 3, 5, retry=True, n01=FAILED)
    assert {step.node: step.after for step in settings(found)} == {
        "n00": ("n01/settings",), "n01": (), "n02": ("n01/settings",),
    }  # fmt: skip
    assert found.deferred == () and found.warnings == ("n01: vm.swappiness = 10 failed in run 7 (it broke) and is tried again",)


def test_another_value_is_another_roll_out() -> None:
    found = plan([("60", "20")] * 3, 5, n01=FAILED)
    assert len(settings(found)) == 3 and found.warnings == ()


def test_a_value_that_nobody_else_waits_for_is_tried_again_and_told() -> None:
    found = plan([("10", "10"), ("60", "10")], 5, n01=FAILED)
    assert len(settings(found)) == 1 and "is tried again" in found.warnings[0]


def test_a_value_that_made_a_node_unreachable_is_not_tried_on_the_next() -> None:
    found = plan([("60", "10")] * 3, 5, n01={**FAILED, "error": "no route"})
    assert found.steps == () and {left.cause for left in found.deferred} == {"unreachable", "halted"}


def test_cards_of_a_node_wait_for_its_settings() -> None:
    def both(power: int) -> NodeState:
        return state(str(power)).model_copy(update={"gpus": {0: GpuState(power_w=power)}})

    head = LedgerHead(lineage="l", serial=1, fleet="f")
    names = ("n1", "n2")
    found = steps(
        {name: Observed(node=name, ledger=head, state=both(300)) for name in names},
        {name: Desired(node=name, address="local", fleet="f", state=both(400)) for name in names},
    )
    assert {step.id: step.after for step in found.steps} == {
        "n1/settings": (), "n1/gpus": ("n1/settings",),
        "n2/settings": ("n1/gpus", "n1/settings"), "n2/gpus": ("n1/gpus", "n1/settings", "n2/settings"),
    }  # fmt: skip
    assert {step.rollout for step in found.steps} == {names}
