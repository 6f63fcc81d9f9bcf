"""Do docs/answers.md and docs/reasons.md show what the commands print? Each `$ swarm …` in it is typed, and what follows is compared.

`SWARM_UPDATE=1 pytest tests/cli` writes the answers anew; read what changed.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.typed import ROOT, swarm

FILES = [ROOT / "docs" / name for name in ("answers.md", "reasons.md")]


def typed(text: str) -> str:
    """The page, with each command followed by what it prints now."""
    lines: list[str] = []
    shown = iter(text.splitlines())
    for line in shown:
        if not line.startswith("    $ swarm "):
            lines.append(line)
            continue
        ended = swarm(*shlex.split(line)[2:], at=ROOT, width=112)
        assert ended.code == 0, ended.err
        printed = [f"    {one.rstrip()}".rstrip() for one in ended.out.rstrip().splitlines()]
        lines += [line, "", *printed, ""]
        # Skip the old answer: everything up to the first line that is neither empty nor indented.
        rest = next((one for one in shown if one and not one.startswith("    ")), "")
        lines.append(rest)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_command_of_the_page_prints_what_stands_there(file: Path) -> None:
    text = file.read_text()
    found = typed(text)
    if os.environ.get("SWARM_UPDATE"):
        file.write_text(found)
    assert found == file.read_text()
    assert len(re.findall(r"^    \$ swarm (why|what-if|rebalance) ", text, re.MULTILINE)) >= 4
