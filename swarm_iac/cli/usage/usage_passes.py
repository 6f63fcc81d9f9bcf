"""How is usage recorded? One pass over the nodes into the store, with the prices of the commit that is in force."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm_iac import git
from swarm_iac.accounting import readings, recording, schema
from swarm_iac.accounting.observation import NodePass
from swarm_iac.cli import engine
from swarm_iac.cli.decisions import deciding
from swarm_iac.errors import SwarmError
from swarm_iac.model.stack import Stack
from swarm_iac.review import commits

#: In a fleet repository, where git does not see it.
STORE = Path(".state") / "usage.db"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recorded:
    """What one pass did. `new`: False for a moment that was recorded before."""

    new: bool
    at: int
    commit: str
    nodes: tuple[NodePass, ...]

    @property
    def silent(self) -> dict[str, str]:
        """Nodes that told nothing of their cards, and why."""
        return {one.node: one.reason for one in self.nodes if one.unknown and not one.answered}

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"recorded": self.new, "at": self.at, "commit": self.commit, "nodes": len(self.nodes), "unknown": self.silent}


def place(name: str, store: Path | None) -> tuple[Path, str]:
    """Where the store of a stack is, and what the stack is called in it. Raises SwarmError where none is named or known."""
    if store is not None and (store.is_dir() or not store.name):
        raise SwarmError(f"--store {store} is a folder", hint="name a file in it")
    if store is not None:
        return store, Path(name).stem if deciding.is_file(name) else name
    found = deciding.home(name)
    if found is None:
        raise SwarmError(f"{name} is in no fleet repository", hint="name the store: --store usage.db")
    return found[0] / STORE, found[1]


def record(name: str, store: Path | None, say: Say, *, longest: int, after_gap: bool, keep: int) -> Recorded:
    """Ask every node, and add what they say. Raises SwarmError; Retryable where another one records, or the clock is behind."""
    from swarm_iac.observe import measurements

    path, stack_name = place(name, store)
    stack, commit = in_force(name, say)
    if stack.telemetry is None:
        raise SwarmError(f"nothing is measured in {name}", hint="add `telemetry: {}` to the stack file; see docs/telemetry.md")
    found = deciding.home(name)
    run = engine.options(found[0] if found else Path(name).parent)
    with recording.alone(path), schema.opened(path, write=True) as opened:
        at = int(time.time())
        if not recording.check(opened, stack_name, at, after_gap=after_gap):
            return Recorded(False, at, commit, ())
        off = deciding.asleep(name)
        targets = {node: one.ssh for node, one in stack.nodes.items() if one.state != "lost" and node not in off}
        measured = measurements(targets, ssh_config=run.ssh_config, timeout=run.node_timeout)
        seen = readings.one_pass(stack, measured, at, commit, recording.occupied(opened, stack_name), off)
        new = recording.record(opened, stack_name, seen, longest=longest, after_gap=after_gap, keep=keep)
        return Recorded(new, at, commit, seen.nodes)


def in_force(name: str, say: Say) -> tuple[Stack, str]:
    """The stack as the last commit here has it, and that commit; as the file is where it is in none.

    What somebody has edited and not committed is no price. Raises StackFileError.
    """
    from swarm_iac.stackfile import load, loads, nearest_policy

    (path,) = deciding.files([name])
    folder, today = path.absolute().parent, datetime.date.today()
    commit = git.named(folder, "HEAD") if folder.is_dir() else ""
    if commit:
        inside = git.text(folder, "rev-parse", "--show-prefix")
        with commits.opened(folder, commit, commit) as objects:
            entry = objects.entry(commit, f"{inside}{path.name}")
            text = objects.read(entry) if entry else None
        if text is not None:
            return loads(text, str(path), policies=nearest_policy(path), today=today).stack, commit
        say(f"{path} is in no commit: its prices are those of the file")
    return load(path, today=today).stack, ""
