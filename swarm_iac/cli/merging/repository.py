"""What does git know of the fleet repository? Commits are read as objects, and never checked out over the work tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm_iac.errors import Refused, Retryable, SwarmError
from swarm_iac.printable import printable

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_TIMEOUT = 300
#: No hook, monitor or filter of the clone runs, and what is fetched is checked. The repository's own files set none of these.
_SAFE = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "transfer.fsckObjects=true", "fetch.recurseSubmodules=false",
    "protocol.ext.allow=never", "advice.detachedHead=false",
)  # fmt: skip


def git(root: Path, *words: str, check: bool = True) -> str:
    """What git prints in `root`, without the last line ends. Raises SwarmError with its words."""
    return raw(root, *words, check=check).decode("utf-8", "surrogateescape").rstrip("\n")


def raw(root: Path, *words: str, check: bool = True, sent: bytes = b"") -> bytes:
    """The same, byte by byte; empty where git fails and that is not checked. `sent`: its input."""
    options = [word for each in _SAFE for word in ("-c", each)]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *options, *words], cwd=root, env=env, input=sent, capture_output=True, timeout=_TIMEOUT
        )  # fmt: skip
    except FileNotFoundError:
        raise SwarmError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise Retryable(f"git {words[0]} took longer than {_TIMEOUT} s", after=60) from None
    if done.returncode and check:
        raise SwarmError(f"git {words[0]}: {printable(done.stderr.decode('utf-8', 'replace').strip(), 300)}")
    return b"" if done.returncode else done.stdout


def commit(root: Path, name: str) -> str:
    """The whole name of a commit that is here. Raises Refused."""
    found = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False)
    if not _COMMIT.fullmatch(found):
        raise Refused(f"{printable(name, 80)} is no commit here", hint="fetch it with its history first: git fetch --unshallow")
    return found


def fetched(root: Path, remote: str, ref: str) -> str:
    """Fetch one ref of the remote, as objects alone; its commit. Raises Retryable: the forge may be away."""
    mine = f"refs/swarm/{ref.removeprefix('refs/')}"
    try:
        git(root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", remote, f"+{ref}:{mine}")
    except SwarmError as error:
        raise Retryable(f"{ref} could not be fetched: {error.message}", after=30) from None
    return commit(root, mine)


def offered(root: Path, remote: str, name: str) -> bool:
    """Is this commit here, or does the remote still give it? One that was pushed over may be gone."""
    known = f"{name}^{{commit}}"
    if not git(root, "rev-parse", "--verify", "--quiet", known, check=False):
        git(root, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", remote, name, check=False)
    return bool(git(root, "rev-parse", "--verify", "--quiet", known, check=False))


def parent(root: Path, name: str) -> str:
    """The commit before it on its branch: its first parent. Raises Refused for the very first."""
    return commit(root, f"{name}^1")


def comes_after(root: Path, later: str, earlier: str) -> bool:
    """Is `earlier` the same commit, or one of those that `later` was made from?"""
    return git(root, "merge-base", earlier, later, check=False) == earlier


def between(root: Path, done: str, last: str) -> tuple[str, ...]:
    """The commits of the branch after `done` up to and with `last`, oldest first. Raises Refused if `last` has no such past."""
    if not comes_after(root, last, done):
        raise Refused(
            f"{last[:12]} does not come after {done[:12]}, which was applied: a rewritten branch, or too shallow a clone",
            hint="fetch the whole branch; if it was rewritten, compare by hand: git diff, then swarm pr apply --since COMMIT",
        )
    found = git(root, "rev-list", "--first-parent", "--reverse", f"{done}..{last}").split()
    if found and parent(root, found[0]) != done:
        raise Refused(f"{done[:12]}, which was applied, is not on the branch of {last[:12]} itself")
    return tuple(found)


def changed(root: Path, before: str, after: str) -> tuple[str, ...]:
    """Paths that differ between two commits."""
    return tuple(filter(None, git(root, "diff", "--name-only", "--no-renames", "-z", before, after).split("\0")))


@contextmanager
def work_tree(root: Path, name: str) -> Iterator[Path]:
    """A folder with the files of a commit of the base branch, for as long as it is needed."""
    folder = Path(tempfile.mkdtemp(prefix="swarm-merge-"))
    try:
        git(root, "worktree", "add", "--quiet", "--detach", str(folder / "fleet"), name)
        yield folder / "fleet"
    finally:
        git(root, "worktree", "remove", "--force", str(folder / "fleet"), check=False)
        shutil.rmtree(folder, ignore_errors=True)
        git(root, "worktree", "prune", check=False)
