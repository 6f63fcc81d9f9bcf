"""Does `swarm plan` refuse whatever `swarm up` refuses, guard by guard, with or without Pulumi's state at hand?"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from swarm_iac import observe as asking
from swarm_iac.decision import decide, request
from swarm_iac.model.state import LedgerHead, Observed
from swarm_iac.plan import guards
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_operations
from swarm_iac.provider.operations.fleet_operations import Before
from swarm_iac.reach.node_program import agent_digest
from swarm_iac.run_options import RunOptions
from tests.cli.typed import Ended, swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes:
  n1: {hardware: h, ssh: root@n1.invalid}
  n2: {hardware: h, ssh: root@n2.invalid}
workloads:
  a: {user: ada, kind: train, each: {gpus: 6}}
  b: {user: bo, kind: train, each: {gpus: 6}}
  c: {user: bo, kind: train, each: {gpus: 1}}
solve: {stops: 2}
"""
TODAY = datetime.date(2026, 6, 1)


@dataclass
class Fleet:
    """A fleet that was applied: its stack and lock, the state that Pulumi keeps of it, and its machines."""

    root: Path
    machines: dict[str, Observed]
    inputs: dict[str, Any]
    outputs: dict[str, Any]

    def stack(self, text: str) -> None:
        (self.root / "stacks" / "lab.yaml").write_text(text)

    def state(self) -> None:
        """Leave the state where Pulumi would."""
        lineage = {"urn": "urn:pulumi:lab::lab::swarm:index:Lineage::lab", "type": "swarm:index:Lineage", "id": "L"}
        fleet = {"urn": "urn:pulumi:lab::lab::swarm:index:Fleet::lab", "type": "swarm:index:Fleet", "id": "lab",
                 "inputs": self.inputs, "outputs": self.outputs}  # fmt: skip
        folder = self.root / ".state" / ".pulumi" / "stacks" / "lab"
        folder.mkdir(parents=True)
        (folder / "lab.json").write_text(json.dumps({"checkpoint": {"latest": {"resources": [lineage, fleet]}}}))

    def agent(self) -> str:
        return ""

    def observe(self, targets: Mapping[str, str], **_: Any) -> dict[str, Observed]:
        return {node: self.machines[node] for node in targets}

    def plan(self, *words: str) -> Ended:
        with patch.object(asking, "observe", self.observe):
            return swarm("plan", "lab", *words, at=self.root, width=300)

    def up(self) -> str:
        """What the preview of `up` refuses, by a request of today's stack file; empty: nothing."""
        with contextlib.chdir(self.root):
            asked = request(decide(self.root, "lab", today=TODAY), TODAY)
        news = {"lineage": "L", "request": spec.pack_request(asked), **spec.derived(asked)}
        done = fleet_operations.preview(self, news, Before(self.inputs, self.outputs), RunOptions())  # type: ignore[arg-type]
        return str(done.refused or "")


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\nruntime: python\nbackend: {url: 'file://./.state'}\n")
    (tmp_path / "Pulumi.lab.yaml").write_text("{}\n")
    (tmp_path / "stacks").mkdir()
    found = Fleet(tmp_path, {}, {}, {})
    found.stack(STACK)
    assert swarm("solve", "lab", "--offline", at=tmp_path).code == 0
    asked = request(decide(tmp_path, "lab", today=TODAY), TODAY)
    found.inputs = {"lineage": "L", "request": spec.pack_request(asked), **spec.derived(asked)}
    found.outputs = {"serial": 3}
    head = LedgerHead(lineage="L", serial=3, fleet="lab")
    found.machines = {
        name: Observed(
            node=name,
            ledger=head,
            state=one.state,
            agent=agent_digest(),
            health=dict.fromkeys(one.state.allocations, "healthy"),
        )
        for name, one in asked.nodes().items()
    }
    return found


def foreign(fleet: Fleet) -> None:
    other = LedgerHead(lineage="M", serial=3, fleet="lab")
    fleet.machines = {name: seen.model_copy(update={"ledger": other}) for name, seen in fleet.machines.items()}


def renamed(fleet: Fleet) -> None:
    fleet.stack(STACK.replace("fleet: lab", "fleet: lba"))


def unseen(fleet: Fleet) -> None:
    """What stands on a cordoned node by the lock, and is not there."""
    node = next(name for name, seen in fleet.machines.items() if "a-0" in seen.state.allocations)
    fleet.stack(STACK.replace(f"{node}: {{", f"{node}: {{state: cordon, "))
    bare = fleet.machines[node].state.model_copy(update={"allocations": {}})
    fleet.machines[node] = fleet.machines[node].model_copy(update={"state": bare, "health": {}})


