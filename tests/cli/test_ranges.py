"""Is a range counted by its lower end, are both ends shown wherever it is, and does its upper end move nothing?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from swarm_iac.decision import keep
from tests.cli.typed import swarm
from tests.stackfile.test_growing import decided, edited

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {vcpus: 8, memory: 64 GB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
limits: {user: {vcpus: 5}}
workloads:
  left: {user: ada, each: {vcpus: 2..6}}
  right: {user: bo, replicas: 2, each: {vcpus: 2..3}}
  plain: {user: ada, each: {vcpus: 2}}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return kept(tmp_path, monkeypatch, STACK)


def kept(root: Path, monkeypatch: pytest.MonkeyPatch, stack: str) -> Path:
    """A repository with this stack and its lock."""
    (root / "Pulumi.yaml").write_text("name: lab\n")
    keep(decided(root, stack))
    monkeypatch.setenv("SWARM_STACK", "lab")
    return root


def test_the_machine_is_full_of_guarantees_though_ceilings_are_twice_as_much(root: Path) -> None:
    lock = (root / "stacks" / "lab.lock.yaml").read_text()
    assert lock.count("    vcpus: 2\n") == 4 and ".." not in lock
    assert json.loads(swarm("why", "n1", "--json", at=root).out)["free"]["vcpus"] == 0
    usage = next(
        line for line in swarm("plan", "--offline", at=root).out.splitlines() if "cluster lab" in line and "vcpus" in line
    )
    assert usage.split()[3:5] == ["8", "8"]


@pytest.mark.parametrize("command", ["solve", "ps"])
def test_both_ends_are_shown(command: str, root: Path) -> None:
    out = swarm(command, *(["--offline"] if command == "ps" else []), at=root, width=160).out
    rows = {line.split()[0]: line for line in out.splitlines() if re.match(r" *\S+-\d ", line)}
    assert " 2..6 shared " in rows["left-0"] and " 2..3 shared " in rows["right-1"] and " 2 shared " in rows["plain-0"]


def test_json_and_why_and_a_first_plan_say_what_it_may_use(root: Path) -> None:
    found = {one["name"]: one for one in json.loads(swarm("ps", "--offline", "--json", at=root).out)}
    assert (found["left-0"]["vcpus"], found["left-0"]["may_use"]) == ("2", {"vcpus": "2..6 vCPUs"})
    assert "may_use" not in found["plain-0"]
    assert "each has 2..6 vCPUs: the lower end is guaranteed" in swarm("why", "left", at=root).out
    assert "guaranteed" not in swarm("why", "plain", at=root).out
    (root / "stacks" / "lab.lock.yaml").unlink()
    plan = swarm("plan", "--offline", at=root, width=200).out
    assert re.search(r"\+ left-0 +2\.\.6 vCPUs, ", plan) and not re.search(r"\+ plain-0.*vCPUs", plan)


@pytest.mark.parametrize("ceiling", ["2..8", "2..3", "2"])
def test_another_ceiling_leaves_the_lock_as_it_is(ceiling: str, root: Path) -> None:
    """Nothing is decided again, so nothing can wait or move for it; a frozen run takes it as well."""
    now = decided(root, edited(STACK, ("2..6", ceiling)), frozen=True)
    assert now.stale == () and not now.placement.growing and now.proof is not None
    assert now.placement == now.last


def test_what_if_shows_another_ceiling_and_that_nothing_else_changes(root: Path) -> None:
    said = swarm("what-if", "workloads.left.each.vcpus=2..8", at=root, width=160).out
    (row,) = (line for line in said.splitlines() if "left-0" in line)
    assert "may use 2..8 vCPUs instead of 2..6 vCPUs" in row and "right" not in said and "limits" not in said
    said = swarm("what-if", "workloads.left.each.vcpus=2", at=root, width=160).out
    assert "may use no more than it holds instead of 2..6 vCPUs" in said
    said = swarm("what-if", "workloads.left.each.vcpus=1..6", at=root, width=160).out
    (row,) = (line for line in said.splitlines() if "left-0" in line)
    assert "other resources, 1..6 vCPUs" in row and re.search(r"user ada +vcpus +4 +3 +5", said)


def test_a_fix_lowers_the_guarantee_and_keeps_the_ceiling(root: Path) -> None:
    few = edited(
        STACK, ("replicas: 2, each: {vcpus: 2..3}", "each: {vcpus: 4..7}"), ("  plain: {user: ada, each: {vcpus: 2}}\n", "")
    )
    keep(decided(root, few))
    keep(decided(root, few + "  new: {user: ada, each: {vcpus: 3..8}}\n"))
    said = swarm("why", "new", at=root, width=160).out
    assert "needs 3 vCPUs on one node; the most that is free is 2 on n1" in said
    assert "workloads.new.each.vcpus: 3..8 → 2..8" in said
    edit = re.search(r"swarm what-if (workloads\.new\.each\.vcpus=\S+)", said)
    assert edit and "new, 2..8 vCPUs" in swarm("what-if", edit[1], at=root, width=160).out


def test_only_the_guarantee_waits_to_grow(root: Path) -> None:
    """Its ceiling rises at once: it was never reserved."""
    now = decided(root, edited(STACK, ("2..6", "3..8")))
    (growing,) = now.placement.growing
    assert (growing.keeps, growing.wants) == ("2 vCPUs", "3 vCPUs")
    keep(now)
    row = next(line for line in swarm("ps", "--offline", at=root, width=160).out.splitlines() if "left-0" in line)
    assert " 2..8 shared " in row and "waits to grow" in row


LOANS = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {vcpus: 8, memory: 64 GB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
workloads:
  left: {user: ada, each: {memory: 8..64 GB}}
  right: {user: bo, each: {memory: 16..20 GB}}
  plain: {user: ada, each: {memory: 8 GB}}
"""


