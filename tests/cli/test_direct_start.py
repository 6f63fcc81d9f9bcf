"""Is anything but a new replica, on nodes that are as they should be, left to `up`?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli.machines import direct_start, state_file
from swarm_iac.cli.machines.autopilot_loop import Autopilot
from swarm_iac.decision import Decision
from swarm_iac.errors import Refused, Retryable
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer, NodePower
from swarm_iac.model.state import LedgerHead, Observed
from swarm_iac.model.step import StepResult
from swarm_iac.plan import desired
from swarm_iac.reach.node_program import agent_digest
from swarm_iac.reconcile import Records
from tests.cli.test_autopilot import pilot, swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 2 x H100, vcpus: 64, memory: 1 TB}}
tuning: {fast: {swappiness: 10}}
nodes: {"n[1-3]": {hardware: h, ssh: "root@{name}.invalid"}}
workloads:
  chat:
    user: ada
    kind: serve
    replicas: 2..4
    scale: {on: requests_per_replica, target: 40}
    each: {gpus: 1}
    run: {command: serve}
"""


class Fleet:
    """Nodes as the lock says, on which the live replicas are not yet."""

    def __init__(self, decision: Decision, layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decision, self.layer = decision, layer
        wanted = desired(decision.stack, decision.placement)
        head = LedgerHead(lineage="L", serial=4, fleet="lab")
        self.records = Records(lineage="L", serial=4, applied=wanted)
        self.seen = {
            name: Observed(node=name, state=one.state, ledger=head, agent=agent_digest(),
                           health=dict.fromkeys(one.state.allocations, "healthy"))
            for name, one in wanted.items()
        }  # fmt: skip
        self.asked: list[str] = []
        self.claims: list[Mapping[str, Any]] = []
        self.steps: list[str] = []
        self.serials: set[int] = set()
        monkeypatch.setattr(state_file, "records", lambda root, name: self.records)
        monkeypatch.setattr("swarm_iac.observe.observe", self.observe)
        monkeypatch.setattr("swarm_iac.converge.claimed", self.claimed)
        monkeypatch.setattr("swarm_iac.converge.converge", self.converge)

    def observe(self, targets: Mapping[str, str], **_: Any) -> dict[str, Observed]:
        self.asked += targets
        return {name: self.seen[name] for name in targets}

    @contextlib.contextmanager
    def claimed(self, targets: Mapping[str, Any], **_: Any) -> Iterator[None]:
        self.claims.append(targets)
        yield

    def converge(self, plan: Any, wanted: Mapping[str, Any], **more: Any) -> dict[str, StepResult]:
        assert self.claims and more["directly"]
        self.serials.add(more["serial"])
        self.steps += [step.id for step in plan.steps]
        for name in {step.node for step in plan.steps}:
            state = wanted[name].state
            health = dict.fromkeys(state.allocations, "healthy")
            self.seen[name] = self.seen[name].model_copy(update={"state": state, "health": health})
        return {step.id: StepResult(id=step.id, ok=True, changed=True) for step in plan.steps}

    def start(self) -> str:
        return direct_start.start(self.decision.root, self.decision, self.layer, lambda text: None)

    def refused(self) -> str:
        """It is left to `up`, and nothing was changed."""
        why = self.start()
        assert why and not self.steps, why
        return why


@pytest.fixture
def fleet(root: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "home"))
    (root / "stacks" / "lab.yaml").write_text(STACK)
    swarm(root, "solve", "--stack", "lab")
    (root / "Pulumi.lab.yaml").write_text("")
    (root / "load.json").write_text('{"chat": 140}')
    monkeypatch.chdir(root)
    monkeypatch.setattr(Autopilot, "_apply", lambda self, layer, stack: None)
    one = pilot(root)
    one.once()
    layer = live_file.read(one.path, "lab", "lab")
    assert len(layer.grants) == 2
    return Fleet(one._decision(), layer, monkeypatch)


def test_new_replicas_are_started_and_nothing_else_is_asked(fleet: Fleet) -> None:
    assert fleet.start() == ""
    (node,) = fleet.layer.unapplied
    assert {*fleet.asked} == {node}, "no other node is read"
    assert {step.rpartition("/")[2] for step in fleet.steps} == {"chat-2", "chat-3"}
    assert list(fleet.claims[0]) == ["n1", "n2", "n3"], "the nodes that an `up` would ask"
    assert fleet.serials == {5}
    note = next((Path(os.environ["XDG_STATE_HOME"]) / "swarm" / "placing").glob("*.json")).read_text()
    assert "chat-2" in note and '"serial": 5' in note


