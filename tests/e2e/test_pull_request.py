"""From a pull request on a real forge to the machines: is it applied once, in order, and only as approved, whatever is killed?

Every look at a node is plain ssh. Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.operated import REPOSITORY, Operated
from tests.e2e.test_trunk import cgroup
from tests.forge.server import until

pytestmark = [pytest.mark.e2e, pytest.mark.forge]


def memory(operated: Operated, allocation: str, node: str = "gpu-01") -> int:
    return int(operated.fleet.node(node, f"cat {cgroup(allocation)}/memory.max"))


def near(found: int, wanted: int) -> bool:
    return abs(found - wanted) < 4096


def test_an_approved_pull_request_reaches_the_machines_once(operated: Operated) -> None:
    number = operated.change("bo", "grow", "memory: 300 MB", "memory: 280 MB")
    assert operated.swarm("post", str(number)).status == 3, "it shrinks what belongs to ada"
    operated.people["ada"].approve(number)
    commit = operated.merge("bo", number)
    operated.swarm("apply", "--merge", commit).ok()
    assert near(memory(operated, "pretrain-0"), 280_000_000)
    assert operated.commits("gpu-01")[-1] == commit[: len(operated.commits("gpu-01")[-1])]
    last = [json.loads(line) for line in operated.fleet.node("gpu-01", "cat /var/lib/swarm/audit.jsonl").splitlines()][-1]
    assert last["who"] == f"bo (pull request {number})"
    again = operated.swarm("apply", "--merge", commit).ok()
    assert "is applied already" in again.text
    assert operated.record() == f"{commit} applied"
    (comment,) = operated.people["ada"].ask("GET", f"/repos/{REPOSITORY}/issues/{number}/comments")
    assert "pretrain-0" in comment["body"]


def test_two_merges_within_a_second_are_applied_in_order(operated: Operated) -> None:
    first, second = operated.change("ada", "one", "memory: 280 MB", "memory: 290 MB"), 0
    one = operated.merge("ada", first)
    second = operated.change("bo", "two", "memory: 100 MB", "memory: 110 MB")
    two = operated.merge("bo", second)
    runs = [operated.begin("apply", "--merge", commit) for commit in (two, one)]
    ends = [run.communicate(timeout=900)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ends
    assert operated.record() == f"{two} applied"
    assert near(memory(operated, "pretrain-0"), 290_000_000)
    assert near(memory(operated, "tidy-0", "gpu-03"), 110_000_000)
    assert one.startswith(operated.commits("gpu-01")[-1]) and two.startswith(operated.commits("gpu-03")[-1])


def test_drift_where_the_plan_acts_is_refused_with_its_row(operated: Operated) -> None:
    before = operated.fleet.node("gpu-01", "cat /proc/sys/vm/swappiness")
    operated.fleet.node("gpu-01", "echo 77 > /proc/sys/vm/swappiness")
    commit = operated.merge("ada", operated.change("ada", "drift", "memory: 290 MB", "memory: 310 MB"))
    refused = operated.swarm("apply", "--merge", commit)
    assert refused.status == 3, refused.text
    assert re.search(r"gpu-01: .*swappiness.*: 77 → 10", refused.text), refused.text
    assert near(memory(operated, "pretrain-0"), 290_000_000)
    operated.fleet.node("gpu-01", f"echo {before} > /proc/sys/vm/swappiness")
    operated.swarm("apply", "--merge", commit).ok()
    assert near(memory(operated, "pretrain-0"), 310_000_000)


def test_a_runner_that_is_killed_during_apply_is_resumed(operated: Operated) -> None:
    old = "ingress: 20 Mbit/s}\n    run: {command: /bin/sleep infinity}"
    number = operated.change("ada", "killed", old, old.replace("infinity", "1000000"))
    commit = operated.merge("ada", number)
    run = operated.begin("apply", "--merge", commit)
    until("the begin of it on a node", lambda: commit.startswith(operated.commits("gpu-01")[-1] or "x"), 300)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert operated.record() == f"{commit} begun"
    time.sleep(1)
    resumed = operated.swarm("apply", "--merge", commit)
    assert resumed.status == 0, resumed.text
    assert "begun before" in resumed.text
    assert operated.record() == f"{commit} applied"
    unit = "swarm-pretrain_0.service"
    assert '"/bin/sleep" "1000000"' in operated.fleet.node("gpu-01", f"systemctl cat {unit}")
    assert operated.fleet.node("gpu-01", f"systemctl is-active {unit}") == "active"


def test_a_forge_that_goes_away_during_apply_changes_nothing_of_it(operated: Operated) -> None:
    commit = operated.merge("ada", operated.change("ada", "away", "memory: 310 MB", "memory: 300 MB"))
    run = operated.begin("apply", "--merge", commit)
    until("the begin", lambda: operated.record() == f"{commit} begun", 300)
    operated.server.stop()
    try:
        text, _ = run.communicate(timeout=900)
    finally:
        operated.server.start()
    assert run.returncode == 0, text
    assert "the forge does not show it yet" in text
    assert near(memory(operated, "pretrain-0"), 300_000_000)
    assert "is applied already" in operated.swarm("apply", "--merge", commit).ok().text


def test_no_token_or_password_is_on_a_node_or_in_the_state(operated: Operated) -> None:
    state: list[Path] = [path for path in (operated.fleet.root / ".state").rglob("*") if path.is_file()]
    assert not [path for path in state if operated.token.encode() in path.read_bytes()]
    assert operated.token not in operated.fleet.node("gpu-01", "cat /var/lib/swarm/*.json*")
