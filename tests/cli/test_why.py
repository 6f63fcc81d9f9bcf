"""Does `swarm why` read well? One stack file each in why/, the question in its first line, the answer beside it.

`SWARM_UPDATE=1 pytest tests/cli` writes the answers anew; read what changed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.typed import ROOT, swarm

HERE = Path(__file__).parent / "why"
CASES = sorted(path for path in HERE.glob("*.yaml") if "." not in path.stem)


def question(file: Path) -> list[str]:
    asked = re.fullmatch(r"# swarm (why \S+(?: --offline)?)", file.read_text().splitlines()[0])
    assert asked, f"the first line of {file.name} is no question"
    return [*asked[1].split(), "--from", str(file.relative_to(ROOT))]


@pytest.mark.parametrize("file", CASES, ids=lambda path: path.stem)
def test_answer_is_told_as_written(file: Path) -> None:
    ended = swarm(*question(file), at=ROOT)
    assert ended.code == 0, ended.err
    golden = file.with_suffix(".txt")
    if os.environ.get("SWARM_UPDATE"):
        golden.write_text(ended.out)
    assert ended.out == golden.read_text()


@pytest.mark.parametrize("file", CASES, ids=lambda path: path.stem)
def test_every_reason_and_edit_names_its_line(file: Path) -> None:
    answer = json.loads(swarm(*question(file), "--json", at=ROOT).out)
    edits = [edit for fix in answer["fixes"] for edit in fix["edits"]]
    assert (answer["missing"] > 0) == bool(answer["reasons"])
    for one in (*answer["reasons"], *answer["fits"], *answer["moved"], *edits):
        file_name, line = one["place"].rsplit(":", 1)
        assert 1 <= int(line) <= len((ROOT / file_name).read_text().splitlines()), one


@pytest.mark.parametrize("file", CASES, ids=lambda path: path.stem)
def test_answering_writes_nothing(file: Path) -> None:
    before = {path: path.read_bytes() for path in HERE.iterdir()}
    swarm(*question(file), at=ROOT)
    assert {path: path.read_bytes() for path in HERE.iterdir()} == before


def test_help_has_an_example() -> None:
    for command in ("why",):
        assert "Example" in swarm(command, "--help", at=ROOT).out
