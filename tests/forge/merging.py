"""A fleet repository on a real forge with a real state; only the machines are a stand-in that remembers what was applied.

On machines themselves: tests/e2e/test_pull_request.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swarm_iac.cli import initialise
from swarm_iac.cli.merging import approved, repository
from swarm_iac.cli.merging.applying import Merges
from swarm_iac.forge.forge import State
from swarm_iac.model.step import Change, Step, Verb
from tests.forge.conftest import Lab

STACK = "stacks/dev.yaml"


@dataclass
class Machines:
    """What `swarm plan` and `swarm up` find: the fleet as it is at `now`, with what somebody changed there by hand."""

    root: Path
    now: str
    ups: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    drift: tuple[Step, ...] = ()
    status: int = 0
    seen: dict[str, str] = field(default_factory=dict)
    then: Callable[[], None] = lambda: None  # what happens while they are changed

    def swarm(
        self, tree: Path, words: Sequence[str], environment: Mapping[str, str], capture: bool
    ) -> subprocess.CompletedProcess[str]:
        commit = repository.commit(tree, "HEAD")
        self.seen = dict(environment)
        if words[0] == "plan":
            with repository.work_tree(self.root, self.now) as before:
                steps = (*approved.steps(self.root, "dev", before, tree), *self.drift)
            text = json.dumps({"steps": [step.model_dump(mode="json") for step in steps], "refused": None})
            return subprocess.CompletedProcess([], 0, text, "")
        assert words[0] == "up" and environment["SWARM_FROZEN"] == "1"
        self.only.append(words[words.index("--only") + 1] if "--only" in words else "")
        self.ups.append(commit)
        self.then()
        if self.status == 0:
            self.now = commit
        return subprocess.CompletedProcess([], self.status, "", "")


@dataclass
class Operated:
    """The repository, and the clone in which merges are applied."""

    lab: Lab
    clone: Path
    machines: Machines
    said: list[str] = field(default_factory=list)
    verdict: str = ""

    def merges(self, **more: str) -> Merges:
        repository.fetched(self.clone, "origin", "refs/heads/main")
        bot = self.lab.people["bot"].name
        return Merges(
            self.clone, "dev", self.lab.bot, bot, lambda *_: self.verdict, self.said.append, swarm=self.machines.swarm, **more
        )  # fmt: skip

    def change(self, who: str, branch: str, old: str, new: str) -> tuple[int, str]:
        """A pull request that changes a line of the stack, with its lock."""
        person = self.lab.people[who]
        person.begin(branch)
        person.edit(STACK, old, new)
        solve(person.at)
        number, head = person.opened(branch)
        self.lab.bot.set_status(head, approved.CONTEXT, State.SUCCESS, "checked")
        return number, head

    def merged(self, who: str, branch: str, old: str, new: str) -> str:
        number, _ = self.change(who, branch, old, new)
        return self.lab.people[who].merge(number)


#: What `swarm solve` reads in a fleet repository → what it left in `stacks/`.
_SOLVED: dict[tuple[tuple[str, bytes], ...], tuple[tuple[str, bytes], ...]] = {}


def _files(folder: Path, *names: str) -> tuple[tuple[str, bytes], ...]:
    paths = (path for name in names for path in sorted(folder.glob(name)) if path.is_file())
    return tuple((str(path.relative_to(folder)), path.read_bytes()) for path in paths)


def solve(folder: Path) -> None:
    """`swarm solve` there. The same files have the same answer: it is asked once for all tests of a process."""
    asked = _files(folder, "stacks/**/*", "policies/**/*", ".state/*.live.json", "Pulumi*.yaml")
    if asked not in _SOLVED:
        done = subprocess.run(
            ["swarm", "solve", "--offline", "--stack", "dev"], cwd=folder, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        _SOLVED[asked] = _files(folder, "stacks/**/*")
    for name, content in _SOLVED[asked]:
        (folder / name).write_bytes(content)


def fleet_files(new: Path, more: str = "") -> dict[str, str]:
    """A repository as `swarm init` makes it, if it is not there, solved; `more` is added to its stack file."""
    if not new.exists():
        initialise.make(new)
    with (new / STACK).open("a") as file:
        file.write(more)
    solve(new)
    paths = (path for path in new.rglob("*") if path.is_file() and ".state" not in path.parts)
    return {str(path.relative_to(new)): path.read_text() for path in paths}


def operated(lab: Lab) -> Operated:
    """A repository that is pushed, and everything in it applied."""
    ada = lab.people["ada"]
    ada.begin("main")
    head = ada.push("main", fleet_files(lab.at / "new"))
    clone = lab.clone("clone")
    one = Operated(lab, clone.at, Machines(clone.at, head))
    one.merges(since=head).apply(head)
    return one


def row(node: str, path: str, old: object, new: object) -> Step:
    """A difference on a machine that nobody asked for."""
    return Step(id=f"{node}/settings", node=node, verb=Verb.SETTINGS, changes=(Change(path=path, old=old, new=new),))
