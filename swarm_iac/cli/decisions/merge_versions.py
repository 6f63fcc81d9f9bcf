"""Which versions of a stack's files does a merge, rebase, cherry-pick or revert bring together?

git gives its driver one file, before any file in the work tree is merged, and names no commit. So the commits are
found by the blobs of the file, and what is found is used only if all three versions agree with it.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import Refused
from swarm_iac.stackfile.reading.text import read

#: Marks of git for who is merged, by the commit's id.
_MERGED = "GITHEAD_"
#: The file of default limits in a fleet repository.
_POLICY = "policies/limits.yaml"
#: What an index or a tree has where there is no file.
_NONE = "0" * 40


@dataclass(frozen=True)
class Versions:
    """Three locks (None: there is none), the merged text of the stack file and of the limits, and who was first.

    `theirs_first`: the main branch has the other side, so ours is the change.
    """

    name: str
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None
    stack: bytes
    policy: bytes | None
    theirs_first: bool


@dataclass(frozen=True)
class _Commits:
    base: str
    ours: str
    theirs: str


def of_driver(root: Path, path: str, base: Path, ours: Path, theirs: Path) -> Versions:
    """What git asks its driver to merge. `path`: lock or proof, from `root` on. Raises Refused where that is not certain.

    The fleet repository may be a folder of git's.
    """
    name = name_of(path)
    root, path = root / Path(path).parents[1], f"stacks/{Path(path).name}"
    blobs = [_blob(root, file) for file in (base, ours, theirs)]
    commits = _commits(root, path, *blobs)
    if commits is None:
        raise Refused(
            f"{path}: git does not say which versions of stacks/{name}.yaml are merged",
            hint=f"when stacks/{name}.yaml is merged, run `swarm solve {name} --merge`",
        )
    was, mine, other = (_file(root, f"{commit}:./{lock_of(name)}") for commit in (commits.base, commits.ours, commits.theirs))
    stack = _text(root, commits, f"stacks/{name}.yaml", name)
    if stack is None:
        raise Refused(f"there is no stacks/{name}.yaml after the merge", hint=f"remove {path}, or restore the stack file")
    return Versions(name, was, mine, other, stack, _text(root, commits, _POLICY, name), _theirs_is_main(root, commits))


def of_index(root: Path, name: str) -> Versions:
    """The same of a conflict that git left: the stack file is as it was resolved. Raises Refused where there is none."""
    listed = _git(root, "ls-files", "--unmerged", "--", lock_of(name)).decode().splitlines()
    stages = {line.split()[2]: line.split()[1] for line in listed}
    if not stages:
        raise Refused(
            f"git has no conflict in {lock_of(name)}", hint="--merge decides what a merge left open; else `swarm solve` decides"
        )
    was, mine, other = (_file(root, stages[stage]) if stage in stages else None for stage in "123")
    policy = root / _POLICY
    theirs = next(filter(None, (_commit(root, ref) for ref in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD"))), "")
    first = bool(theirs) and _theirs_is_main(root, _Commits("", "HEAD", theirs))
    stack, limits = read(root / "stacks" / f"{name}.yaml", f"stacks/{name}.yaml"), None
    if policy.is_file():
        limits = read(policy, _POLICY)
    return Versions(name, was, mine, other, stack, limits, first)


def name_of(path: str) -> str:
    """NAME of stacks/NAME.lock.yaml and of stacks/NAME.proof.yaml. Raises Refused for another file."""
    file = Path(path)
    name = file.name.removesuffix(".lock.yaml").removesuffix(".proof.yaml")
    if file.parent.name != "stacks" or name == file.name or "." in name:
        raise Refused(f"{path} is no lock and no proof of a stack", hint="the merge driver is for stacks/*.lock.yaml")
    return name


def lock_of(name: str) -> str:
    """The lock of a stack, from the root of the repository on."""
    return f"stacks/{name}.lock.yaml"


def conflicting(root: Path, base: Path, ours: Path, theirs: Path) -> None:
    """Write both versions of a file with git's conflict markers into `ours`."""
    words = ("merge-file", "-q", "-L", "ours", "-L", "base", "-L", "theirs", str(ours), str(base), str(theirs))
    git.ask(root, *words, codes=range(256), merging=True)


