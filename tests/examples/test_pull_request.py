"""Does the example of a pull request give the comment that it shows? In a repository that is made of its two files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cli.typed import ROOT, swarm
from tests.examples.test_examples import steady
from tests.review.fleet import made

EXAMPLE = ROOT / "examples" / "18-pull-request"


def without_names(text: str) -> str:
    """Without the names of commits and of the effect, which the time of a commit and a release change."""
    text = re.sub(r"\b[0-9a-f]{40}\b", "(commit)", text)
    text = re.sub(r"\b(Head|into) [0-9a-f]{12}\b", r"\1 (commit)", text)
    return re.sub(r"effect[ =][0-9a-f]{16}", "effect (digest)", text)


def test_the_comment_is_what_the_example_shows(tmp_path: Path) -> None:
    fleet = made(tmp_path / "fleet", (EXAMPLE / "stack.yaml").read_text())
    fleet.branch("change")
    fleet.write("stacks/dev.yaml", (EXAMPLE / "head.yaml").read_text())
    fleet.solve()
    fleet.commit()
    ended = swarm("pr", "check", "--base", "main", "--head", "change", "--author", "bo", at=fleet.folder)
    golden = EXAMPLE / "comment.md"
    if os.environ.get("SWARM_UPDATE"):
        golden.write_text(without_names(ended.out))
    assert ended.code == 3, ended.err
    assert steady(without_names(ended.out)) == steady(without_names(golden.read_text()))
