"""Do the examples still show what they say? Each is run by the very command that its README names.

`SWARM_UPDATE=1 pytest tests/examples` writes the goldens anew; read what changed.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
from pathlib import Path

import pytest

from swarm_iac.decision import decide_file
from tests.cli.typed import ROOT, swarm

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/stack.yaml"))
_PLAN, _VALIDATE = "swarm plan --offline", "swarm validate"


def command(example: Path) -> str:
    """What the test types for this example."""
    verb = _VALIDATE if (example / "refused.txt").exists() else _PLAN
    return f"{verb} {(example / 'stack.yaml').relative_to(ROOT)}"


def steady(text: str) -> str:
    """Without what another release of the solver may change, and without the spaces that fill a table."""
    text = re.sub(r"CP-SAT [0-9.]+", "CP-SAT (version)", text)
    text = re.sub(r"lock\.yaml of [-0-9]+ [:0-9]+", "lock.yaml of (when)", text)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


def test_example_prints_its_golden_and_leaves_nothing_behind(example: Path) -> None:
    before = sorted(example.rglob("*"))
    ended = swarm(*shlex.split(command(example))[1:], at=ROOT)
    assert sorted(example.rglob("*")) == before
    refused = example / "refused.txt"
    golden = refused if refused.exists() else example / "plan.txt"
    text = ended.err if refused.exists() else ended.out
    if os.environ.get("SWARM_UPDATE"):
        golden.write_text("\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n")
    assert ended.code == (2 if refused.exists() else 0), ended.err
    assert steady(text) == steady(golden.read_text())


def test_readme_names_the_command(example: Path) -> None:
    lines = (example / "README.md").read_text().splitlines()
    assert f"    {command(example)}" in lines
    assert 15 <= len(lines) <= 30


def test_stack_has_the_editors_schema(example: Path) -> None:
    first = (example / "stack.yaml").read_text().splitlines()[0]
    schema = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert schema and (example / schema[1]).resolve().is_file()


def test_lock_of_the_drained_node_is_stale_for_that_node_alone() -> None:
    decision = decide_file(ROOT / "examples" / "06-a-drained-node" / "stack.yaml", today=datetime.date.today())
    assert decision.stale == ("finetune-0: gpu-02 is in state drain",)
    stayed = {one.name for one in decision.placement.allocations if decision.last.by_name()[one.name].node == one.node}
    assert stayed == {"chat-0", "chat-1"}


def test_the_examples_are_there() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{i:02}" for i in range(1, len(EXAMPLES) + 1)]
