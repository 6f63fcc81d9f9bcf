"""Which placement holds now? The lock's when it is valid; else a fresh solution, kept as a candidate until applied.

    stacks/NAME.yaml        the wish                              in git
    stacks/NAME.lock.yaml   the placement that was applied        in git
    stacks/NAME.proof.yaml  how good it is, and of which lock     in git
    .state/NAME.candidate.yaml   what a preview showed: `up` applies exactly this and makes it the lock
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.errors import LimitExceeded, Place, StaleLock, SwarmError
from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement, Proof
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile import Source, load, lock
from swarm_iac.stackfile import proof as proofs


@dataclass(frozen=True)
class Decision:
    """A stack, its placement, and how the placement came to be."""

    name: str
    root: Path
    stack: Stack
    source: Source
    placement: Placement
    last: Placement
    stale: tuple[str, ...] = ()
    proof: Proof | None = None

    @property
    def file(self) -> Path:
        """The stack file."""
        return self.root / "stacks" / f"{self.name}.yaml"


def decide(root: Path, name: str, *, today: datetime.date, environment: Mapping[str, str] = os.environ) -> Decision:
    """The placement for stacks/NAME.yaml. Raises StackFileError, StaleLock when frozen, LimitExceeded."""
    loaded = load(_relative(root / "stacks" / f"{name}.yaml"), today=today)
    last = _read(_lock_file(root, name))
    stale = _stale(last, loaded.stack, today, last.placement)
    if not stale:
        proof = _proof(root, name, last.placement)
        return Decision(name, root, loaded.stack, loaded.source, last.placement, last.placement, proof=proof)
    if environment.get("SWARM_FROZEN", "") not in ("", "0"):
        raise StaleLock(
            f"stacks/{name}.lock.yaml is stale: {'; '.join(stale[:3])}",
            hint=f"run `swarm solve --stack {name}` and commit the lock file with the stack file",
        )
    candidate = _read(_candidate_file(root, name))
    if not _stale(candidate, loaded.stack, today, last.placement):
        proof = _proof(root, name, candidate.placement, candidate=True)
        return Decision(name, root, loaded.stack, loaded.source, candidate.placement, last.placement, stale, proof)
    return _solve(root, name, loaded.stack, loaded.source, last.placement, stale, today)


def keep(decision: Decision) -> bool:
    """Make the placement the lock, with its proof beside it; the candidate goes. False when nothing was written."""
    text = lock.dump(lock.make(decision.stack, decision.placement))
    changed = _write(_lock_file(decision.root, decision.name), text)
    if decision.proof:
        _write(_proof_file(decision.root, decision.name), proofs.dump(decision.proof))
    for candidate in (True, False):
        _candidate_file(decision.root, decision.name, proof=candidate).unlink(missing_ok=True)
    return changed


def resolve(root: Path, name: str, *, today: datetime.date) -> Decision:
    """Solve now, starting from the lock, whether it is valid or not. Nothing is written."""
    loaded = load(_relative(root / "stacks" / f"{name}.yaml"), today=today)
    last = _read(_lock_file(root, name))
    return _solve(root, name, loaded.stack, loaded.source, last.placement, ("asked for",), today, write=False)


def _solve(
    root: Path, name: str, stack: Stack, source: Source, last: Placement, stale: tuple[str, ...], today: datetime.date,
    *, write: bool = True,
) -> Decision:  # fmt: skip
    from swarm_iac.solver import solve  # ortools takes most of a second to load, and a valid lock needs none of it

    solution = solve(stack, last, today=today)
    violations = judge(stack, solution.placement, today, kept=frozenset(last.by_name()))
    if violations:
        first = violations[0]
        raise LimitExceeded(
            f"the solver broke {first.rule}: {first.text}", place=source.place(first.path), hint="this is a bug; please report it"
        )
    proof = solution.proof.model_copy(update={"placement": lock.digest_placement(solution.placement)})
    decision = Decision(name, root, stack, source, solution.placement, last, stale, proof)
    if write:
        _write(_candidate_file(root, name), lock.dump(lock.make(stack, solution.placement)))
        _write(_candidate_file(root, name, proof=True), proofs.dump(proof))
    return decision


def _stale(it: lock.Lock, stack: Stack, today: datetime.date, running: Placement) -> tuple[str, ...]:
    """Why this lock or candidate does not hold; what `running` holds may stay where nothing new may come."""
    found = lock.validity(it, stack)
    return found or tuple(violation.text for violation in judge(stack, it.placement, today, kept=frozenset(running.by_name())))


def _read(path: Path) -> lock.Lock:
    return lock.parse(path.read_text(), str(_relative(path))) if path.exists() else lock.Lock()


def _proof(root: Path, name: str, placement: Placement, *, candidate: bool = False) -> Proof | None:
    """The proof on disk if it belongs to this placement; a stale one proves nothing."""
    path = _candidate_file(root, name, proof=True) if candidate else _proof_file(root, name)
    if not path.exists():
        return None
    proof = proofs.parse(path.read_text(), str(_relative(path)))
    return proof if proofs.belongs(proof, placement) else None


def _lock_file(root: Path, name: str) -> Path:
    return root / "stacks" / f"{name}.lock.yaml"


def _proof_file(root: Path, name: str) -> Path:
    return root / "stacks" / f"{name}.proof.yaml"


def _candidate_file(root: Path, name: str, *, proof: bool = False) -> Path:
    return root / ".state" / (f"{name}.candidate.proof.yaml" if proof else f"{name}.candidate.yaml")


def _relative(path: Path) -> Path:
    """Short names in messages: relative to where the user stands, when that is above."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _write(path: Path, text: str) -> bool:
    if path.exists() and path.read_text() == text:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(text)
        fresh.replace(path)
    except OSError as error:
        raise SwarmError(f"{path}: {error.strerror}", place=Place(str(path))) from None
    return True
