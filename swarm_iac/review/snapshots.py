"""What does a commit say of each stack? Its files are written to a folder of our own and read there, never run."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarm_iac import assets
from swarm_iac.decision import Decision, decide
from swarm_iac.errors import Place, Problem, StackFileError, SwarmError
from swarm_iac.review.commits import Commits, Entry
from swarm_iac.stackfile import Loaded, load
from swarm_iac.stackfile.locks.companions import Files, read_lock
from swarm_iac.stackfile.locks.lock import Lock

_STACK = re.compile(r"stacks/([a-z][a-z0-9_-]{0,63})(\.lock|\.proof)?\.yaml")
_POLICY = "policies/limits.yaml"


@dataclass(frozen=True)
class StackEntries:
    """The files of one stack in a tree: itself, its lock and its proof, by the ends of their names."""

    name: str
    files: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def blobs(self) -> dict[str, tuple[str, str]]:
        """What tells whether anything of it differs."""
        return {end: (one.mode, one.blob) for end, one in self.files.items()}

    @property
    def exists(self) -> bool:
        """Is there a stack file?"""
        return "" in self.files


def stack_of(file: str) -> str | None:
    """The stack to which a file of the repository belongs; None for any other file."""
    found = _STACK.fullmatch(file)
    return found[1] if found else None


def entries(commits: Commits, tree: str) -> dict[str, StackEntries]:
    """The stacks of a tree. Nothing else in stacks/ is one."""
    found: dict[str, dict[str, Entry]] = {}
    for name, entry in commits.stacks(tree).items():
        if part := _STACK.fullmatch(name):
            found.setdefault(part[1], {})[part[2] or ""] = entry
    return {name: StackEntries(name, files) for name, files in sorted(found.items())}


@dataclass(frozen=True)
class CommittedStack:
    """A stack as a commit has it, in a folder of ours."""

    name: str
    folder: Path
    loaded: Loaded
    lock: Lock

    def place(self, path: str) -> str:
        """File and line of a path, as the file is called in the repository."""
        found = self.loaded.source.place(path)
        return str(Place(named(found.file, self.folder), found.line))

    @property
    def proven(self) -> bool:
        """Is its proof in the repository?"""
        return Files.of(self.folder, self.name).proof.exists()

    def decision(self, *, frozen: bool) -> Decision:
        """What `swarm up` would decide with these files. Raises as `decide`."""
        try:
            return decide(self.folder, self.name, today=datetime.date.today(), frozen=frozen, write=False)
        except SwarmError as error:
            raise _told(error, self.folder) from None


def written(commits: Commits, of: StackEntries, folder: Path) -> CommittedStack:
    """One stack of a tree, read with the default limits of the base. Raises StackFileError, Refused for what is no file."""
    stacks = folder / "stacks"
    stacks.mkdir(parents=True, exist_ok=True)
    for end, entry in of.files.items():
        (stacks / f"{of.name}{end}.yaml").write_bytes(commits.read(entry))
    policy = folder / _POLICY
    if not policy.exists():
        policy.parent.mkdir()
        default = commits.entry(commits.base, _POLICY)
        policy.write_bytes(commits.read(default) if default else (assets.policies() / "limits.yaml").read_bytes())
    files = Files.of(folder, of.name)
    try:
        loaded = load(files.stack, policies=policy, today=datetime.date.today())
        return CommittedStack(of.name, folder, loaded, read_lock(files.lock))
    except SwarmError as error:
        raise _told(error, folder) from None


def named(text: str, folder: Path) -> str:
    """A text in which files have the names of the repository."""
    return text.replace(f"{folder}/", "")


def _told(error: SwarmError, folder: Path) -> SwarmError:
    """The same error, with the names of the repository."""
    if isinstance(error, StackFileError):
        return StackFileError(tuple(_problem(one, folder) for one in error.problems))
    place = replace(error.place, file=named(error.place.file, folder)) if error.place else None
    return type(error)(named(error.message, folder), hint=named(error.hint, folder), place=place)


def _problem(one: Problem, folder: Path) -> Problem:
    place = replace(one.place, file=named(one.place.file, folder))
    return replace(one, place=place, message=named(one.message, folder), hint=named(one.hint, folder))
