"""Without a machine: do plan, ps and status answer, say that nobody was asked, and since when the last state is?"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import STACK
from tests.cli.typed import swarm


def test_a_fleet_that_was_never_applied_is_shown_whole(root: Path) -> None:
    plan = swarm("plan", "lab", "--offline", at=root)
    assert "No machine was asked" in plan.out and "since there is no lock file" in plan.out
    assert "+ b-0" in plan.out
    assert "lab: 1 to start, 1 node to configure, 1 pending" in plan.out


def test_since_when_the_last_state_is(root: Path) -> None:
    assert swarm("solve", "lab", at=root).code == 0
    then = datetime.datetime(2026, 3, 4, 5, 6).timestamp()
    os.utime(root / "stacks" / "lab.lock.yaml", (then, then))
    said = "lab.lock.yaml of 2026-03-04 05:06"
    plan = swarm("plan", "lab", "--offline", at=root).out
    assert f"Nothing to change against {said}; no machine was asked, so commands and settings are not compared." in plan
    assert "every node that answered" not in plan
    for verb in ("ps", "status"):
        found = swarm(verb, "lab", "--offline", at=root)
        assert found.code == 0
        assert "not asked" in found.out and "healthy" not in found.out
        assert f"no machine was asked; taken from {said}" in found.err
    markdown = swarm("plan", "lab", "--offline", "--markdown", at=root).out
    assert said in markdown
    assert json.loads(swarm("plan", "lab", "--offline", "--json", at=root).out)["offline"] == said


def test_nobody_knows_how_anything_is_that_was_not_asked(root: Path) -> None:
    assert swarm("solve", "lab", at=root).code == 0
    nodes = json.loads(swarm("status", "lab", "--offline", "--json", at=root).out)
    assert nodes["n1"]["health"] == {"b-0": "not asked"}
    assert {one["health"] for one in json.loads(swarm("ps", "lab", "--offline", "--json", at=root).out)} == {
        "not asked",
        "unplaced",
    }


def test_a_lock_file_that_holds_nothing_is_a_lock_file(root: Path) -> None:
    """Nothing had a place, and now something has: the plan is compared with that, and not with no lock file."""
    file = root / "stacks" / "lab.yaml"
    file.write_text(STACK.replace("ssh: root@n1.invalid}", "ssh: root@n1.invalid, state: drain}"))
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(STACK)
    plan = swarm("plan", "lab", "--offline", at=root).out
    assert "Compared with machines on which nothing runs, as lab.lock.yaml of " in plan
    assert "there is no lock file" not in plan and "has no commands" not in plan


def test_another_user_is_a_change(root: Path) -> None:
    """The lock says as whom something runs; on its machine it is started anew."""
    file = root / "stacks" / "lab.yaml"
    file.write_text(STACK.replace("[ada]", "[ada, bo]"))
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(file.read_text().replace("b: {user: ada", "b: {user: bo"))
    plan = swarm("plan", "lab", "--offline", at=root).out
    assert "restarts for: user" in plan and plan.endswith("lab: 1 to restart, 1 pending\n"), plan


def test_the_variable_says_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swarm("solve", "lab", at=root)
    monkeypatch.setenv("SWARM_OFFLINE", "1")
    for verb in ("plan", "ps", "status"):
        found = swarm(verb, "lab", at=root)
        assert found.code == 0 and "asked" in found.out + found.err


def test_a_lock_that_was_only_solved_was_applied_nowhere(root: Path) -> None:
    """`swarm solve` writes a lock, too: until `swarm up` ran, a plan shows all of it, and nobody calls it running."""
    (root / "Pulumi.yaml").write_text("name: lab\nruntime: python\nbackend: {url: 'file://./.state'}\n")
    assert swarm("solve", "lab", at=root).code == 0
    plan = swarm("plan", "lab", "--offline", at=root).out
    assert "since nothing was ever applied here" in plan and "+ b-0" in plan
    assert "lab: 1 to start, 1 node to configure, 1 pending" in plan
    assert "this is the decision, not what is running" in swarm("ps", "lab", "--offline", at=root).err

    state = root / ".state" / ".pulumi" / "stacks" / "lab"
    state.mkdir(parents=True)
    (state / "lab.json").write_text("{}")
    assert "Nothing to change against lab.lock.yaml" in swarm("plan", "lab", "--offline", at=root).out
    (state / "lab.json").unlink()
    (root / "Pulumi.lab.yaml").write_text("{}\n")  # in a clone: the state lies elsewhere, this is committed
    assert "Nothing to change against lab.lock.yaml" in swarm("plan", "lab", "--offline", at=root).out


def test_a_node_that_nobody_asked_has_the_gpus_of_the_stack_file(root: Path) -> None:
    assert "8 x H100" in swarm("status", "lab", "--offline", at=root).out


def test_who_does_not_answer_is_named_and_what_helps(root: Path) -> None:
    assert "n1 did not answer; see: swarm status, or ask no machine" in swarm("ps", "lab", at=root).err


def test_of_a_draft_the_lock_is_named_as_it_lies(tmp_path: Path) -> None:
    (tmp_path / "draft.yaml").write_text(STACK)
    said = swarm("solve", "draft.yaml", at=tmp_path).err
    assert said.endswith("lock: draft.lock.yaml; `swarm plan draft.yaml` shows the steps\n"), said


def test_a_node_taken_out_with_work_on_it_is_refused_as_it_would_be(root: Path) -> None:
    file = root / "stacks" / "lab.yaml"
    one = 'nodes:\n  n1: {hardware: h, ssh: "root@{name}"}'
    text = STACK.replace("nodes: {n1: {hardware: h, ssh: root@n1.invalid}}", one)
    file.write_text(text.replace("n1:", "n[1-2]:"))
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(text)
    said = swarm("plan", "lab", "--offline", at=root)
    assert said.code == 3 and "1 given up (a-0, n2 is not in the stack file any more)" in said.out, "all of it is shown"
    assert "1 node that left the stack still holds 1 allocation (n2: " in said.err and "`state: drain`" in said.err


#: A service alone on two machines, with something of all that a machine has so much of.
SERVICE = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware:
  h: {gpus: 4 x H100, vcpus: 64, memory: 512 GB, numa: 2, nvme: 1 TB, disk: /dev/sdb, interface: eth1, nic: 10 Gbit/s}
nodes: {"n[1-2]": {hardware: h, ssh: "root@{name}.invalid"}}
workloads:
  web:
    user: ada
    kind: serve
    each: {gpus: 2 x H100, vcpus: 2, memory: 16 GB, scratch: 10 GB}
    network: {egress: 1 Gbit/s}
    run: {command: serve}
"""


