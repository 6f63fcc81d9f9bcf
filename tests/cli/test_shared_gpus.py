"""Does a part of a GPU reach every place where a GPU is shown, and is it said that it is shared?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.typed import swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 2 x H100, vcpus: 64, memory: 1 TB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
prices: {H100: 2 EUR/h}
workloads:
  left: {user: ada, each: {gpus: 0.5 x H100}}
  right: {user: bo, each: {gpus: 0.25}}
  rest: {user: bo, each: {gpus: {share: 0.125, memory: 40 GB}}}
  whole: {user: ada, each: {gpus: 1}}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "lab.yaml").write_text(STACK)
    monkeypatch.setenv("SWARM_STACK", "lab")
    return tmp_path


def test_three_share_a_card_and_nobody_shares_with_who_asked_for_a_whole_one(root: Path) -> None:
    said = swarm("solve", at=root)
    assert said.code == 0 and "not placed" not in said.out
    lock = (root / "stacks" / "lab.lock.yaml").read_text()
    shared = {line.strip() for line in lock.splitlines() if "gpus:" in line}
    (card,) = {line[8] for line in shared if '"' in line}
    assert shared == {f'gpus: ["{card}:{part}"]' for part in ("0.5", "0.25", "0.125")} | {f"gpus: [{1 - int(card)}]"}
    for out in (said.out, swarm("ps", "--offline", at=root).out):
        for part in ("0.5", "0.25", "0.125"):
            (row,) = (line for line in out.splitlines() if f" {part} of GPU {card} " in line)
            assert "time-shared, not isolated" in row
        assert "not isolated" not in next(line for line in out.splitlines() if "whole-0" in line)
    assert swarm("solve", at=root).code == 0 and (root / "stacks" / "lab.lock.yaml").read_text() == lock


def test_a_part_counts_and_costs_as_much_as_it_is(root: Path) -> None:
    assert swarm("solve", at=root).code == 0
    plan = swarm("plan", "--offline", at=root).out
    assert "cluster lab  gpus      1.875   1.875" in plan and "3.75 EUR/h" in plan
    assert "0.125 GPUs, " in swarm("why", "n1", at=root).out.partition("Free capacity")[2]
    assert json.loads(swarm("why", "n1", "--json", at=root).out)["free"]["gpus"] == 0.125


@pytest.mark.parametrize(("limit", "fits"), [("1.5", True), ("1.499", False)])
def test_a_limit_counts_parts_of_a_user(limit: str, fits: bool, root: Path) -> None:
    file = root / "stacks" / "lab.yaml"
    file.write_text(STACK + f"limits: {{user: {{gpus: {limit}}}}}\n")
    said = swarm("solve", at=root)
    assert said.code == 0 and ("has 0.999 left of 1.499" in said.out or "has 0.499 left of 1.499" in said.out) is not fits


def test_why_names_what_is_left_of_a_card_and_a_part_that_would_fit(root: Path) -> None:
    (root / "stacks" / "lab.yaml").write_text(STACK + "  late: {user: bo, priority: low, each: {gpus: 0.3 x H100}}\n")
    assert swarm("solve", at=root).code == 0
    said = swarm("why", "late", at=root).out
    assert "needs 0.3 x H100 on one card; the most that is free of one is 0.125 on n1" in said
    assert "workloads.late.each.gpus: 0.3 x H100 → 0.1 x H100" in said
    assert "holds 0.5 GPUs on n1" in said or "holds 1 GPU on n1" in said
    told = swarm("why", "left", at=root).out
    assert "0.5 of one H100 GPU each, time-shared and not isolated" in told


def test_a_first_plan_shows_whose_part_it_is(root: Path) -> None:
    plan = swarm("plan", "--offline", at=root).out
    assert "(time-shared, not isolated)" in plan and "0.125 of GPU" in plan


def test_who_cannot_grow_keeps_its_part_and_grows_on_its_card_once_it_is_free(root: Path) -> None:
    file, lock = root / "stacks" / "lab.yaml", root / "stacks" / "lab.lock.yaml"
    assert swarm("solve", at=root).code == 0
    before = lock.read_text()
    file.write_text(STACK.replace("gpus: 0.5 x H100", "gpus: 1 x H100"))
    said = swarm("solve", at=root).out
    (row,) = (line for line in said.splitlines() if line.strip().startswith("left ") and "0.5 GPUs" in line)
    assert "1 GPU" in row and 'left-0:\n    workload: left\n    node: n1\n    user: ada\n    gpus: ["' in lock.read_text()
    card = before.partition("  left-0:")[2].partition('gpus: ["')[2][0]
    file.write_text(file.read_text().replace("  whole: {user: ada, each: {gpus: 1}}\n", ""))
    assert swarm("solve", at=root).code == 0
    assert "growing:" not in lock.read_text()
    parts = {line.strip() for line in lock.read_text().splitlines() if "gpus:" in line}
    assert f"gpus: [{1 - int(card)}]" in parts and f'gpus: ["{card}:0.25"]' in parts, "who shares keeps its card"
