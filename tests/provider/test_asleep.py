"""Is a node that is powered off on purpose left out, without a failure, unless something is to run there?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

from swarm_iac.model.state import AllocationState, Desired, LedgerHead, NodeState, Observed, SettingsState, UnitState
from swarm_iac.model.step import Plan, Step, StepResult
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_operations, fleet_rows
from swarm_iac.provider.operations.fleet_operations import Before, Outcome
from swarm_iac.provider.operations.fleet_rows import as_rows
from swarm_iac.run_options import RunOptions
from tests.solver.fleets import stack_of

WORDS = "is powered off since 2026-06-01 10:00 UTC: idle for 15 min"


def node(name: str, *allocations: str, swappiness: int = 10) -> Desired:
    held = {one: AllocationState(workload="chat", unit=UnitState(user="cy", command="serve")) for one in allocations}
    state = NodeState(allocations=held, settings=SettingsState(sysctl={"vm.swappiness": str(swappiness)}))
    return Desired(node=name, address=f"root@{name}", fleet="lab", state=state)


class Machines:
    """`a` answers; `b` is off."""

    def __init__(self, *, asleep: bool = True) -> None:
        self.asleep = asleep
        self.ran: list[Step] = []
        self.claims: set[str] = set()
        self.seen = {"a": node("a", "chat-0").state, "b": node("b").state}

    def agent(self) -> str:
        return ""

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        head = LedgerHead(lineage="L", serial=3, fleet="lab")
        found = {
            name: Observed(node=name, ledger=head, state=state, health=dict.fromkeys(state.allocations, "healthy"))
            for name, state in self.seen.items()
        }
        if self.asleep:
            found["b"] = Observed(node="b", error=WORDS, asleep=True)
        return {name: found[name] for name in targets}

    def claimed(self, nodes: Mapping[str, Desired], **more: Any) -> AbstractContextManager[str]:
        self.claims |= {*nodes}
        return nullcontext("a-run")

    def converge(
        self, plan: Plan, desired: Mapping[str, Desired], *, lineage: str, serial: int, run: str,
        on_progress: Callable[[str], None], stop: threading.Event,
    ) -> dict[str, StepResult]:  # fmt: skip
        self.ran += plan.steps
        for name in {step.node for step in plan.steps}:
            self.seen[name] = desired[name].state
        return {step.id: StepResult(id=step.id, ok=True) for step in plan.steps}


def inputs(*nodes: Desired) -> dict[str, Any]:
    return {"fleet": "lab", "lineage": "L", "spec": spec.pack({one.node: one for one in nodes})}


FIRST = (node("a", "chat-0"), node("b"))


def run(machines: Machines, *nodes: Desired) -> Outcome:
    rows = as_rows({one.node: one.state for one in FIRST})
    before = Before(inputs(*FIRST), {"serial": 3}, rows)
    quiet: Any = {"on_progress": lambda line: None, "stop": threading.Event()}
    return fleet_operations.apply(machines, inputs(*nodes), before, RunOptions(), **quiet)


def test_what_a_node_that_is_off_has_is_neither_drift_nor_a_failure() -> None:
    machines = Machines()
    rows = as_rows({one.node: one.state for one in FIRST})
    found = fleet_operations.read(machines, Before(inputs(*FIRST), {"serial": 3}, rows), RunOptions())
    assert found.outputs["drift"] == [] and found.rows == rows
    assert f"powered off: b: {WORDS}" in found.warnings
    assert not any("unreachable" in words or "set `state: lost`" in words for words in found.warnings)
    done = run(machines, *FIRST)
    assert not done.failures and not machines.ran


def test_its_settings_wait_for_it_and_are_set_once_it_is_on() -> None:
    machines = Machines()
    wanted = (node("a", "chat-0", swappiness=20), node("b", swappiness=20))
    done = run(machines, *wanted)
    assert not done.failures and {step.node for step in machines.ran} == {"a"} and machines.claims == {"a"}
    machines.asleep = False
    before = Before(inputs(*wanted), done.outputs, done.rows)
    assert fleet_operations.read(machines, before, RunOptions()).outputs["drift"] == ["b/settings"]


def test_what_is_to_run_there_fails_by_name() -> None:
    machines = Machines()
    done = run(machines, node("a", "chat-0"), node("b", "chat-1"))
    assert {name for _, name in done.failures} >= {"chat-1"} and WORDS in str(done.failures)
    assert not machines.ran


def test_a_node_that_leaves_the_stack_while_it_is_off_is_still_to_be_restored() -> None:
    done = run(Machines(), node("a", "chat-0"))
    assert ("Node", "b") in done.failures and "b" in done.outputs["leaving"]


def test_a_node_that_an_autopilot_elsewhere_may_have_powered_off_is_not_taken_for_lost() -> None:
    """An `up` from another clone does not know that it is off, and its hint would have its work placed twice."""
    nodes = {"a": {"power_saving": "idle"}, "b": {}, "c": {"power_saving": "idle"}}
    stack = stack_of(nodes, {}, power_saving={"idle": {"keep": 0}})
    observed = {name: Observed(node=name, error="" if name == "c" else "no route to host") for name in nodes}
    dark = {name: one.error for name, one in observed.items() if one.error}
    target = SimpleNamespace(stack=lambda: stack)
    seen: Any = SimpleNamespace(observed=observed, unreachable=dark, plan=Plan(), transition=SimpleNamespace(target=target))
    first, second = fleet_rows.warnings(seen)
    assert first.startswith("a, b: changes deferred") and second.startswith("a: under `power_saving`, and perhaps powered off")
    target.stack = lambda: None  # of a state that has no request
    assert len(fleet_rows.warnings(seen)) == 1