def test_a_machine_that_nobody_asked_has_the_capacity_of_the_stack_file(root: Path) -> None:
    """The other machine is empty, so the service stands there while it restarts with one GPU less."""
    file = root / "stacks" / "lab.yaml"
    file.write_text(SERVICE)
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(SERVICE.replace("2 x H100", "1 x H100"))
    plan = swarm("plan", "lab", "--offline", at=root)
    assert plan.code == 0 and "slice/web-0, " in plan.out and "lab: 1 to move" in plan.out, plan.out + plan.err
    assert "deferred" not in plan.out and "not what" not in plan.out, "a machine is what is declared of it"
    # Where the other machine has no room for its files, it is refused as it would be.
    small = "small: {gpus: 4 x H100, vcpus: 64, memory: 512 GB, nvme: 9 GB, disk: /dev/sdb}"
    nodes = "nodes: {n1: {hardware: h, ssh: root@n1.invalid}, n2: {hardware: small, ssh: root@n2.invalid}}"
    other = SERVICE.replace("hardware:\n", f"hardware:\n  {small}\n").replace(
        'nodes: {"n[1-2]": {hardware: h, ssh: "root@{name}.invalid"}}', nodes
    )
    file.write_text(other)
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(other.replace("2 x H100", "1 x H100"))
    plan = swarm("plan", "lab", "--offline", at=root)
    assert plan.code == 3 and "no node that it may stand on has capacity for one more" in plan.err, plan.out + plan.err


def test_a_gpu_that_no_driver_names_so_is_not_said_to_be_another(root: Path) -> None:
    file = root / "stacks" / "lab.yaml"
    file.write_text(SERVICE.replace("H100", "NVIDIA-X"))
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(SERVICE.replace("H100", "NVIDIA-X").replace("command: serve", "command: serve, port: 99"))
    plan = swarm("plan", "lab", "--offline", at=root)
    assert "found" not in plan.out + plan.err.replace("no temporary placement was found", ""), plan.out + plan.err


#: A rack whose budget the power limits of its GPUs follow.
POWERED = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 4 x H100, vcpus: 64, memory: 512 GB}}
tuning: {fed: {gpu_power: 300..600 W}}
racks: {r: {power: 1800 W}}
nodes: {n1: {hardware: h, rack: r, tuning: fed, ssh: root@n1.invalid}}
workloads:
  hot: {user: ada, each: {gpus: 1 x H100, gpu_power: 500 W}, run: {command: train}}
"""


def test_what_a_gpu_was_set_to_is_no_guess_from_the_stack_file_of_now(root: Path) -> None:
    """It was 433 W. By the budget of now it would have been 300 W, and what is a cut to 325 W looked like a raise."""
    file = root / "stacks" / "lab.yaml"
    file.write_text(POWERED)
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(POWERED.replace("1800 W", "1300 W"))
    plan = swarm("plan", "lab", "--offline", at=root)
    rows = [line.split() for line in plan.out.splitlines() if ": power" in line]
    assert rows and all(row[-5:-2] == ["power", "not", "asked"] for row in rows), plan.out
    steps = json.loads(swarm("plan", "lab", "--offline", "--json", at=root).out)["steps"]
    changes = [change for step in steps if step["verb"] == "gpus" for change in step["changes"]]
    assert changes and all(change["old"] is None for change in changes)
    assert "not asked |" in swarm("plan", "lab", "--offline", "--markdown", at=root).out