@pytest.fixture
def loans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return kept(tmp_path, monkeypatch, LOANS)


def test_of_memory_the_guarantee_is_counted_and_what_is_lent_is_said(loans: Path) -> None:
    """32 GB are free: `right` has the 4 that it may, and `left` the rest."""
    lock = (loans / "stacks" / "lab.lock.yaml").read_text()
    assert sorted(re.findall(r"memory: (.*)", lock)) == ["16 GB", "8 GB", "8 GB"]
    assert json.loads(swarm("why", "n1", "--json", at=loans).out)["free"]["memory"] == 32 * 10**9
    for command in (["solve"], ["ps", "--offline"]):
        rows = {
            line.split()[0]: line
            for line in swarm(*command, at=loans, width=160).out.splitlines()
            if re.match(r" *\S+-\d ", line)
        }
        assert " 8..64 GB " in rows["left-0"] and " 16..20 GB " in rows["right-0"] and " 8 GB " in rows["plain-0"], command
    assert "each has 8..64 GB of memory: the lower end is guaranteed" in swarm("why", "left", at=loans).out
    (loans / "stacks" / "lab.lock.yaml").unlink()
    plan = swarm("plan", "--offline", at=loans, width=200).out
    assert re.search(r"\+ left-0 +8\.\.64 GB of memory, .*memory_max 36 GB", plan), plan
    assert re.search(r"\+ right-0 +16\.\.20 GB of memory, .*memory_max 20 GB", plan)
    assert re.search(r"\+ plain-0 +cpus 0-7, memory_max 8 GB", plan)


def test_a_newcomer_gets_what_was_lent_and_the_plan_says_from_whom(loans: Path) -> None:
    now = decided(loans, LOANS + "  new: {user: bo, each: {memory: 20 GB}}\n")
    assert not now.placement.unplaced, "what is lent is free"
    plan = swarm("plan", "--offline", at=loans, width=200).out
    assert re.search(r"left-0: memory max +36 GB +16 GB", plan) and re.search(r"\+ new-0 +cpus 0-7, memory_max 20 GB", plan), (
        plan
    )
    assert "1 to start, 1 to change in place" in plan


@pytest.mark.parametrize("ceiling", ["8..9 GB", "8..500 GB", "8 GB"])
def test_another_ceiling_of_memory_leaves_the_lock_as_it_is(ceiling: str, loans: Path) -> None:
    said = swarm("what-if", f"workloads.left.each.memory={ceiling}", at=loans, width=160).out
    (row,) = (line for line in said.splitlines() if "left-0" in line)
    assert "instead of 8..64 GB of memory" in row and "right" not in said
    now = decided(loans, edited(LOANS, ("8..64 GB", ceiling)), frozen=True)
    assert now.stale == () and not now.placement.growing and now.placement == now.last
