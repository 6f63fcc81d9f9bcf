"""What does git remember of a stack: which commits changed its files, and where a workload was placed in each?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import SwarmError
from swarm_iac.stackfile.locks.companions import Files

#: Commits that are listed, and locks that are read for one workload.
COMMITS, LOCKS = 40, 15
_FORMAT = "%H%x00%an%x00%aI%x00%s%x1e"


@dataclass(frozen=True)
class Commit:
    """A commit that changed the stack file or its lock. `at`: ISO 8601."""

    commit: str
    who: str
    at: str
    subject: str


@dataclass(frozen=True)
class Placed:
    """What a commit did to the allocations of one workload, one line each."""

    by: Commit
    changes: tuple[str, ...]


def commits(root: Path, files: Files, most: int = COMMITS, *, lock_only: bool = False) -> tuple[Commit, ...]:
    """Newest first. Raises SwarmError where there is no history."""
    paths = [files.lock] if lock_only else [files.stack, files.lock]
    words = ("log", f"-n{most}", "--no-show-signature", "--no-textconv", f"--format={_FORMAT}", "--", *map(str, paths))
    found = git.ask(root, *words).stdout.decode("utf-8", "replace")
    parts = (one.strip("\n").split("\x00") for one in found.split("\x1e"))
    return tuple(Commit(*each[:4]) for each in parts if len(each) == 4)


def placements(root: Path, files: Files, workload: str) -> tuple[Placed, ...]:
    """Newest first: each of the last commits of the lock that started, moved, changed or ended something of it."""
    known = commits(root, files, LOCKS + 1, lock_only=True)
    top = git.text(root, "rev-parse", "--show-toplevel").strip()
    name = files.lock.resolve().relative_to(Path(top).resolve())
    states = [_blocks(_content(root, one.commit, name), workload) for one in known]
    if len(known) <= LOCKS:  # the first commit of all: nothing was before
        states.append({})
    steps = zip(known, states, states[1:], strict=False)
    return tuple(Placed(one, changes) for one, after, before in steps if (changes := tuple(_changes(before, after))))


def _content(root: Path, commit: str, name: Path) -> str:
    try:
        return git.ask(root, "cat-file", "blob", f"{commit}:{name.as_posix()}").stdout.decode("utf-8", "replace")
    except SwarmError:
        return ""  # that commit removed it


def _blocks(text: str, workload: str) -> dict[str, str]:
    """Where each allocation is in a lock as `swarm solve` writes it: `gpu-01, GPUs [0, 1]`."""
    found = {}
    pattern = rf"^  ({re.escape(workload)}-[0-9]+):\n((?:    .*\n)+)"
    for name, block in re.findall(pattern, text, re.MULTILINE):
        fields = dict(line.strip().split(": ", 1) for line in block.splitlines() if ": " in line)
        gpus = f", GPUs {fields['gpus']}" if "gpus" in fields else ""
        found[name] = fields.get("node", "?") + gpus + (", finished" if fields.get("ended") == "true" else "")
    return found


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        yield f"{name}: on {now}" if was is None else f"{name}: removed from {was}" if now is None else f"{name}: {was} → {now}"
