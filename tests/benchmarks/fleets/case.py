"""What is one solve, how is its answer judged, and how is it kept so that it can be solved again?"""

from __future__ import annotations

import datetime
import gc
import resource
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm_iac.decision import still
from swarm_iac.limits import judge
from swarm_iac.model.base import Value
from swarm_iac.model.placement import Goal, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, solve_keeping
from swarm_iac.solver.decide.proofs import with_shares_of
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import shared
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.stackfile.locks import lock
from tests.benchmarks.fleets.checker import Finding, broken
from tests.benchmarks.fleets.quality import counted_moves, honest, missed, moves_in_budget, needless, staying, told_moves
from tests.stops import stops_are_due

Row = dict[str, Any]
#: Up to so many allocations the placement goes through the lock file's text, as it does for a user.
LOCKED = 5000
#: Kinds of findings that are no broken rule, but a change, a gap or a sentence that nothing asks for.
SOFT = ("needless", "missed place", "reason")
#: A gap up to this counts as closed. [%]
CLOSE = 0.5


class Case(Value):
    """All that a solve sees."""

    today: datetime.date
    stack: Stack
    last: Placement


@dataclass
class Solved:
    """The figures of one solve, what is wrong with its answer, and the answer."""

    row: Row
    findings: list[Finding] = field(default_factory=list)
    answer: Placement | None = None


def solved(case: Case, label: Row, *, twice: bool = False, proven: bool = False) -> Solved:
    """Solve, judge and measure. Never raises: an error is a row with its traceback.

    `twice`: is it the same again? `proven`: where a gap is left, how large is it beside what a thorough search proves?
    """
    gc.collect()  # what the solves before it left is none of its memory
    begin, burnt = time.monotonic(), time.process_time()
    try:
        stack, solution = solve_keeping(case.stack, case.last, today=case.today)
    except Exception as error:
        return Solved(label | {"seconds": time.monotonic() - begin, "error": _kind(error), "traceback": traceback.format_exc()})
    took = time.monotonic() - begin
    row = label | {"seconds": took, "cpu_seconds": time.process_time() - burnt, "growing": len(solution.placement.growing)}
    # What cannot grow keeps its size: that is what was decided, and what is judged.
    written, case = case.stack, case.model_copy(update={"stack": stack})
    if "failed" in solution.proof.parameters:
        row |= {"error": str(solution.proof.parameters["failed"])}
    try:
        findings = judged(case, solution)
        row |= figures(case, solution)
        if proven:
            row["gap_proven_percent"] = _gap_proven(case, solution) if row["gap_percent"] > CLOSE else row["gap_percent"]
        if twice and solve_keeping(written, case.last, today=case.today)[1].placement != solution.placement:
            findings.append(Finding("another answer", "the same stack and placement gave another answer"))
        last = _locked(case.stack, written, solution.placement, findings)
    except Exception as error:
        return Solved(row | {"error": f"judging: {_kind(error)}", "traceback": traceback.format_exc()})
    return Solved(row | {"findings": [[one.rule, one.text] for one in findings]}, findings, last)


def judged(case: Case, solution: Solution) -> list[Finding]:
    """Everything that is wrong with an answer: `limits`, the checker, and what nobody asked for."""
    stack, last, now = case.stack, case.last, solution.placement
    found = [Finding(f"limits: {v.rule}", v.text) for v in judge(stack, now, case.today, **still(last, now))]
    found += [Finding(f"limits: {v.rule}", v.text) for v in stops_are_due(stack, last, now, case.today)]
    found += broken(stack, now, last, case.today)
    if any(one.rule in ("names", "index twice") for one in found):
        return found  # the rest counts on names
    stays = staying(stack, last, case.today)
    moved = counted_moves(stays, now, stack)
    found += moves_in_budget(stack, moved)
    told = [move for move in solution.moves if move.target and not move.forced]
    if len(told) > stack.solve.moves:
        found.append(Finding("moves", f"{len(told)} moves are told as not forced, and solve.moves is {stack.solve.moves}"))
    found += told_moves(stack, last, now, {move.name: (move.source, move.target) for move in solution.moves})
    found += honest(stack, last, now, solution.proof, stays)
    found += _shares_as_told(case, solution)
    found += needless(stack, last, now, case.today, stays)
    found += missed(stack, last, now, case.today, stack.solve.moves - max(len(moved), len(told)), stays)
    return found