def removed(fleet: Fleet) -> None:
    fleet.stack(
        STACK.replace("  n2: {hardware: h, ssh: root@n2.invalid}\n", "").replace("solve: {stops: 2}", "solve: {stops: 9}")
    )


def stopped(fleet: Fleet) -> None:
    fleet.stack(
        STACK.replace("solve: {stops: 2}", "solve: {stops: 0}").replace("  c: {user: bo, kind: train, each: {gpus: 1}}\n", "")
    )


def emptied(fleet: Fleet) -> None:
    fleet.stack(STACK[: STACK.index("workloads:")] + "solve: {stops: 9}\n")


#: What brings a guard about, the guard, and its words.
CASES = {
    "foreign": (
        foreign,
        guards.refuse_foreign,
        "belongs to fleet lab (lineage M), and this repository's state is of lineage L",
    ),
    "rename": (renamed, guards.refuse_rename, "belong to the fleet lab, and the stack file says lba"),
    "unseen": (unseen, guards.refuse_unseen, "the lock file says that it runs, and the machines do not show it"),
    "removal": (removed, guards.refuse_removal, "1 node that left the stack still holds"),
    "stops": (stopped, guards.refuse_mass_stop, "this would stop 1 running allocation (c-0), and solve.stops is 0"),
    "emptied": (emptied, guards.refuse_emptied, "this would stop all 3 running allocations"),
}


def test_every_guard_has_a_case() -> None:
    tried = {guard.__name__ for _, guard, _ in CASES.values()}
    named = {name for name in vars(guards) if name.startswith("refuse_")}
    assert named - tried == {"refuse_left"}, "the words of refuse_removal, where no address is known"


def test_what_nobody_refuses_is_planned(fleet: Fleet) -> None:
    fleet.state()
    assert fleet.up() == "" and fleet.plan().code == 0


@pytest.mark.parametrize("name", CASES)
def test_a_guard_refuses_in_both(name: str, fleet: Fleet) -> None:
    bring, _, words = CASES[name]
    fleet.state()
    bring(fleet)
    refused = fleet.up()
    assert words in refused
    said = fleet.plan()
    assert said.code == 3 and refused in said.err, said.err


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"foreign"}))
def test_without_a_state_at_hand_the_lock_says_as_much(name: str, fleet: Fleet) -> None:
    """Only the lineage is recorded nowhere else."""
    bring, _, words = CASES[name]
    bring(fleet)
    said = fleet.plan()
    assert said.code == 3 and words in said.err, said.err


@pytest.mark.parametrize("name", CASES)
def test_a_guard_that_is_left_out_of_both_would_be_missed(name: str, fleet: Fleet) -> None:
    bring, guard, words = CASES[name]
    fleet.state()
    bring(fleet)
    with patch.object(guards, guard.__name__, lambda *_: None):
        assert words not in fleet.up() and words not in fleet.plan().err


def test_a_node_that_left_is_read_and_given_back_in_the_plan(fleet: Fleet) -> None:
    """Its address is in the state alone."""
    left = next(name for name, seen in fleet.machines.items() if "c-0" in seen.state.allocations)
    idle = fleet.machines[left].state.model_copy(update={"allocations": {}})
    fleet.machines[left] = fleet.machines[left].model_copy(update={"state": idle, "health": {}})
    fleet.state()
    fleet.stack("\n".join(line for line in STACK.splitlines() if not line.startswith(f"  {left}:")) + "\n")
    said = fleet.plan("--json")
    assert [step["verb"] for step in json.loads(said.out)["steps"] if step["node"] == left] == ["restore"], said.err
    assert fleet.plan().code == 0


@pytest.mark.parametrize("recorded", [False, True])
def test_what_may_still_run_on_an_unreachable_node_is_planned_nowhere_else(recorded: bool, fleet: Fleet) -> None:
    """As for `up`: the record says what was there, be it the state or the lock."""
    dark = next(name for name, seen in fleet.machines.items() if "c-0" in seen.state.allocations)
    fleet.machines[dark] = Observed(node=dark, error="no route to host")
    if recorded:
        fleet.state()
    fleet.stack(STACK.replace(f"{dark}: {{", f"{dark}: {{state: drain, "))
    said = fleet.plan("--json")
    steps = json.loads(said.out)["steps"]
    assert not [step for step in steps if step["verb"] == "start"], said.out
    assert f"left out, waits for {dark}" in said.out and "start/c-0" in said.out
