"""A fleet repository under git, with a base and pull requests against it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.review.check import Approval, Verdict, check

DEV = Path(__file__).parents[2] / "stacks" / "dev.yaml"
RIGHTS = """
rights:
  accounts: {ada: ada-lovelace}
  owners:
    - {paths: ["workloads.*"], by: own}
    - {paths: [teams.research.limits], by: [team research]}
    - {paths: [nodes, hardware, tuning], by: [cy]}
    - {paths: [rights, teams, limits, solve], by: [cy]}
"""
#: The same where everyone sets the priorities of their own.
FREE = RIGHTS.replace('paths: ["workloads.*"]', 'paths: ["workloads.*", "workloads.*.priority"]')


@dataclass
class Repository:
    """A fleet repository. Each commit is made from whole files, on a branch of its own."""

    folder: Path

    def git(self, *words: str) -> str:
        """Runs git there, with no setting of this machine."""
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        own |= {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ("git", *words), cwd=self.folder, env=os.environ | own, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def tree(self, entries: str) -> str:
        """A tree of these entries, as `git ls-tree` prints them."""
        done = subprocess.run(("git", "mktree"), cwd=self.folder, input=entries, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        """One file of the work tree."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, old: str, new: str, name: str = "stacks/dev.yaml") -> None:
        """Put a text in place of one that stands there once."""
        text = (self.folder / name).read_text()
        assert text.count(old) == 1, (old, text.count(old))
        self.write(name, text.replace(old, new))

    def solve(self, name: str = "dev") -> None:
        """Decide, as `swarm solve` does."""
        import datetime

        from swarm_iac.decision import decide, keep

        keep(decide(self.folder, name, today=datetime.date.today(), write=False))

    def commit(self) -> str:
        """All of the work tree, by its name."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str = "main") -> None:
        """Begin a branch, with the work tree of its start."""
        self.git("checkout", "-q", "-f", "-B", name, start)

    def pull_request(self, *edits: tuple[str, str], solve: bool = True, branch: str = "change") -> str:
        """A branch from main with these edits of the stack file, solved and committed."""
        self.branch(branch)
        for old, new in edits:
            self.edit(old, new)
        if solve:
            self.solve()
        head = self.commit()
        self.git("checkout", "-q", "-f", "main")
        return head

    def check(self, head: str, author: str | None = None, approvals: Sequence[Approval] = ()) -> Verdict:
        """The verdict on a commit, merged into main."""
        return check(self.folder, "main", head, author, approvals)


def made(folder: Path, text: str) -> Repository:
    """A repository whose stacks/dev.yaml is this text, solved, on main."""
    found = Repository(folder)
    folder.mkdir()
    found.git("init", "-q", "-b", "main")
    found.write("Pulumi.yaml", "name: fleet\nruntime: python\n")
    found.write("stacks/dev.yaml", text)
    found.solve()
    found.commit()
    return found