def _shares_as_told(case: Case, solution: Solution) -> Iterator[Finding]:
    """Teams hold of what they are due what the proof says, as the solver counts it where everything is."""
    snapshot = snapshot_of(case.stack, case.last, case.today)
    snapshot = shared(snapshot, possible(snapshot))
    counts = Counter((a.workload, a.node) for a in solution.placement.going())
    goals = {goal.name: goal for goal in solution.proof.goals}
    for name, goal in with_shares_of(snapshot, counts, goals).items():
        if goal.value != goals[name].value:
            yield Finding("proof", f"{name}: value {goals[name].value}, and teams hold {goal.value}")


def figures(case: Case, solution: Solution) -> Row:
    """What the table sums up."""
    goals = {goal.name: goal for goal in solution.proof.goals}
    placed = _placing(solution)
    best, value = sum(g.bound for g in placed), sum(g.value for g in placed)
    moves = goals.get("moves")
    now, stays = solution.placement, staying(case.stack, case.last, case.today)
    names = now.by_name()
    return {
        "effort": case.stack.solve.effort,
        "nodes": len(case.stack.nodes),
        "workloads": len(case.stack.workloads),
        "replicas": len(now.allocations),
        "unplaced": sum(len(one.missing) for one in now.unplaced),
        "gap_percent": round(100 * (best - value) / best, 3) if best else 0.0,
        "moves": len(counted_moves(stays, now, case.stack)),
        "moves_proven": moves is None or moves.value == moves.bound,
        "stops": sum(name not in names for name in stays.could),
        "optimal": solution.proof.optimal,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _gap_proven(case: Case, solution: Solution) -> float:
    """The GPUs that are missing of the bounds of a thorough search, priority by priority. [%]"""
    night = case.stack.model_copy(update={"solve": case.stack.solve.model_copy(update={"effort": "thorough"})})
    bounds = {goal.name: goal.bound for goal in _placing(solve(night, case.last, today=case.today, reasons=False))}
    lacking = sum(max(0, bounds[goal.name] - goal.value) for goal in _placing(solution))
    return round(100 * lacking / sum(bounds.values()), 3) if lacking else 0.0


def _placing(solution: Solution) -> list[Goal]:
    return [goal for goal in solution.proof.goals if goal.name.endswith(("_placed_gpus", "_placed_gpu_milli"))]


def hard(findings: list[Finding]) -> list[Finding]:
    """Those that break a rule."""
    return [one for one in findings if not one.rule.startswith(SOFT)]


def _locked(stack: Stack, written: Stack, placement: Placement, findings: list[Finding]) -> Placement:
    """The placement as it comes back from its lock file, which must be valid for the stack that it was made from."""
    if len(placement.allocations) > LOCKED:
        return placement.model_copy(update={"unplaced": ()})
    made = lock.parse(lock.dump(lock.make(stack, placement, written)), "drawn.lock.yaml")
    findings += [Finding("stale lock", text) for text in lock.validity(made, stack)[:1]]
    if made.placement.allocations != tuple(sorted(placement.allocations, key=lambda a: a.name)):
        findings.append(Finding("lock", "the lock file reads back as another placement"))
    return made.placement


def _kind(error: BaseException) -> str:
    """Type, and where it was raised: errors of one kind have one line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "swarm_iac" in f.filename] or traceback.extract_tb(
        error.__traceback__
    )
    at = frames[-1]
    return f"{type(error).__name__} at {'/'.join(Path(at.filename).parts[-2:])}:{at.lineno}: {str(error)[:100]}"


def save(folder: Path, name: str, case: Case, text: str, note: str) -> None:
    """The case as files: `case.json` to be solved again, and for people the stack file, its lock and what was wrong."""
    at = folder / name
    at.mkdir(parents=True, exist_ok=True)
    (at / "case.json").write_text(case.model_dump_json(by_alias=True))
    (at / "fleet.yaml").write_text(text)
    known = [a for a in case.last.allocations if a.workload in case.stack.workloads and a.node in case.stack.nodes]
    gone = [a.name for a in case.last.allocations if a not in known]
    made = lock.make(case.stack, Placement(allocations=tuple(known)))
    (at / "fleet.lock.yaml").write_text(lock.dump(made))
    rest = f"\nnot in the lock, since the stack has them no more: {', '.join(gone)}" if gone else ""
    (at / "note.txt").write_text(note + rest + "\n")


def read(folder: Path) -> Case:
    """A case that was saved."""
    return Case.model_validate_json((folder / "case.json").read_text())
