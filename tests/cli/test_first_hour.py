"""Does docs/first-hour.md show what a newcomer sees? The page is walked in an empty folder, and each output is compared.

`SWARM_UPDATE=1 pytest tests/cli/test_first_hour.py` writes the outputs anew; read what changed.

A block of the page that begins with `    $ ` is typed, line for line, in one shell; what follows up to the next `$` or the end
of the block is what it prints. A block after a line that ends with "`FILE`:" is what that file then holds.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.typed import ROOT

PAGE = ROOT / "docs" / "first-hour.md"
UPDATE = "SWARM_UPDATE=1 pytest tests/cli/test_first_hour.py"
#: No command takes longer. [s of CPU]
MOST = 3.0
_FILE = re.compile(r"`([^`]+)`:$")


@dataclass
class Walk:
    """The page as it is walked: a folder, and the shell's variables."""

    folder: Path
    variables: dict[str, str]

    def type(self, command: str) -> tuple[str, float]:
        """What a shell prints, stdout and stderr as a terminal mixes them, and the CPU time that it took. [s]"""
        report = 'code=$?; pwd > .walk.pwd.$$ && mv .walk.pwd.$$ "$WALK_PWD"; env -0 > "$WALK_ENV"; exit $code'
        kept = {name: str(self.variables["HOME"] + f"/{name}") for name in ("WALK_PWD", "WALK_ENV")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            ["bash", "-c", f"{command}\n{report}"], cwd=self.folder, env=self.variables | kept, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.folder = Path(Path(kept["WALK_PWD"]).read_text().strip())
        found = dict(one.split("=", 1) for one in Path(kept["WALK_ENV"]).read_text().split("\0") if "=" in one)
        self.variables = {name: value for name, value in found.items() if not name.startswith("WALK_") and name != "_"}
        return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    """An empty folder, and a shell that finds `swarm` of this checkout."""
    (home := tmp_path / "home").mkdir()
    (empty := tmp_path / "work").mkdir()
    (found := tmp_path / "bin").mkdir()
    (found / "swarm").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m swarm_iac.cli "$@"\n')
    (found / "swarm").chmod(0o755)
    path = f"{found}:{os.environ['PATH']}"
    return Walk(empty, {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"})


def walked(text: str, walk: Walk) -> tuple[str, dict[str, float]]:
    """The page with each command followed by what it prints now, and the CPU time of each. [s]"""
    lines, took = [], {}
    block: list[str] = []
    heading = ""

    def finish() -> None:
        while block and not block[-1]:
            block.pop()
        if not block:
            return
        if block[0].startswith("    $ "):
            commands = [one[6:] for one in block if one.startswith("    $ ")]
            for number, command in enumerate(commands):
                out, took[command] = walk.type(command)
                lines.extend([""][:number])
                lines.append(f"    $ {command}")
                lines.extend(f"    {one.rstrip()}".rstrip() for one in out.rstrip().splitlines())
        else:
            if file := _FILE.search(heading):
                (walk.folder / file[1]).write_text("".join(f"{one[4:]}\n" for one in block))
            lines.extend(block)
        lines.append("")
        block.clear()

    for line in text.splitlines():
        if line.startswith("    ") or (block and not line):
            block.append(line)
            continue
        finish()
        lines.append(line)
        heading = line or heading
    finish()
    return "\n".join(lines).rstrip() + "\n", took


def steady(text: str) -> str:
    """Without days, times and the solver's version."""
    text = re.sub(r"CP-SAT [0-9.]+", "CP-SAT (version)", text)
    return re.sub(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2})?", "(when)", text)


@pytest.mark.slow
def test_every_command_of_the_page_prints_what_stands_there(walk: Walk) -> None:
    found, took = walked(PAGE.read_text(), walk)
    if os.environ.get("SWARM_UPDATE"):
        PAGE.write_text(found)
    assert steady(found) == steady(PAGE.read_text()), f"the page shows another output; to write it anew: {UPDATE}"
    assert len([one for one in took if one.startswith("swarm ")]) >= 18
    assert not {one: seconds for one, seconds in took.items() if seconds > MOST}


def test_the_readme_leads_to_it() -> None:
    assert "docs/first-hour.md" in (ROOT / "README.md").read_text()
