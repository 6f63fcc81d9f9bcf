"""What stands in a commit, and what would stand in the merge of two? Read as data: nothing of it is checked out or run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.git import Borrowed
from swarm_iac.printable import printable

#: A regular file, and one that may be run. Links, submodules and folders have other modes.
REGULAR = ("100644", "100755")
#: The largest file that is read. [bytes]
MAX_BYTES = 16 * 1024 * 1024
#: So many changed files are told apart; beyond, a pull request is no change of a fleet.
MAX_FILES = 20_000
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

    objects: Borrowed
    base: str
    head: str

    def merged(self) -> str | MergeConflict:
        """The tree that merging makes. Raises SwarmError where git cannot tell."""
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", self.base, self.head)
        done = self.objects.ask(*words, codes=(0, 1))
        tree, *names = done.stdout.decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
        if not done.returncode:  # a conflict may name no file, as where a folder was split in two
            return tree
        return MergeConflict(tuple(sorted({name for name in names if name})))

    def has(self, commit: str) -> bool:
        """Is this commit the base, or one that it was made from?"""
        return not self.objects.ask("merge-base", "--is-ancestor", commit, self.base, codes=(0, 1, 128)).returncode

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
        return self.objects.ask(*words).stdout


@contextlib.contextmanager
def opened(repository: Path, base: str, head: str) -> Iterator[Commits]:
    """The two commits of a repository, by any name that git knows. Raises SwarmError where there are none such."""
    repository = repository.absolute()
    with git.borrowed(repository) as objects:
        yield Commits(objects, _named(repository, base), _named(repository, head))


def _named(repository: Path, name: str) -> str:
    """The full name of a commit."""
    found = git.named(repository, name)
    if not _COMMIT.fullmatch(found):
        hint = "fetch it first: the whole history is needed, as with `fetch-depth: 0`"
        raise SwarmError(f"{printable(name)[:80]!r} is no commit here", hint=hint)
    return found


def _entry(line: bytes) -> Entry:
    head, _, name = line.partition(b"\t")
    mode, _, blob = head.decode("ascii").split(" ")
    return Entry(name.decode("utf-8", "surrogateescape"), mode, blob)
