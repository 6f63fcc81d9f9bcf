"""Which files lie beside a stack file, and what do they say?

stacks/NAME.yaml        the request                           in git
stacks/NAME.lock.yaml   the placement that was applied        in git
stacks/NAME.proof.yaml  how good that lock is                 beside it; in git or not, see docs/pull-requests.md
.state/NAME.live.json        replicas above those of the lock, for a while: see swarm_iac/live
.state/NAME.candidate.yaml   what a preview showed: `up` applies exactly this and makes it the lock

A stack file elsewhere (an example, a draft) has its lock and proof beside it, and no candidate: it is never applied.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.model.placement import Proof
from swarm_iac.stackfile.locks import lock
from swarm_iac.stackfile.locks import proof as proofs
from swarm_iac.stackfile.reading import text as texts

#: The folder that git does not see, and how what is live ends there.
STATE, LIVE = ".state", ".live.json"


@dataclass(frozen=True)
class Files:
    """A stack file and its companions. Without a folder for candidates only lock and proof are written."""

    stack: Path
    candidates: Path | None = None

    @classmethod
    def of(cls, root: Path, name: str) -> Files:
        """stacks/NAME.yaml of the fleet repository `root`."""
        return cls(root / "stacks" / f"{name}.yaml", root / STATE)

    @property
    def lock(self) -> Path:
        """The placement that was applied."""
        return self.stack.with_name(f"{self.stack.stem}.lock.yaml")

    @property
    def proof(self) -> Path:
        """How good it is."""
        return self.stack.with_name(f"{self.stack.stem}.proof.yaml")

    @property
    def candidate(self) -> Path | None:
        """The placement that a preview showed."""
        return self.candidates / f"{self.stack.stem}.candidate.yaml" if self.candidates else None

    @property
    def live(self) -> Path | None:
        """What is live beside the lock."""
        return self.candidates / f"{self.stack.stem}{LIVE}" if self.candidates else None

    @property
    def candidate_proof(self) -> Path | None:
        """How good that one is."""
        return self.candidates / f"{self.stack.stem}.candidate.proof.yaml" if self.candidates else None


def existing(root: Path, name: str) -> Files:
    """The files of an existing stack. Raises StackFileError listing the existing ones."""
    files = Files.of(root, name)
    if files.stack.exists():
        return files
    written = sorted(path.stem for path in files.stack.parent.glob("*.yaml") if "." not in path.stem)
    hint = f"the stacks here: {', '.join(written)}" if written else f"there is no stack here yet; write stacks/{name}.yaml"
    raise StackFileError((Problem(Place(f"stacks/{name}.yaml"), "", "there is no such stack", hint),))


def read_lock(path: Path) -> lock.Lock:
    """The lock in a file; an empty one if there is none."""
    raw = _bytes(path, lock.MAX_BYTES)
    return lock.Lock() if raw is None else lock.parse(raw, str(relative(path)))


def _bytes(path: Path, most: int = texts.MAX_BYTES) -> bytes | None:
    """The content of one of our files; None if there is none. Raises StackFileError for anything but a readable file.

    A checkout may have a link under that name: a dangling one, which does not mean "no lock", or one to an endless file.
    """
    if not os.path.lexists(path):
        return None
    name = str(relative(path))
    if path.exists() and not path.is_file():
        raise StackFileError(
            (Problem(Place(name, 1, 1), "", "this is not a regular file", "remove it; `swarm solve` recreates it"),)
        )
    return texts.read(path, name, most)


def read_proof(path: Path | None) -> Proof | None:
    """The proof on disk, whichever placement it belongs to."""
    raw = None if path is None else _bytes(path)
    return None if path is None or raw is None else proofs.parse(raw, str(relative(path)))


def relative(path: Path) -> Path:
    """Short names in messages: relative to the current folder if the file is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def read_candidate(files: Files, *, needed: bool) -> lock.Lock:
    """What a preview showed, if anything. Raises StackFileError if it cannot be read and is `needed`."""
    try:
        return read_lock(files.candidate) if files.candidate else lock.Lock()
    except StackFileError:
        if needed:
            raise
        return lock.Lock()
