"""What does a user see of the fleet through the real engine?"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.provider.conftest import ROOT, Project, allocation, node, two_nodes

pytestmark = pytest.mark.engine


def test_a_fleet_from_birth_to_destruction(standing: Project) -> None:
    project = standing
    state = project.state()
    assert {"Node n1", "Node n2", "Allocation train-0", "Allocation serve-0", "Lineage lab"} <= state.keys()
    assert state["Fleet lab"]["outputs"]["placement"] == {"train-0": "n1", "serve-0": "n2"}
    assert project.real()["n1"]["ledger"]["lineage"] == state["Lineage lab"]["id"]

    project.pulumi("preview", "--expect-no-changes")

    machines = project.real()
    machines["n2"]["state"]["settings"]["sysctl"]["vm.swappiness"] = "60"
    project.tamper(machines)
    project.give(two_nodes(train_0=allocation([0, 1, 2])))
    changes = project.changes()
    assert changes.keys() == {"Node n2", "Allocation train-0"}  # the drift and what is asked for, and nothing else
    assert [op for op, _ in changes.values()] == ["update", "update"]

    project.up()
    assert project.real()["n2"]["state"]["settings"]["sysctl"] == {"vm.swappiness": "1"}
    assert project.real()["n1"]["state"]["allocations"]["train-0"]["gpus"] == [0, 1, 2]

    project.pulumi("destroy", "--yes", "--skip-preview")
    assert project.real() == {"n1": {}, "n2": {}}
    assert not project.state()


def test_one_failed_row_leaves_the_others_done_and_the_next_run_goes_on(project: Project) -> None:
    project.give(two_nodes())
    project.tamper({"n1": {"fail": {"n1/slice/train-0": "cpuset.cpus: no such CPU 99"}}})
    text = project.up(ok=False)
    assert "cpuset.cpus: no such CPU 99" in text
    assert "serve-0" in project.real()["n2"]["state"]["allocations"]

    machines = project.real()
    machines["n1"]["fail"] = {}
    project.tamper(machines)
    assert project.changes().keys() == {"Allocation train-0"}
    project.up()
    assert "train-0" in project.real()["n1"]["state"]["allocations"]


def test_a_dark_node_keeps_its_rows_and_its_work_is_started_nowhere_else(standing: Project) -> None:
    project = standing
    machines = project.real()
    machines["n1"]["error"] = "ssh: connect to host n1 port 22: No route to host"
    project.tamper(machines)
    project.give({"n1": node("n1"), "n2": node("n2", swappiness=7, serve_0=allocation([0]), train_0=allocation([1]))})
    text = project.up(ok=False)
    assert "No route to host" in text
    n2 = project.real()["n2"]["state"]
    assert n2["settings"]["sysctl"] == {"vm.swappiness": "7"}  # the others go on
    assert not n2["allocations"].get("train-0", {"unit": {}})["unit"].get("active")  # it may still run on n1
    assert project.state()["Allocation train-0"]["outputs"]["node"] == "n1"
    assert "No route to host" in project.up(ok=False)  # as long as something is left to do there, no run ends well

    machines = project.real()
    machines["n1"]["error"] = ""
    project.tamper(machines)
    project.up()
    assert "train-0" in project.real()["n2"]["state"]["allocations"]
    assert "train-0" not in project.real()["n1"]["state"]["allocations"]


def start(project: Project) -> subprocess.Popen[str]:
    """`pulumi up`, seen into its first step on n2."""
    running = subprocess.Popen(
        ["pulumi", "--non-interactive", "--color", "never", "up", "--yes", "--skip-preview", "--stack", "dev"],
        cwd=project.folder, env=project.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 30
    while not project.real().get("n2", {}).get("done") and time.monotonic() < end:
        time.sleep(0.05)
    return running


def test_a_killed_run_is_continued_by_the_next(project: Project) -> None:
    project.give(two_nodes())
    project.tamper({"n2": {"sleep": 1}})
    running = start(project)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    before = project.real()["n2"]
    assert "serve-0" not in before["state"].get("allocations", {})
    project.pulumi("cancel", "--yes")  # the dead run's lock names its process; `swarm up` clears it
    project.up()
    after = project.real()["n2"]
    assert after["ledger"]["lineage"] == before["ledger"]["lineage"]  # it was saved before a node was touched
    assert after["ledger"]["serial"] > before["ledger"]["serial"]
    assert "serve-0" in after["state"]["allocations"]
    project.pulumi("preview", "--expect-no-changes")


def test_an_interrupted_run_finishes_the_step_in_hand_and_stops_quietly(project: Project) -> None:
    project.give(two_nodes())
    project.tamper({"n2": {"sleep": 1}})
    running = start(project)
    os.kill(running.pid, signal.SIGINT)
    text, _ = running.communicate(timeout=30)
    assert running.returncode != 0
    assert "Traceback" not in text and "panic" not in text, text
    assert "stopped" in text
    found = project.real()["n2"]
    assert "serve-0" not in found["state"].get("allocations", {})
    assert project.state()["Fleet lab"]["outputs"]["serial"] == found["ledger"]["serial"]


def test_offline_shows_what_is_asked_for_against_what_was_last_known(standing: Project) -> None:
    project = standing
    project.machines.write_text("the machines are not to be read")
    project.give(two_nodes(train_0=allocation([0, 1, 2])))
    assert project.changes(SWARM_OFFLINE="1").keys() == {"Allocation train-0"}
    assert "SWARM_OFFLINE" in project.up(ok=False, env={"SWARM_OFFLINE": "1"})


def test_a_broken_limit_is_refused_by_check_and_by_the_policy_pack(project: Project) -> None:
    stacks = project.folder / "stacks"
    stacks.mkdir()
    (stacks / "lab.yaml").write_text(STACK)
    project.give({}, request={"stack": ASKED, "placement": PLACED, "source": "stacks/lab.yaml"})
    text = project.pulumi("preview", "--policy-pack", str(ROOT / "policies" / "swarm-limits"), ok=False)
    assert "Fleet resource 'lab' has a problem: stacks/lab.yaml:3" in text
    assert "[mandatory]" in text and "swarm-limits" in text
    assert text.count("stacks/lab.yaml:3") >= 2 and "hint:" in text


STACK = """\
fleet: lab
teams: {research: {users: [ada]}}
limits: {user: {gpus: 1}}
hardware: {small: {gpus: 2 x H100, vcpus: 8, memory: 64 GB}}
nodes: {n1: {hardware: small, ssh: root@n1}}
workloads: {train: {user: ada, each: {gpus: 1}}}
"""
ASKED = {
    "fleet": "lab",
    "teams": {"research": {"users": ["ada"]}},
    "limits": {"user": {"gpus": 1}},
    "hardware": {"small": {"gpus": "2 x H100", "vcpus": 8, "memory": "64 GB"}},
    "nodes": {"n1": {"name": "n1", "hardware": "small", "ssh": "root@n1"}},
    "workloads": {"train": {"user": "ada", "each": {"gpus": 2}}},
}
PLACED = {
    "allocations": [
        {"name": "train-0", "workload": "train", "index": 0, "node": "n1", "gpus": [0, 1], "vcpus": 1, "memory": "1 GB"}
    ]
}


def test_a_machine_that_is_not_as_declared_gets_nothing_new_and_its_rows_say_how(standing: Project) -> None:
    project = standing
    machines = project.real()
    machines["n1"]["facts"] = {"cpus": 64}
    project.tamper(machines)
    declared = {"hardware": {"gpus": 8, "gpu_model": "H100", "cpus": 64}}
    grown = {
        "n1": node("n1", train_0=allocation([0, 1, 2])) | declared,
        "n2": node("n2", swappiness=7, serve_0=allocation([0])),
    }
    project.give(grown)
    assert "hardware: n1: no GPU found, 8 x H100 declared" in project.pulumi("preview")
    text = project.up(ok=False)
    assert "train-0: n1: not the hardware that the stack file declares: no GPU found, 8 x H100 declared" in text
    now = project.real()
    assert now["n1"]["state"]["allocations"]["train-0"]["gpus"] == [0, 1]
    assert now["n2"]["state"]["settings"]["sysctl"] == {"vm.swappiness": "7"}

    grown["n1"] |= {"hardware": {"cpus": 64}}
    project.give(grown)
    project.up()
    assert project.real()["n1"]["state"]["allocations"]["train-0"]["gpus"] == [0, 1, 2]
