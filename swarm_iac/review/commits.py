"""What stands in a commit, and what would stand in the merge of two? Read as data: nothing of it is checked out or run.

Git reads from a repository of its own in a temporary folder, which borrows the objects of the real one. So no hook, filter,
merge driver, attribute or setting of the real one takes part, and nothing is written there.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.errors import Refused, SwarmError, ToolMissing
from swarm_iac.printable import printable

#: A regular file, and one that may be run. Links, submodules and folders have other modes.
REGULAR = ("100644", "100755")
#: The largest file that is read. [bytes]
MAX_BYTES = 16 * 1024 * 1024
#: So many changed files are told apart; beyond, a pull request is no change of a fleet.
MAX_FILES = 20_000
#: No command of git takes longer on a repository of stack files. [s]
_PATIENCE = 120.0
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class Entry:
    """A file of a tree: its mode, as git writes it, and its content by name."""

    name: str
    mode: str
    blob: str

    @property
    def regular(self) -> bool:
        """Is it a file with content of its own?"""
        return self.mode in REGULAR


@dataclass(frozen=True)
class MergeConflict:
    """Files that both sides changed, so that git merges none of it. None, where only the names of folders disagree."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Commits:
    """Two commits, and the objects in which they are found. `base` and `head` are full names."""

    folder: Path
    objects: Path
    base: str
    head: str

    def merged(self) -> str | MergeConflict:
        """The tree that merging makes. Raises SwarmError where git cannot tell."""
        words = ("--git-dir", str(self.folder), "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        done = _asked((*words, self.base, self.head), _environment(self.objects), (0, 1))
        tree, *names = done.stdout.decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
        if not done.returncode:  # a conflict may name no file, as where a folder was split in two
            return tree
        return MergeConflict(tuple(sorted({name for name in names if name})))

    def has(self, commit: str) -> bool:
        """Is this commit the base, or one that it was made from?"""
        words = ("--git-dir", str(self.folder), "merge-base", "--is-ancestor", commit, self.base)
        return _asked(words, _environment(self.objects), (0, 1, 128)).returncode == 0

    def stacks(self, tree: str) -> dict[str, Entry]:
        """What lies in stacks/ of a tree, by name: not deeper."""
        found = self._run("ls-tree", "-z", tree, "stacks/")
        entries = (_entry(line) for line in found.split(b"\0") if line)
        return {one.name: one for one in entries}

    def entry(self, tree: str, name: str) -> Entry | None:
        """One file of a tree; None if there is none."""
        found = self._run("ls-tree", "-z", tree, "--", name).rstrip(b"\0")
        return _entry(found) if found else None

    def changed(self, tree: str) -> tuple[tuple[Entry | None, Entry | None], ...]:
        """Each file that differs between the base and a tree, before and after. Raises Refused for too many."""
        fields = self._run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", self.base, tree).split(b"\0")
        found: list[tuple[Entry | None, Entry | None]] = []
        for head, raw in zip(fields[::2], fields[1::2], strict=False):
            old, new, was, now, _ = head.decode("ascii").lstrip(":").split(" ")
            name = raw.decode("utf-8", "surrogateescape")
            before = None if old == "000000" else Entry(name, old, was)
            after = None if new == "000000" else Entry(name, new, now)
            found.append((before, after))
            if len(found) > MAX_FILES:
                raise Refused(f"more than {MAX_FILES:,} files change", hint="split the pull request")
        return tuple(found)

    def read(self, entry: Entry) -> bytes:
        """The content of a regular file. Raises Refused for anything else, and above MAX_BYTES."""
        if not entry.regular:
            hint = "a link or submodule is never followed; commit a file"
            raise Refused(f"{printable(entry.name)} is no regular file", hint=hint)
        size = int(self._run("cat-file", "-s", entry.blob))
        if size > MAX_BYTES:
            message = f"{printable(entry.name)} has {size:,} bytes, and at most {MAX_BYTES:,} are read"
            raise Refused(message, hint="write ranges of nodes in place of one entry for each")
        return self._run("cat-file", "blob", entry.blob)

    def _run(self, *words: str) -> bytes:
        return _git(("--git-dir", str(self.folder), *words), _environment(self.objects))


@contextlib.contextmanager
def opened(repository: Path, base: str, head: str) -> Iterator[Commits]:
    """The two commits of a repository, by any name that git knows. Raises SwarmError where there are none such."""
    repository = repository.absolute()
    with tempfile.TemporaryDirectory(prefix="swarm-pr-") as made:
        folder = Path(made) / "git"
        objects = _objects(repository)
        own = _environment(objects)
        _git(("init", "--quiet", "--bare", "--template=", str(folder)), own)
        shallow = objects.parent / "shallow"
        if shallow.is_file():  # how far history reaches, and nothing else
            (folder / "shallow").write_bytes(shallow.read_bytes())
        yield Commits(folder, objects, _named(repository, base), _named(repository, head))


def _named(repository: Path, name: str) -> str:
    """The full name of a commit."""
    try:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        found = _in(repository, *words).decode().strip()
    except SwarmError:
        hint = "fetch it first: the whole history is needed, as with `fetch-depth: 0`"
        raise SwarmError(f"{printable(name)[:80]!r} is no commit here", hint=hint) from None
    if not _COMMIT.fullmatch(found):
        raise SwarmError(f"{printable(name)[:80]!r} is no commit here")
    return found


def _objects(repository: Path) -> Path:
    """The folder with the objects of a repository."""
    try:
        found = _in(repository, "rev-parse", "--git-common-dir").decode().rstrip("\n")
    except SwarmError as error:
        raise SwarmError(f"{repository} is no git repository", hint=str(error).splitlines()[0]) from None
    return (repository / found / "objects").resolve()


def _in(repository: Path, *words: str) -> bytes:
    """A question about names, for which git reads the settings of the repository and runs nothing."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return _git(("-C", str(repository), *words), environment | {"GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"})


def _environment(objects: Path) -> dict[str, str]:
    """Nothing of the user's or the machine's settings, no request for a password, and no object from elsewhere."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{_quoted(str(objects))}"',
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _git(words: tuple[str, ...], environment: dict[str, str]) -> bytes:
    return _asked(words, environment).stdout


def _asked(
    words: tuple[str, ...], environment: dict[str, str], codes: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[bytes]:
    """What git answers. Raises SwarmError where it ends with another code."""
    try:
        done = subprocess.run(
            ("git", *words), env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE
        )
    except FileNotFoundError:
        raise ToolMissing("git is not installed", hint="install git 2.38 or later") from None
    except subprocess.TimeoutExpired:
        raise SwarmError(f"git {words[2] if len(words) > 2 else ''} did not end within {_PATIENCE:.0f} s") from None
    if done.returncode not in codes:
        text = printable(done.stderr.decode("utf-8", "replace")).strip()[:500]
        hint = "git 2.38 or later is needed, and the whole history"
        raise SwarmError(f"git: {text or f'ended with {done.returncode}'}", hint=hint)
    return done


def _entry(line: bytes) -> Entry:
    head, _, name = line.partition(b"\t")
    mode, _, blob = head.decode("ascii").split(" ")
    return Entry(name.decode("utf-8", "surrogateescape"), mode, blob)