def _commits(root: Path, path: str, base: str, ours: str, theirs: str) -> _Commits | None:
    """The commits whose versions of the file these are; None where there are none, or several that differ in the stack file."""
    head = _commit(root, "HEAD")
    if not head or _at(root, head, path) != ours:  # a merge of merge bases, or one that touches no work tree
        return None
    for key in os.environ:
        if key.startswith(_MERGED) and (other := _commit(root, key.removeprefix(_MERGED))) and _at(root, other, path) == theirs:
            bases = _git(root, "merge-base", "--all", head, other).decode().split()
            return _Commits(bases[0], head, other) if len(bases) == 1 and _at(root, bases[0], path) == base else None
    found = [_Commits(old, head, new) for old, new in _changes(root, path, base, theirs)]
    stack, policy = f"stacks/{name_of(path)}.yaml", _POLICY
    files = (stack, policy, lock_of(name_of(path)))
    alike = {tuple(_at(root, commit, file) for commit in (one.base, one.theirs) for file in files) for one in found}
    return found[0] if len(alike) == 1 else None


def _changes(root: Path, path: str, base: str, theirs: str) -> list[tuple[str, str]]:
    """Commits before and after a change of the file from `base` to `theirs`; or of its revert."""
    words = ("log", "--all", "--reflog", "--full-history", "--no-renames", "--raw", "--no-abbrev", "--format=%H", "--", path)
    found, commit = [], ""
    for line in _git(root, *words).decode().splitlines():
        if line.startswith(":"):
            old, new = line.split()[2:4]
            parent = _commit(root, f"{commit}^")
            if (old, new) == (base, theirs):
                found.append((parent, commit))
            elif (old, new) == (theirs, base):
                found.append((commit, parent))
        elif line:
            commit = line
    return [pair for pair in found if all(pair)]


def _theirs_is_main(root: Path, commits: _Commits) -> bool:
    """Is the other side on the main branch, and ours not? Then ours is the change, and theirs may be applied already."""
    for ref in ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/heads/main", "refs/heads/master"):
        if main := _commit(root, ref):
            return _within(root, commits.theirs, main) and not _within(root, commits.ours, main)
    return False


def _within(root: Path, commit: str, other: str) -> bool:
    return not git.ask(root, "merge-base", "--is-ancestor", commit, other, codes=range(256), merging=True).returncode


def _text(root: Path, commits: _Commits, path: str, name: str) -> bytes | None:
    """The merged text of a file. Raises Refused where the file has conflicts of its own."""
    base, ours, theirs = (_file(root, f"{commit}:./{path}") for commit in (commits.base, commits.ours, commits.theirs))
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / side for side in ("ours", "base", "theirs")]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(text or b"")
        done = git.ask(root, "merge-file", "-p", "-q", *map(str, files), codes=range(256), merging=True)
    if done.returncode or ours is None or theirs is None:
        raise Refused(
            f"{path} has conflicts of its own, so nothing can be decided yet",
            hint=f"resolve them, then `swarm solve {name} --merge`",
        )
    return done.stdout


def _blob(root: Path, file: Path) -> str:
    """The id of a file's content; of an empty one, which git gives where a side has no file, that of none."""
    if file.stat().st_size == 0:
        return _NONE
    return _git(root, "hash-object", "--no-filters", "--", str(file)).decode().strip()


def _at(root: Path, commit: str, path: str) -> str:
    return _ask(root, "rev-parse", "--verify", "--quiet", f"{commit}:./{path}").decode().strip() or _NONE


def _commit(root: Path, name: str) -> str:
    """Its id; empty where there is none."""
    return git.named(root, name, merging=True)


def _file(root: Path, name: str) -> bytes | None:
    found = git.ask(root, "cat-file", "blob", name, codes=range(256), merging=True)
    return None if found.returncode else found.stdout


def _git(root: Path, *words: str) -> bytes:
    return git.ask(root, *words, merging=True).stdout


def _ask(root: Path, *words: str) -> bytes:
    """The same, where nothing is an answer as well."""
    return git.ask(root, *words, codes=range(256), merging=True).stdout
