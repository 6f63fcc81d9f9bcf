"""What is told of the time that jobs take: when pending work could start, who is past its limit, who was ended by it?"""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from swarm_iac import observe as asking
from swarm_iac.model.state import AllocationState, LedgerHead, NodeState, Observed, UnitState
from tests.cli.typed import Ended, swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {"gpu-[01-02]": {hardware: h, ssh: "root@{name}.invalid"}, gpu-01: {labels: {at: a}}, gpu-02: {labels: {at: b}}}
workloads:
  fine: {user: ada, priority: high, each: {gpus: 8}, place: {select: {at: a}}, time: {expected: 6 h, limit: 12 h}, run: {command: train}}
  tune: {user: ada, priority: high, each: {gpus: 5}, place: {select: {at: b}}, time: {expected: 3 h}, run: {command: tune}}
  next: {user: bo, each: {gpus: 4}, run: {command: next}}
  wide: {user: bo, gang: 2, each: {gpus: 7}, run: {command: wide}}
"""
#: 2026-11-23 00:10 UTC
NOW = 1_795_392_600
HOUR = 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "lab.yaml").write_text(STACK)
    assert swarm("solve", "lab", at=tmp_path).code == 0
    return tmp_path


def seen(node: str, name: str, ran: int, limit: int | None, end: str = "") -> Observed:
    unit = UnitState(user="ada", command="train", restart=False, time_limit_s=limit, active=not end)
    return Observed(
        node=node, ledger=LedgerHead(lineage="l", serial=1, fleet="lab"), ends={name: end} if end else {},
        state=NodeState(allocations={name: AllocationState(workload=name[:-2], unit=unit)}),
        health={name: "failed" if end else "healthy"}, started={} if end else {name: NOW - ran},
    )  # fmt: skip


def asked(root: Path, *words: str, fine: Observed, tune: Observed) -> Ended:
    """Type `swarm WORDS` while these answer for gpu-01 and gpu-02, at NOW."""

    def answers(targets: dict[str, str], **more: object) -> dict[str, Observed]:
        return {node: {"gpu-01": fine, "gpu-02": tune}[node] for node in targets}

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(asking, "observe", answers))
        stack.enter_context(patch.object(time, "time", lambda: float(NOW)))
        return swarm(*words, at=root, width=220)


RUNS = {"fine": seen("gpu-01", "fine-0", 8 * HOUR, 12 * HOUR), "tune": seen("gpu-02", "tune-0", HOUR, None)}
LATE = {**RUNS, "tune": seen("gpu-02", "tune-0", 4 * HOUR, None)}
OVER = {**LATE, "fine": seen("gpu-01", "fine-0", 0, 12 * HOUR, "time-limit")}
GIVES = "  the resources of a finished job are reused by the next `swarm up`\n"
HEAD = "When it could start, if nothing new arrives\n"


@pytest.mark.parametrize(
    ("workload", "machines", "told"),
    [
        ("next", RUNS, "  could start about 2026-11-23 02:10 UTC, when tune-0 is expected to end (on gpu-02)\n"),
        ("wide", RUNS, "  could start about 2026-11-23 04:10 UTC, when fine-0 reaches its limit (on gpu-01)\n"),
        # Nobody knows when tune ends, which has run for longer than was expected.
        ("next", LATE, "  could start about 2026-11-23 04:10 UTC, when fine-0 reaches its limit (on gpu-01)\n"),
        ("next", OVER, "  could start at the next `swarm up`: fine-0 has ended (on gpu-01)\n"),
    ],
)
def test_why_says_when_pending_work_could_start(root: Path, workload: str, machines: dict[str, Observed], told: str) -> None:
    said = asked(root, "why", workload, "-s", "lab", **machines)
    assert said.code == 0 and HEAD + told + GIVES in said.out
    start = json.loads(asked(root, "why", workload, "-s", "lab", "--json", **machines).out)["start"]
    assert start["text"] == told.strip() and start["known"]


def test_no_node_answers_for_another(root: Path) -> None:
    """gpu-02 says that fine-0, which stands on gpu-01, began hours ago, and that it has ended."""
    liar = RUNS["tune"].model_copy(update={"started": {"fine-0": NOW - 11 * HOUR, "tune-0": NOW}})
    liar = liar.model_copy(update={"health": {"tune-0": "healthy", "fine-0": "done"}, "ends": {"fine-0": "time-limit"}})
    liar = liar.model_copy(
        update={"state": NodeState(allocations={**liar.state.allocations, **RUNS["fine"].state.allocations})}
    )
    said = asked(root, "why", "wide", "-s", "lab", fine=RUNS["fine"], tune=liar).out
    assert "could start about 2026-11-23 04:10 UTC, when fine-0 reaches its limit (on gpu-01)" in said
    assert "fine-0 on gpu-02" not in asked(root, "plan", "lab", fine=RUNS["fine"], tune=liar).out


def test_nothing_is_said_of_what_nobody_knows(root: Path) -> None:
    assert HEAD not in asked(root, "why", "wide", "-s", "lab", **LATE).out
    assert HEAD not in asked(root, "why", "fine", "-s", "lab", **RUNS).out, "it has its place"
    (root / "stacks" / "lab.yaml").write_text(re.sub(" time: .*?[}h][},] ?", " ", STACK))


def test_without_the_machines_it_is_told_within_how_long(root: Path) -> None:
    next_, wide = (
        "could start within 3 h, when tune-0 is expected to end (on gpu-02)",
        "could start within 12 h, when fine-0 reaches its limit (on gpu-01)",
    )
    assert f"{HEAD}  {next_}\n{GIVES}" in swarm("why", "next", "-s", "lab", "--offline", at=root).out
    for words in (("plan", "lab", "--offline"), ("plan", "lab", "--offline", "--markdown"), ("solve", "lab")):
        said = swarm(*words, at=root, width=300).out
        assert next_ in said and wide in said, words
    found = json.loads(swarm("plan", "lab", "--offline", "--json", at=root).out)["unplaced"]
    assert {one["workload"]: one["start"] for one in found} == {"next": next_, "wide": wide}


def test_what_waits_to_grow_is_told_when_it_could(root: Path) -> None:
    """It runs, so it does not start: it grows, once a job in its way ends."""
    file = root / "stacks" / "lab.yaml"
    file.write_text(STACK.replace("next: {user: bo, each: {gpus: 4}", "next: {user: bo, each: {gpus: 3}"))
    assert swarm("solve", "lab", at=root).code == 0
    file.write_text(STACK)
    grows = "could grow within 3 h, when tune-0 is expected to end (on gpu-02)"
    for words in (("plan", "lab", "--offline"), ("plan", "lab", "--offline", "--markdown"), ("solve", "lab")):
        said = swarm(*words, at=root, width=300).out
        assert grows in said, words
    (found,) = json.loads(swarm("plan", "lab", "--offline", "--json", at=root).out)["growing"]
    assert found["start"] == grows
    said = swarm("why", "next", "-s", "lab", "--offline", at=root).out
    assert f"When it could grow, if nothing new arrives\n  {grows}\n" in said
    said = asked(root, "plan", "lab", **RUNS).out
    assert "could grow about 2026-11-23 02:10 UTC, when tune-0 is expected to end (on gpu-02)" in said


def test_a_plan_says_the_hour_and_who_runs_too_long(root: Path) -> None:
    said = asked(root, "plan", "lab", **LATE).out
    assert "could start about 2026-11-23 04:10 UTC, when fine-0 reaches its limit (on gpu-01)" in said
    assert "tune-0 on gpu-02 has run for 4 h, and 3 h was expected" in said
    assert "fine-0 on gpu-01 reached its time limit of 12 h and is not started again" in asked(root, "plan", "lab", **OVER).out


def test_ps_and_status_name_who_runs_too_long_and_who_was_ended(root: Path) -> None:
    said = asked(root, "ps", "lab", **OVER).out
    assert re.search(r"fine-0 .* failed: reached its time limit of 12 h; holds nothing *\n", said)
    assert re.search(r"tune-0 .* healthy; has run for 4 h, and 3 h was expected *\n", said)
    said = asked(root, "status", "lab", **OVER).out
    assert "yes; fine-0 reached its time limit of 12 h" in said
    assert "yes; tune-0 has run for 4 h, and 3 h was expected" in said
    found = {one["name"]: one for one in json.loads(asked(root, "ps", "lab", "--json", **OVER).out) if "name" in one}
    assert (found["fine-0"]["ended"], found["tune-0"]["started"]) == ("time-limit", NOW - 4 * HOUR)
    assert re.search(r"tune-0 .* healthy *\n", asked(root, "ps", "lab", **RUNS).out), "it is as was expected"


def test_nobody_is_asked_where_no_time_is_known(root: Path) -> None:
    (root / "stacks" / "lab.yaml").write_text(re.sub(r" time: (\{.*?\}),", "", STACK))
    with patch.object(asking, "observe", side_effect=AssertionError("asked")):
        said = swarm("why", "next", "-s", "lab", at=root)
    assert said.code == 0 and HEAD not in said.out


def test_ten_seconds_at_most_are_waited_for_machines(root: Path) -> None:
    waited: list[object] = []

    def dark(targets: dict[str, str], **more: object) -> dict[str, Observed]:
        waited.append(more["timeout"])
        return {node: Observed(node=node, error="dark") for node in targets}

    with patch.object(asking, "observe", dark):
        said = swarm("why", "next", "-s", "lab", at=root)
    assert waited == [10.0] and "could start within 3 h" in said.out