def change(fleet: Fleet, node: str, **update: Any) -> None:
    fleet.seen[node] = fleet.seen[node].model_copy(update=update)


def test_a_node_that_differs_otherwise_is_left_to_up(fleet: Fleet) -> None:
    (node,) = fleet.layer.unapplied
    before = fleet.seen[node]
    settings = before.state.settings.model_copy(update={"sysctl": {"vm.swappiness": 10}})
    for update, words in (
        ({"state": before.state.model_copy(update={"settings": settings})}, "is more than a new replica"),
        ({"agent": "other"}, "is more than a new replica"),
        ({"error": "no route to host"}, "does not answer"),
        ({"foreign": ("swarm-x.service",)}, "is not as its ledger says"),
        ({"ledger": LedgerHead(lineage="other", serial=1, fleet="lab")}, ""),
        ({"ledger": LedgerHead(lineage="L", serial=6, fleet="lab")}, "a later run than that of the state"),
        ({"ledger": None}, ""),
    ):
        change(fleet, node, **update)
        assert words in fleet.refused(), update
        fleet.seen[node] = before
    assert fleet.start() == ""


def test_a_node_may_be_read_before_and_after_it_granted_the_claim(fleet: Fleet) -> None:
    (node,) = fleet.layer.unapplied
    change(fleet, node, ledger=LedgerHead(lineage="L", serial=5, fleet="lab"))
    assert fleet.start() == ""
    assert fleet.serials == {5}


def test_a_replica_that_is_there_already_in_another_shape_is_left_to_up(fleet: Fleet) -> None:
    (node,) = fleet.layer.unapplied
    state = fleet.seen[node].state
    other = fleet.seen["n1"].state.allocations["chat-1"]  # with another card
    change(fleet, node, state=state.model_copy(update={"allocations": {**state.allocations, "chat-2": other}}))
    assert fleet.refused()


def test_another_node_that_is_to_change_comes_first(fleet: Fleet) -> None:
    other = next(name for name in fleet.seen if name not in fleet.layer.unapplied)
    was = fleet.records.applied[other]
    settings = was.state.settings.model_copy(update={"sysctl": {"vm.swappiness": 10}})
    fleet.records = Records(
        lineage="L",
        serial=4,
        applied={
            **fleet.records.applied,
            other: was.model_copy(update={"state": was.state.model_copy(update={"settings": settings})}),
        },
    )
    assert fleet.refused() == f"{other} is to change as well"
    off = NodePower(state="off", since=1.0)
    fleet.layer = fleet.layer.model_copy(update={"power": {other: off}})
    assert fleet.start() == "" and list(fleet.claims[0]) == [name for name in ("n1", "n2", "n3") if name != other]


def test_a_name_that_may_run_elsewhere_is_left_to_up(fleet: Fleet) -> None:
    other = next(name for name in fleet.seen if name not in fleet.layer.unapplied)
    fleet.records = Records(lineage="L", serial=4, applied=fleet.records.applied, placed={other: frozenset({"chat-2"})})
    assert fleet.refused() == "chat-2 may run elsewhere"


def test_replicas_that_stop_are_left_to_up(fleet: Fleet) -> None:
    fleet.layer = fleet.layer.model_copy(update={"stopping": 1})
    assert fleet.refused() == "replicas are to stop"


def test_a_state_elsewhere_is_left_to_up(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_file, "records", lambda root, name: None)
    assert fleet.refused() == "the state is not kept in files here"


def test_a_claim_that_another_run_has_changes_nothing(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def held(*_: Any, **__: Any) -> Iterator[None]:
        raise Refused("eve is changing this fleet")
        yield

    monkeypatch.setattr("swarm_iac.converge.claimed", held)
    assert fleet.start() == "eve is changing this fleet" and not fleet.steps


def test_an_up_that_runs_goes_first(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(state: Path, stack: str) -> None:
        raise Retryable("stack lab is being changed by eve")

    monkeypatch.setattr("swarm_iac.live.checkpoint.state_folder", lambda root: root)
    monkeypatch.setattr("swarm_iac.cli.engine_lock.refuse_held", held)
    with pytest.raises(Retryable):
        fleet.start()
    assert not fleet.asked


def test_what_is_not_seen_afterwards_is_left_to_up(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"chat": StepResult(id="x", ok=True)}
    monkeypatch.setattr("swarm_iac.converge.converge", lambda *_, **__: answer)
    assert "is still to be done" in fleet.start()
