"""What does git know of the fleet repository? Commits are read as objects, and never checked out over the work tree."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.live import file as live_file
from swarm_iac.printable import printable

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit(root: Path, name: str) -> str:
    """The whole name of a commit that is here. Raises Refused."""
    found = git.named(root, name)
    if not _COMMIT.fullmatch(found):
        raise Refused(f"{printable(name, 80)} is no commit here", hint="fetch it with its history first: git fetch --unshallow")
    return found


def fetched(root: Path, remote: str, ref: str) -> str:
    """Fetch one ref of the remote, as objects alone; its commit. Raises Retryable: the forge may be away."""
    mine = f"refs/swarm/{ref.removeprefix('refs/')}"
    try:
        git.fetch(root, remote, f"+{ref}:{mine}")
    except SwarmError as error:
        raise Retryable(f"{ref} could not be fetched: {error.message}", after=30) from None
    return commit(root, mine)


def offered(root: Path, remote: str, name: str) -> bool:
    """Is this commit here, or does the remote still give it? One that was pushed over may be gone."""
    if not git.named(root, name):
        with contextlib.suppress(SwarmError):
            git.fetch(root, remote, name)
    return bool(git.named(root, name))


def parent(root: Path, name: str) -> str:
    """The commit before it on its branch: its first parent. Raises Refused for the very first."""
    return commit(root, f"{name}^1")


def parents(root: Path, name: str) -> int:
    """How many commits it was made from."""
    return len(git.text(root, "rev-list", "--parents", "-n", "1", name).split()) - 1


def count(root: Path, branch: str, head: str) -> int:
    """How many commits a head has that a branch has not; merges are none."""
    return int(git.text(root, "rev-list", "--count", "--no-merges", f"{branch}..{head}") or 0)


def last(root: Path, name: str, many: int) -> tuple[str, ...]:
    """A commit and those before it on its branch, so many in all, oldest first. Raises Refused if there are fewer."""
    found = git.text(root, "rev-list", "--first-parent", "--reverse", "-n", str(many), name).split()
    if not found or len(found) != many:
        raise Refused(f"{name[:12]} has no {many} commits before it")
    return tuple(found)


def tree(root: Path, name: str) -> str:
    """The name of the files of a commit."""
    return git.text(root, "rev-parse", "--verify", "--quiet", f"{name}^{{tree}}")


def comes_after(root: Path, later: str, earlier: str) -> bool:
    """Is `earlier` the same commit, or one of those that `later` was made from?"""
    return git.text(root, "merge-base", earlier, later) == earlier


def between(root: Path, done: str, last: str) -> tuple[str, ...]:
    """The commits of the branch after `done` up to and with `last`, oldest first. Raises Refused if `last` has no such past."""
    if not comes_after(root, last, done):
        raise Refused(
            f"{last[:12]} does not come after {done[:12]}, which was applied: a rewritten branch, or too shallow a clone",
            hint="fetch the whole branch; if it was rewritten, compare by hand: git diff, then swarm pr apply --since COMMIT",
        )
    words = ("rev-list", "--first-parent", "--reverse", f"{done}..{last}")
    found = git.ask(root, *words).stdout.decode("ascii").split()
    if found and parent(root, found[0]) != done:
        raise Refused(f"{done[:12]}, which was applied, is not on the branch of {last[:12]} itself")
    return tuple(found)


def changed(root: Path, before: str, after: str) -> tuple[str, ...]:
    """Paths that differ between two commits."""
    words = ("diff-tree", "-r", "--name-only", "--no-renames", "-z", before, after)
    found = git.ask(root, *words).stdout.decode("utf-8", "surrogateescape")
    return tuple(filter(None, found.split("\0")))


@contextlib.contextmanager
def work_tree(root: Path, commit: str) -> Iterator[Path]:
    """A folder with the files of a commit, while it is needed, and with what is live in this clone."""
    with git.work_tree(root, commit) as found:
        live_file.carry(root, found)
        yield found


__all__ = [
    "between", "changed", "comes_after", "commit", "count", "fetched", "last", "offered", "parent", "parents",
    "tree", "work_tree",
]  # fmt: skip
