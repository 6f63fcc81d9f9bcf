"""No node stops, starts, delays or ends work elsewhere by what it names: only what this fleet placed there counts.

Fails on 3f04825: a node that named a member of a gang, or its failed end, stopped the gang everywhere; one that named
enough to stop had the whole run refused; one that named a replica that is to start elsewhere held it up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.errors import Refused
from swarm_iac.model.state import AllocationState, Desired, LedgerHead, NodeState, Observed, UnitState
from swarm_iac.model.step import Plan, Step, StepResult, Verb
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_operations
from swarm_iac.provider.operations.fleet_operations import Before
from swarm_iac.run_options import RunOptions

JOB = UnitState(user="ada", command="train", restart=False, gang=True)


def member(workload: str = "train", **more: Any) -> AllocationState:
    return AllocationState(workload=workload, unit=JOB.model_copy(update=more))


def node(name: str, *members: str) -> Desired:
    state = NodeState(allocations={one: member(one.rpartition("-")[0]) for one in members})
    kinds: Any = dict.fromkeys(members, "together")
    return Desired(node=name, address=f"root@{name}", fleet="lab", state=state, handover=kinds)


class Fleet:
    """Machines that answer what the test says, and remember which steps they were given."""

    def __init__(self, seen: dict[str, Observed]) -> None:
        self.seen = seen
        self.ran: list[Step] = []

    def agent(self) -> str:
        return ""

    def observe(self, targets: Mapping[str, str]) -> dict[str, Observed]:
        return {name: self.seen[name] for name in targets}

    def claimed(self, nodes: Mapping[str, Desired], **more: Any) -> AbstractContextManager[str]:
        return nullcontext("a-run")

    def converge(
        self, plan: Plan, desired: Mapping[str, Desired], *, lineage: str, serial: int, run: str,
        on_progress: Callable[[str], None], stop: threading.Event,
    ) -> dict[str, StepResult]:  # fmt: skip
        self.ran += plan.steps
        return {step.id: StepResult(id=step.id, ok=True) for step in plan.steps}


NODES = {"a": node("a", "train-0"), "b": node("b", "train-1"), "evil": node("evil", "other-0")}


def inputs(nodes: Mapping[str, Desired] = NODES) -> dict[str, Any]:
    return {"fleet": "lab", "lineage": "L", "spec": spec.pack(nodes)}


def observed(name: str, claims: Mapping[str, AllocationState] | None = None, **health: str) -> Observed:
    state = NODES[name].state
    state = state.model_copy(update={"allocations": {**state.allocations, **(claims or {})}})
    told = {**dict.fromkeys(state.allocations, "healthy"), **{key.replace("_", "-"): how for key, how in health.items()}}
    return Observed(node=name, ledger=LedgerHead(lineage="L", serial=3, fleet="lab"), state=state, health=told)


def run(
    evil: Observed, nodes: Mapping[str, Desired] = NODES, serial: int = 3, own: Path | None = None
) -> tuple[Fleet, fleet_operations.Outcome]:
    machines = Fleet({"a": observed("a"), "b": observed("b"), "evil": evil})
    before = Before(inputs(), {"serial": serial}, {})
    options = RunOptions(state_home=own)
    done = fleet_operations.apply(
        machines, inputs(nodes), before, options, on_progress=lambda line: None, stop=threading.Event()
    )  # type: ignore[arg-type]
    return machines, done


@pytest.mark.parametrize(
    ("claims", "health"),
    [
        ({"train-9": member()}, {}),
        ({"train-1": member()}, {}),
        ({"train-1": member(active=False)}, {"train_1": "failed"}),
        ({"train-9": member(active=False)}, {"train_9": "failed"}),
        ({"x-0": member("train", active=False)}, {"x_0": "failed"}),
        ({"train-0": member(), "train-1": member()}, {"train_0": "done", "train_1": "done"}),
        ({f"x-{number}": member("x") for number in range(500)}, {}),
    ],
    ids=["a-member-more", "a-member", "its-failed-end", "anothers-failed-end", "a-workload", "their-end", "hundreds"],
)
def test_what_a_node_names_changes_no_other_node(claims: dict[str, AllocationState], health: dict[str, str]) -> None:
    machines, done = run(observed("evil", claims, **health))
    assert {step.node for step in machines.ran} <= {"evil"}, "another node was given steps"
    assert {step.allocation for step in machines.ran} == claims.keys()
    assert any("evil: " in words and "not placed there by this fleet" in words for words in done.warnings)
    assert not any(name in ("train-0", "train-1") and kind == "Allocation" for kind, name in done.failures)


def test_what_a_node_names_holds_no_start_elsewhere_up() -> None:
    wanted = {**NODES, "b": node("b", "train-1", "new-0")}
    machines, _ = run(observed("evil", {"new-0": member("new")}), wanted)
    starts = [step for step in machines.ran if step.verb is Verb.START]
    assert [step.id for step in starts] == ["b/start/new-0"]
    assert not any(after.startswith("evil/") for step in machines.ran if step.node != "evil" for after in step.after)


def test_what_is_asked_for_on_that_node_waits_for_what_it_gives_back() -> None:
    wanted = {**NODES, "evil": node("evil", "other-0", "new-0")}
    machines, _ = run(observed("evil", {"x-0": member("x")}), wanted)
    assert "evil/release/x-0" in next(step.after for step in machines.ran if step.id == "evil/slice/new-0")


def test_what_a_killed_run_placed_counts_though_the_state_knows_nothing_of_it(tmp_path: Path) -> None:
    from swarm_iac.reconcile import pending_placement

    pending_placement.begin(tmp_path, "L", 4, [("evil", "train-9")], 3)
    machines, _ = run(observed("evil", {"train-9": member()}), own=tmp_path)
    assert {"a/stop/train-0", "b/stop/train-1"} <= {step.id for step in machines.ran}, "a gang starts whole"
    again, _ = run(observed("evil", {"train-9": member()}), serial=5, own=tmp_path)
    assert {step.node for step in again.ran} == {"evil"}, "the state has caught up"


@pytest.mark.parametrize(
    "head",
    [
        LedgerHead(lineage="M", serial=3, fleet="lab"),
        LedgerHead(lineage="L", serial=3, fleet="other"),
        LedgerHead(lineage="M", serial=1 << 50, fleet="other"),
        LedgerHead(lineage="L", serial=1 << 50, fleet="lab"),
        LedgerHead(lineage="L", serial=2000, fleet="lab"),
    ],
    ids=lambda head: f"{head.lineage}-{head.fleet}-{head.serial}",
)
def test_what_a_node_says_of_its_owner_keeps_nobody_from_changing(head: LedgerHead) -> None:
    wanted = {**NODES, "b": node("b", "train-1", "new-0")}
    machines, done = run(observed("evil").model_copy(update={"ledger": head}), wanted)
    assert "b/start/new-0" in {step.id for step in machines.ran}
    assert done.outputs["serial"] <= 4, "no node drives the others' serial"
    if (head.lineage, head.fleet) != ("L", "lab"):
        assert any(f"evil: it was ours, and its ledger names fleet {head.fleet}" in words for words in done.warnings)


def test_a_state_that_most_nodes_disown_is_refused_as_ever() -> None:
    taken = LedgerHead(lineage="M", serial=3, fleet="lab")
    machines = Fleet({name: observed(name).model_copy(update={"ledger": taken}) for name in NODES})
    before = Before(inputs(), {"serial": 3}, {})
    with pytest.raises(Refused, match="a, b, evil: belongs to fleet lab"):
        fleet_operations.apply(machines, inputs(), before, RunOptions(), on_progress=lambda line: None, stop=threading.Event())  # type: ignore[arg-type]
