"""Do settings go to one node first, then to a few at a time, and does one failure keep the rest as they are?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired, LedgerHead, NodeState, Observed, SettingsState
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan import steps
from tests.plan import fleets
from tests.plan.conftest import LAWS


def state(value: str, busy: bool = False) -> NodeState:
    held = {"train-0": fleets.allocation("train-0", (), (), 1)} if busy else {}
    return NodeState(settings=SettingsState(sysctl={"vm.swappiness": value}), allocations=fleets.node(held).allocations)


def plan(values: list[tuple[str, str]], at_once: int, busy: frozenset[int] = frozenset(), **seen: dict[str, object]) -> Plan:
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
    return steps(observed, desired, budget=Solve(max_unavailable=at_once))


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
