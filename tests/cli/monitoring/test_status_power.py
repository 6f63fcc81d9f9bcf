"""Does `swarm status` show what the GPUs of a node draw, beside what they may, where that is measured?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from swarm_iac import observe
from swarm_iac.observe import Measured
from tests.cli.test_ended import STACK, answers, heard, typed, write

CARDS = tuple(({"gpu": str(index)}, 300.0 + index) for index in range(8))
LIMITS = tuple(({"gpu": str(index)}, 400.0) for index in range(8))
DRAWS = {"swarm_gpu_power_watts": CARDS, "swarm_gpu_power_limit_watts": LIMITS}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A fleet whose placement is decided."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    write(tmp_path, STACK)
    assert typed(tmp_path, "solve", "lab").code == 0
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes that were asked what they measure: n1 tells, and any other is silent."""
    found: list[str] = []

    def measured(targets: Mapping[str, str], **_: object) -> dict[str, Measured]:
        found.extend(targets)
        return {name: Measured(name, DRAWS if name == "n1" else {}, {}, "" if name == "n1" else "silent") for name in targets}

    monkeypatch.setattr(observe, "measurements", measured)
    return found


def test_what_is_drawn_stands_beside_what_may_be(root: Path, asked: list[str]) -> None:
    write(root, f"telemetry: {{}}\n{STACK}")
    seen = answers(root)
    shown = heard(root, seen, "status", "lab")
    assert shown.code == 0 and asked == ["n1", "n2"]
    assert "2428 W of 3200 W" in shown.out and " power " in shown.out
    assert "W of" not in next(line for line in shown.out.splitlines() if line.split()[:1] == ["n2"])
    found = json.loads(heard(root, seen, "status", "lab", "--json").out)
    assert found["n1"]["power"] == {"drawn_w": 2428.0, "limit_w": 3200.0} and "power" not in found["n2"]


def test_who_does_not_answer_is_not_asked_again(root: Path, asked: list[str]) -> None:
    write(root, f"telemetry: {{}}\n{STACK}")
    seen = answers(root)
    del seen["n1"]
    shown = heard(root, seen, "status", "lab")
    assert shown.code == 4 and asked == ["n2"] and " power " not in shown.out


@pytest.mark.parametrize(("telemetry", "words"), [("", ()), ("telemetry: {}\n", ("--offline",))])
def test_where_nothing_measures_nobody_is_asked(root: Path, asked: list[str], telemetry: str, words: tuple[str, ...]) -> None:
    write(root, f"{telemetry}{STACK}")
    shown = heard(root, answers(root), "status", "lab", *words)
    assert shown.code == 0 and not asked and " power " not in shown.out
