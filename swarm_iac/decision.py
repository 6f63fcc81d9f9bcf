"""Which placement is current? The lock's if it is valid; else a new solution, stored as a candidate until applied.

Its files are in stackfile/locks/companions.py.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from swarm_iac.errors import LimitExceeded, StackFileError, StaleLock, SwarmError
from swarm_iac.limits import Amounts, above, amounts, excused, judge
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from swarm_iac.live.overlay import Overlay, RanBefore, overlay, without_failed
from swarm_iac.model import deadline, growth
from swarm_iac.model.placement import Allocation, Placement, Proof
from swarm_iac.model.service import variants
from swarm_iac.model.stack import Stack
from swarm_iac.reconcile.request import Request
from swarm_iac.stackfile import Loaded, Source, load
from swarm_iac.stackfile.checks.orphans import orphan_problem
from swarm_iac.stackfile.locks import finished, lock
from swarm_iac.stackfile.locks import proof as proofs
from swarm_iac.stackfile.locks.atomic_write import write_whole
from swarm_iac.stackfile.locks.companions import Files, existing, read_candidate, read_lock, read_proof, relative
from swarm_iac.stackfile.locks.digests import digest_placement
from swarm_iac.stackfile.reading import text as texts

if TYPE_CHECKING:
    from swarm_iac.solver import Solution, Watch

#: Names of the jobs of a placement that have finished, according to their nodes. Called only if it could matter.
Ends = Callable[[Stack, Placement], frozenset[str]]
#: The phase in which files are written; it takes a moment.
WRITING = "writing lock and proof"


class Progress(Protocol):
    """Receives the progress of a decision. A watch is requested only if something is solved: it takes a second to load."""

    def phase(self, text: str) -> None:
        """The current phase."""

    def watch(self, stack: Stack) -> Watch:
        """Watches a solve of this stack improve, and may stop it."""


@dataclass(frozen=True)
class Decision:
    """A stack, its placement, and how the placement came to be.

    `stack` is what is in effect: each workload in the variant that was chosen, and what waits to grow in its current size.
    `declared`: the stack file, if it differs.
    """

    name: str
    root: Path
    files: Files
    stack: Stack
    source: Source
    placement: Placement
    last: Placement
    stale: tuple[str, ...] = ()
    proof: Proof | None = None
    declared: Stack | None = None
    #: Finished jobs that the stack file no longer asks for: what their nodes still hold of them was placed there by us.
    dropped: tuple[Allocation, ...] = ()
    #: Replicas that run beside the lock, within the ranges of the stack file.
    layer: Layer = field(default_factory=Layer)

    @property
    def written(self) -> Stack:
        """What the stack file says."""
        return self.declared or self.stack


def decide(
    root: Path,
    name: str,
    *,
    today: datetime.date,
    frozen: bool = False,
    write: bool = True,
    progress: Progress | None = None,
    ends: Ends | None = None,
) -> Decision:
    """The placement for stacks/NAME.yaml. Raises StackFileError, StaleLock when `frozen`, LimitExceeded.

    A new solution is stored as the candidate, unless `write` is false. `ends` is called if something has to be decided or is
    pending; without it a job has finished if the lock says so.
    """
    return _decide(root, name, existing(root, name), today, frozen, write=write, progress=progress, ends=ends)


def decide_file(
    path: Path,
    *,
    today: datetime.date,
    frozen: bool = False,
    progress: Progress | None = None,
) -> Decision:
    """The placement for a stack file anywhere, from the lock beside it. Writes nothing; raises as `decide` does."""
    return _decide(path.parent, path.stem, Files(path), today, frozen, progress=progress)


def decide_merged(
    root: Path, files: Files, loaded: Loaded, joined: lock.Lock, first: lock.Lock, *, today: datetime.date, again: bool = False
) -> Decision:
    """The decision of a lock that two branches make together, with the merged stack file. Writes nothing.

    `first`: the lock of the branch whose allocations may run; what only the other has counts as new. A lock that does not
    stand is returned as it is, with why (`stale`); with `again` it is what a new solution starts from.
    """
    loaded = _meant(loaded)
    last, ran = lock.renamed(joined, loaded.stack), lock.renamed(first, loaded.stack)
    stack, stale = _judged(last, loaded.stack, today, ran.placement)
    stale = stale or proofs.pending_again(last.placement, None, {})
    before = finished.of_now(last, loaded.stack)
    now = Decision(files.stack.stem, root, files, loaded.stack, loaded.source, before, before, stale)
    if again:
        return _solve(now, today, write=False, progress=None)
    return now if stale else _holds(now, stack, last.placement, None)


def keep(decision: Decision, progress: Progress | None = None) -> bool:
    """Make the placement the lock, with its proof, and remove the candidate. False if nothing was written."""
    files = decision.files
    _tell(progress, WRITING)
    changed = write_whole(files.lock, lock.dump(lock.make(decision.stack, decision.placement, decision.declared)))
    if decision.proof:
        write_whole(files.proof, proofs.dump(decision.proof))
    for candidate in (files.candidate_proof, files.candidate):
        if candidate:
            candidate.unlink(missing_ok=True)
    return changed


def resolve(
    root: Path, name: str, *, today: datetime.date, progress: Progress | None = None, ends: Ends | None = None
) -> Decision:
    """Solve now, starting from the lock, valid or not. Nothing is written."""
    now = running(root, name, today=today, progress=progress, ends=ends)
    return _solve(replace(now, stack=now.written, declared=None), today, write=False, progress=progress)


def again(decision: Decision, *, today: datetime.date, progress: Progress | None = None) -> Decision:
    """Solve now, starting from the lock of a valid decision. Nothing is written."""
    asked = replace(decision, placement=Placement(), proof=None, stale=("asked for",), stack=decision.written, declared=None)
    return _solve(asked, today, write=False, progress=progress)


def running(
    root: Path, name: str, *, today: datetime.date, progress: Progress | None = None, ends: Ends | None = None
) -> Decision:
    """What is running according to the lock of stacks/NAME.yaml, before anything is decided."""
    files = existing(root, name)
    loaded, layer = _load(files, name, today, progress)
    last = lock.renamed(_read(files, progress), loaded.stack)
    last = _with_ends(last, loaded.stack, ends, progress)[0]
    before = finished.of_now(last, loaded.stack)
    now = Decision(name, root, files, loaded.stack, loaded.source, Placement(), before, ("asked for",), layer=layer)
    if not (last.placement.growing or variants.varied(loaded.stack)):
        return now
    applied = variants.applied(loaded.stack, last.placement)
    if lock.outgrown(last, loaded.stack):
        return now if applied is loaded.stack else replace(now, stack=applied, declared=loaded.stack)
    waits = Placement(growing=growth.with_sizes(applied, last.placement).growing, lighter=before.lighter)
    return replace(now, stack=growth.held(applied, last.placement), declared=loaded.stack, placement=waits)


def suppose(decision: Decision, what: Loaded, *, today: datetime.date, progress: Progress | None = None) -> Decision:
    """The decision if the stack file said `what`, starting from what runs. Nothing is written. Raises LimitExceeded."""
    what = _meant(what)
    last = finished.of_other(decision.last, decision.written, what.stack)
    other = replace(
        decision, stack=what.stack, declared=None, source=what.source, placement=Placement(), stale=("supposed",), proof=None,
        last=last,
    )  # fmt: skip
    return _solve(other, today, write=False, progress=progress)


def adopt(now: Decision, solution: Solution, *, today: datetime.date) -> Decision:
    """The solution as the decision, checked by `limits`. Raises LimitExceeded if they disagree, which is a bug.

    What waits to grow keeps waiting, and each workload its variant, if the solution is one of the stack that is in effect.
    """
    kept = {name: ones for name in ("growing", "lighter") if (ones := getattr(now.placement, name))}
    if now.declared and kept and not (solution.placement.growing or solution.placement.lighter):
        solution = solution.model_copy(update={"placement": solution.placement.model_copy(update=kept)})
    violations = judge(now.stack, solution.placement, today, **still(now.last, solution.placement))
    if violations:
        first = violations[0]
        raise LimitExceeded(
            f"the solver broke {first.rule}: {first.text}",
            place=now.source.place(first.path),
            hint="this is a bug; please report it",
        )
    waits = [one.why() for one in solution.placement.waiting()]
    of = {
        "pending": tuple(waits[: proofs.KEPT]),
        "lighter": tuple(one.why() for one in solution.placement.lighter[: proofs.KEPT]),
        "placement": digest_placement(solution.placement),
        "problem": proofs.problem_of(now.written, today),
    }
    proof = solution.proof.model_copy(update=of)
    return replace(now, placement=solution.placement, proof=proof)


def _load(files: Files, name: str, today: datetime.date, progress: Progress | None) -> tuple[Loaded, Layer]:
    """The stack as it applies now, and what is live of it; nothing of a draft.

    The error of a refused file also lists what runs on nodes that it no longer has.
    """
    _tell(progress, f"reading {relative(files.stack)}")
    try:
        loaded = _meant(load(relative(files.stack), today=today))
    except StackFileError as error:
        found = None
        with contextlib.suppress(OSError, SwarmError):  # nothing is known if the lock cannot be read
            raw = texts.read(files.stack, str(files.stack))
            found = orphan_problem(raw, str(relative(files.stack)), read_lock(files.lock).placement)
        raise StackFileError((*error.problems, *([found] if found else []))) from None
    layer = live_file.read(files.live, loaded.stack.fleet, name) if files.live else Layer()
    return replace(loaded, stack=without_failed(loaded.stack, layer)), layer


def _meant(loaded: Loaded) -> Loaded:
    """The stack with deadlines resolved: the clock is read here, and nowhere below."""
    return replace(loaded, stack=deadline.at(loaded.stack, datetime.datetime.now(datetime.UTC)))


def _decide(
    root: Path,
    name: str,
    files: Files,
    today: datetime.date,
    frozen: bool,
    *,
    write: bool = True,
    progress: Progress | None = None,
    ends: Ends | None = None,
) -> Decision:
    loaded, layer = _load(files, name, today, progress)
    last = lock.renamed(_read(files, progress), loaded.stack)
    _tell(progress, f"checking {relative(files.lock)}")
    problem = proofs.problem_of(loaded.stack, today)
    stack, stale = _judged(last, loaded.stack, today, last.placement)
    proof = None if stale else read_proof(files.proof)
    # Where proofs are not kept, nobody knows from what it was decided that something waits: nothing new is decided by itself.
    if not (frozen and not files.proof.exists()):
        stale = stale or proofs.pending_again(last.placement, proof, problem)
    waits = last.placement.refused()
    candidate = read_candidate(files, needed=bool(stale)) if stale or waits else lock.Lock()
    if stale or waits:
        last, over = _with_ends(last, loaded.stack, ends, progress, candidate)
        stale = stale or proofs.capacity_freed(waits, over)
    before = finished.of_now(last, loaded.stack)
    dropped = () if before is last.placement else tuple(set(last.placement.allocations) - set(before.allocations))
    now = Decision(name, root, files, loaded.stack, loaded.source, before, before, stale, dropped=dropped, layer=layer)
    if not stale:
        return _holds(now, stack, last.placement, _belonging(proof, last.placement, problem))
    if frozen:
        raise StaleLock(
            f"{relative(files.lock)} is stale: {'; '.join(stale[:3])}",
            hint=f"run `swarm solve --stack {name}` with SWARM_FROZEN unset, and commit the lock file with the stack file",
        )
    if files.candidate:
        stack, wrong = _judged(candidate, loaded.stack, today, last.placement)
        if not wrong:
            proof = read_proof(files.candidate_proof)
            waits = candidate.placement.refused()
            late = waits and _with_ends(candidate, loaded.stack, ends, progress)[1]
            again = not proofs.grows_alike(proof, problem) or proofs.pending_again(candidate.placement, proof, problem)
            if not late and not again:
                known = {one.name for one in candidate.placement.allocations if one.ended}
                ran = finished.with_ends(last, {one.name for one in before.going() if one.name in known}, loaded.stack)
                now = replace(now, last=finished.of_now(ran, loaded.stack))
                return _holds(now, stack, candidate.placement, _belonging(proof, candidate.placement, problem))
    return _solve(now, today, write=write, progress=progress)


def _solve(now: Decision, today: datetime.date, *, write: bool, progress: Progress | None) -> Decision:
    _tell(progress, "loading the solver")
    from swarm_iac.solver import solve_declared  # ortools takes most of a second to load, and a valid lock does not need it

    stack, solution = solve_declared(now.stack, now.last, today=today, watch=progress.watch(now.stack) if progress else None)
    _tell(progress, "checking the answer")
    declared = None if stack is now.stack else now.stack
    decision = adopt(replace(now, stack=stack, declared=declared, placement=Placement()), solution, today=today)
    if write and now.files.candidate and now.files.candidate_proof and decision.proof:
        _tell(progress, WRITING)
        write_whole(now.files.candidate, lock.dump(lock.make(decision.stack, decision.placement, decision.declared)))
        write_whole(now.files.candidate_proof, proofs.dump(decision.proof))
    return decision


def _with_ends(
    last: lock.Lock, stack: Stack, ends: Ends | None, progress: Progress | None, candidate: lock.Lock = lock.Lock()
) -> tuple[lock.Lock, tuple[str, ...]]:
    """The lock with jobs that have finished since it was written, and their names; those that a preview saw stay."""
    stood = {(one.name, one.node) for one in last.placement.going()}
    over = {one.name for one in finished.of_now(candidate, stack).allocations if one.ended and (one.name, one.node) in stood}
    if ends is not None and stood:
        _tell(progress, "asking which jobs have finished")
        over |= ends(stack, last.placement)
    return finished.with_ends(last, over, stack), tuple(sorted(over))


def _read(files: Files, progress: Progress | None) -> lock.Lock:
    _tell(progress, f"reading {relative(files.lock)}")
    return read_lock(files.lock)


def _tell(progress: Progress | None, text: str) -> None:
    if progress is not None:
        progress.phase(text)


def _judged(it: lock.Lock, written: Stack, today: datetime.date, running: Placement) -> tuple[Stack, tuple[str, ...]]:
    """The stack that is in effect with this lock or candidate, and why that is not valid, if so.

    What is `running` may stay where nothing new is admitted.
    """
    stack = variants.in_effect(written, it.placement)
    wrong = lock.outgrown(it, written) or lock.validity(it, stack)
    return stack, wrong or tuple(one.text for one in judge(stack, it.placement, today, **still(running, it.placement)))


def _holds(now: Decision, stack: Stack, placement: Placement, proof: Proof | None) -> Decision:
    """The decision of a valid lock or candidate."""
    declared = None if stack is now.stack else now.stack
    explained = variants.with_preferred(now.stack, proofs.explained(placement, proof))
    shown = growth.with_sizes(variants.applied(now.stack, placement), explained)
    return replace(now, stack=stack, declared=declared, placement=shown, proof=proof)


class Ran(TypedDict):
    """What `judge` needs of what ran: which allocations stay on their node, what each held, and where."""

    kept: frozenset[str]
    held: Mapping[str, Amounts]
    ran: Mapping[str, str]


def still(running: Placement, now: Placement) -> Ran:
    """What the allocations of `now` were before. One with another user counts as new."""
    before = running.by_name()
    both = [(before[one.name], one) for one in now.allocations if one.name in before]
    both = [(was, one) for was, one in both if None in (was.user, one.user) or was.user == one.user]
    return {
        "kept": frozenset(one.name for was, one in both if was.node == one.node),
        "held": {one.name: amounts(was) for was, one in both},
        "ran": {one.name: was.node for was, one in both},
    }


def with_live(decision: Decision, today: datetime.date, now: float | None = None) -> Overlay:
    """The placement with the live replicas that are in force beside it. `now`: [s since 1970]."""
    before = RanBefore(**still(decision.last, decision.placement))
    moment = time.time() if now is None else now
    return overlay(decision.stack, decision.placement, decision.layer, now=moment, today=today, before=before)


def request(decision: Decision, today: datetime.date) -> Request:
    """The request that follows from a decision, with what is live."""
    needed = stood(decision, today)
    return Request(
        decision.stack,
        with_live(decision, today).placement,
        kept=still(decision.last, decision.placement)["kept"],
        held={one.name: amounts(one) for one in needed.values()},
        stood={name: one.node for name, one in needed.items()},
        source=f"stacks/{decision.name}.yaml",
    )


def stood(decision: Decision, today: datetime.date) -> dict[str, Allocation]:
    """What may run only because it ran before, according to the lock, by its name on its node."""
    stack, ran = decision.stack, still(decision.last, decision.placement)
    over = above(stack, decision.placement, today) & ran["held"].keys()
    before = decision.last.by_name()
    going = {one.name for one in decision.placement.going()}  # a finished job has only its files left
    names = (over | excused(stack, decision.placement, ran["kept"])) & going
    return {stack.runs_as(before[name]): before[name] for name in sorted(names)}


def _belonging(proof: Proof | None, placement: Placement, problem: dict[str, str]) -> Proof | None:
    """The proof if it belongs to this placement and problem; else None."""
    return proof if proof is not None and proofs.belongs(proof, placement, problem) else None
