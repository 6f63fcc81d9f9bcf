"""Is what a plan and a what-if say about moves and stops true? Take the named cause away, and the effect goes."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from swarm_iac import decision
from swarm_iac.decision import Decision, decide, keep
from swarm_iac.plan.stops import why_moved, why_stopped
from tests.cli.typed import swarm

TODAY = datetime.date(2026, 6, 1)
#: Three nodes full of `hi` and `lo`, and then `big`, which wants one of them for itself.
FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo, cy]}
limits:
  user: {gpus: 64, vcpus: 256, memory: 4 TB}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  n[1-3]: {hardware: h, ssh: "root@{name}"}
workloads:
  hi: {user: ada, priority: high, replicas: 15, each: {gpus: 1}}
  lo: {user: bo, priority: low, replicas: 9, each: {gpus: 1}}
solve: {moves: 6, stops: 30}
"""
BIG = "  big: {user: cy, priority: high, each: {gpus: 8}}\n"


def decided(root: Path, text: str) -> Decision:
    (root / "stacks").mkdir(exist_ok=True)
    (root / "Pulumi.yaml").write_text("name: lab\n")
    (root / "stacks" / "lab.yaml").write_text(text)
    return decide(root, "lab", today=TODAY, environment={})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    keep(decided(tmp_path, FLEET))
    return tmp_path


def with_big(text: str = FLEET) -> str:
    return text.replace("solve:", f"{BIG}solve:")


def test_who_is_named_is_why(root: Path) -> None:
    """Without those that are named, whoever moved or stopped stays where it was."""
    now = decided(root, with_big())
    moved = why_moved(now.stack, now.last, now.placement, TODAY)
    stopped = why_stopped(now.stack, now.last, now.placement, TODAY)
    assert "big-0" in now.placement.by_name() and stopped
    for why in (*moved.values(), *stopped.values()):
        names = re.fullmatch(r"(?:makes room for|preempted by) (.+)", why)
        assert names, why
        assert set(names[1].split(" and ")) <= {"big", "hi"}
    without = decided(root, FLEET)
    assert without.placement.allocations == without.last.allocations


def test_a_move_is_never_for_whoever_stood_there_already(root: Path) -> None:
    plan = swarm("plan", "--offline", "-s", "lab", at=_with(root)).out
    assert "within the move budget" not in plan
    told = swarm("what-if", "workloads.lo.replicas=9", "-s", "lab", at=root).out
    before = decided(root, FLEET).last.by_name()
    now = decided(root, with_big()).placement.by_name()
    for node, names in re.findall(r"(n\d)(?: → n\d)?, for the sake of ([a-z0-9, -]+)", told):
        for name in names.split(", "):
            assert name.strip() not in before or before[name.strip()].node != node
            assert now[name.strip()].node == node


def test_a_what_if_compares_with_what_runs(root: Path) -> None:
    """`big` is in the file and not applied: an edit that changes nothing still tells what would move, and that it would anyway."""
    told = swarm("what-if", "workloads.lo.replicas=9", "-s", "lab", at=_with(root)).out
    assert "Every allocation stays" not in told
    rows = [line for line in told.splitlines() if re.match(r" (big|hi|lo)-\d+ .* (ada|bo|cy) ", line)]
    assert rows and all("without the edit too" in line for line in rows)
    applied = decided(root, with_big())
    keep(applied)
    assert "Every allocation stays as it runs." in swarm("what-if", "solve.stops=40", "-s", "lab", at=root).out


@pytest.mark.parametrize("edit", ["workloads.lp.replicas=9", "nodes.n7.state=drain", "workloads.lo.each.gpus=many", "nonsense"])
def test_a_typo_is_told_before_anything_is_solved(root: Path, edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def solves(*_: object, **__: object) -> None:
        raise AssertionError("something was solved")

    monkeypatch.setattr(decision, "_solve", solves)
    done = swarm("what-if", edit, "-s", "lab", at=_with(root))
    assert done.code == 2
    assert "lab.yaml" in done.err or "nonsense" in done.err


def _with(root: Path) -> Path:
    (root / "stacks" / "lab.yaml").write_text(with_big())
    return root


def test_advice_names_the_guard_that_it_would_meet(tmp_path: Path) -> None:
    """Who follows the advice of `why` is not refused by surprise: --allow-stop has the number that `up` asks for."""
    lo = "  lo: {user: bo, kind: batch, replicas: 16, each: {gpus: 1}, run: {command: x}}\n"
    text = FLEET[: FLEET.index("  hi:")].replace("n[1-3]", "n[1-2]") + lo + "solve: {stops: 3}\n"
    keep(decided(tmp_path, text))
    big = text.replace("solve:", "  big: {user: cy, each: {gpus: 8}, run: {command: x}}\nsolve:")
    decided(tmp_path, big)
    told = swarm("why", "big", "-s", "lab", at=tmp_path).out
    assert "stops 8 running allocations at once, and solve.stops is 3: swarm up --allow-stop 8" in told
    decided(tmp_path, big.replace("big: {user: cy,", "big: {user: cy, priority: high,"))
    refused = swarm("plan", "--offline", "-s", "lab", at=tmp_path)
    assert refused.code == 3 and "--allow-stop 8" in refused.err
