"""How do commands get a decision, and how is it shown?"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_iac.cli.engine import has_state, options, repository
from swarm_iac.cli.live_sharing import fetch
from swarm_iac.decision import Decision, Ends, Progress, again, decide, decide_file, keep, resolve
from swarm_iac.errors import SwarmError
from swarm_iac.live import file as live_file
from swarm_iac.live.checkpoint import state_folder
from swarm_iac.model import cost, device
from swarm_iac.model.goals.words import goal_texts
from swarm_iac.model.placement import Allocation, Waiting
from swarm_iac.model.resources.row import Resource
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.service.variants import varied
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Workload
from swarm_iac.run_options import RunOptions
from swarm_iac.stackfile import nearest_policy
from swarm_iac.stackfile.locks.companions import Files

if TYPE_CHECKING:
    from swarm_iac.observe import Ended

#: Longest wait for machines that do not answer, where only a decision depends on them. [s]
_PATIENCE = 10.0
#: Resources shown in the column of another: pinned cores by number, instead of vCPUs.
_PARTS = {row.part_of: row for row in RESOURCES if row.part_of}


def policies(file: Path) -> Path | None:
    """The default limits of a stack file."""
    return nearest_policy(file)


def is_file(name: str) -> bool:
    """Does this name a file, rather than NAME of stacks/NAME.yaml?"""
    return name.endswith((".yaml", ".yml")) or "/" in name


def files(names: Iterable[str]) -> list[Path]:
    """The stack files named by NAME or path; all in stacks/ if none is named. Raises SwarmError."""
    found = [Path(name) if is_file(name) or Path(name).is_file() else _in_stacks(f"{name}.yaml") for name in names]
    if found:
        return found
    every = sorted(path for path in _in_stacks("").glob("*.yaml") if "." not in path.stem)
    if not every:
        raise SwarmError("there is no stack here yet", hint="write stacks/NAME.yaml, or see: swarm init")
    return every


def _in_stacks(name: str) -> Path:
    path = repository() / "stacks" / name
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def home(name: str) -> tuple[Path, str] | None:
    """Fleet repository and NAME of a stack, however it is named; None for a file outside any repository's stacks/.

    Raises SwarmError outside a repository.
    """
    if not is_file(name):
        return repository(), name
    path = Path(name).resolve()
    if path.parent.name == "stacks" and (path.parents[1] / "Pulumi.yaml").is_file():
        return path.parents[1], path.stem
    return None


def inside(name: str) -> str:
    """NAME of a stack in a fleet repository, however it is named. Raises SwarmError for one elsewhere."""
    found = home(name)
    if found is None:
        raise SwarmError(
            f"{name} is not in the stacks/ folder of a fleet repository", hint="move it there; elsewhere it can only be planned"
        )
    return found[1]


def never_applied(root: Path, name: str) -> bool:
    """Is it certain that no `swarm up` ever ran? `swarm solve` writes a lock as well.

    The engine leaves the stack's settings beside Pulumi.yaml, which are committed, and its state, where that is in files.
    """
    if not (root / "Pulumi.yaml").is_file() or (root / f"Pulumi.{name}.yaml").is_file():
        return False
    state = state_folder(root)
    return state is not None and not has_state(state, name)


def asking(name: str, *, every: bool = False, most: float = math.inf) -> Ended:
    """Asks the machines of a stack which jobs have finished. `every`: all machines, if any; `most`: longest wait [s]."""
    from swarm_iac.observe import Ended, but_asleep, observe

    found = home(name)
    run = options(found[0] if found else Path(name).parent)
    ask = partial(observe, ssh_config=run.ssh_config, timeout=min(most, run.node_timeout))
    return Ended(but_asleep(ask, partial(asleep, name)), every)


def asleep(name: str) -> dict[str, str]:
    """Nodes of a stack that are powered off on purpose → what to tell of them; none of a draft."""
    found = home(name)
    if found:
        fetch(*found, _say)
    return live_file.asleep(Files.of(*found).live) if found else {}


def _say(text: str) -> None:
    from swarm_iac.cli.terminal.screen import say  # loaded only if there is anything to say

    say(text)


def ends(name: str) -> Ended | None:
    """The same where jobs may have run; None for a draft, or where nothing was ever applied."""
    found = home(name)
    return None if found is None or never_applied(*found) else asking(name, most=_PATIENCE)


def current(
    name: str, progress: Progress | None = None, *, write: bool = True, ends: Ends | None = None, offline: bool = False
) -> Decision:
    """Today's decision for stacks/NAME.yaml, or for a stack file by its path, for which nothing is written elsewhere.

    `ends`: says which jobs have finished; a draft has none. `offline`: what is live is as last known; no backend is asked.
    """
    today, found, frozen = datetime.date.today(), home(name), RunOptions.of(os.environ).frozen
    if found is None:
        return decide_file(Path(name), today=today, frozen=frozen, progress=progress)
    if not offline:
        fetch(*found, _say)
    return decide(*found, today=today, frozen=frozen, write=write, progress=progress, ends=ends)


def peek(name: str, progress: Progress | None = None, *, offline: bool = False) -> Decision:
    """The same, without writing anything."""
    return current(name, progress, write=False, offline=offline)


def recorded(name: str, file: Path, progress: Progress | None = None, ends: Ends | None = None) -> Decision:
    """Solve in any case, write lock and proof, and record the solve in `file`. Raises SwarmError if it was interrupted."""
    from swarm_iac.solver.decide.recording import record

    today = datetime.date.today()
    decision = resolve(repository(), inside(name), today=today, progress=progress, ends=ends)
    assert decision.proof is not None
    keep(decision, progress)
    try:
        # A stack with variants is recorded as it is written: which of them run is part of the answer.
        stack = decision.written if varied(decision.written) else decision.stack
        text = record(stack, decision.last, today, decision.placement, decision.proof).text()
        file.write_text(text)
    except ValueError as error:
        raise SwarmError(f"{file} was not written: {error}", hint="let the search finish, or lower solve.effort") from None
    except OSError as error:
        raise SwarmError(f"{file}: {error.strerror}") from None
    return decision


def solve(name: str, progress: Progress | None = None, ends: Ends | None = None, *, offline: bool = False) -> Decision:
    """Solve if there is anything to decide or to improve, and write lock and proof."""
    decision = bettered(current(name, progress, ends=ends, offline=offline), datetime.date.today(), progress)
    keep(decision, progress)
    return decision


def bettered(decision: Decision, today: datetime.date, progress: Progress | None = None) -> Decision:
    """The same, or a better decision where the lock is valid and its proof belongs to another problem, its search was
    interrupted, or its change used up the budget of moves, which the next change has again.
    """
    cut = decision.proof is not None and "cut" in decision.proof.parameters
    if not decision.stale and (decision.proof is None or cut or spent(decision)):
        other = again(decision, today=today, progress=progress)
        same = other.placement.allocations == decision.placement.allocations
        if same or cut or placed(other) > placed(decision):
            return other
    return decision


def placed(decision: Decision) -> tuple[int, ...]:
    """Thousandths of GPUs, then replicas, that are placed: per priority, the highest first."""
    found: list[int] = []
    for level in sorted(PRIORITIES, key=lambda name: -PRIORITIES[name]):
        requests = [decision.stack.workloads[one.workload] for one in decision.placement.going()]
        mine = [one.each.gpus for one in requests if one.priority == level]
        found += [sum(gpus.milli for gpus in mine), len(mine)]
    return tuple(found)


def spent(decision: Decision) -> bool:
    """Is something pending, and did the decided change use moves, which the next change has again?"""
    waits, goals = decision.placement.waiting(), decision.proof.goals if decision.proof else ()
    moves = next((goal.value for goal in goals if goal.name == "moves"), 0)
    return any(one.code == "Moves" for one in waits) or (bool(waits) and moves > 0)


def placement_heads(decision: Decision) -> tuple[str, ...]:
    """The heads of `placement_rows`."""
    return ("allocation", "user", "node", *(row.title for row in _columns(decision)), "")


def _columns(decision: Decision) -> list[Resource]:
    """Every resource that all machines have, and every other resource that some allocation holds."""
    rows = (row for row in RESOURCES if not row.part_of)
    held = decision.placement.allocations
    return [row for row in rows if not row.silent or (not row.itself and any(map(row.held, held)))]


def _cell(row: Resource, one: Allocation, request: Workload) -> str:
    """Devices by number; else an amount, or a range of it, marked as shared where it has no devices of its own."""
    if row.pieces:
        return _pieces(getattr(one, row.field)) or "-"
    amount = row.span(one, request) if row.held(one) else "-"
    if row.name not in _PARTS or not row.held(one):
        return amount
    return _pieces(getattr(one, _PARTS[row.name].field)) or f"{amount} shared"


def cpus(one: Allocation, request: Workload) -> str:
    """The vCPUs of an allocation as a cell: its own by number, or how many it shares."""
    return next(_cell(row, one, request) for row in RESOURCES if row.name in _PARTS)


def memory(one: Allocation, request: Workload) -> str:
    """The memory of an allocation as a cell: what is guaranteed, and its upper end where that is more."""
    return next(_cell(row, one, request) for row in RESOURCES if row.name == "memory")


def _pieces(held: tuple[Any, ...]) -> str:
    return device.format_devices(held) if held and isinstance(held[0], device.Device) else ranges(held)


def placement_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per allocation; the last cell marks what is new, moved or split."""
    before, columns = decision.last.by_name(), _columns(decision)
    for one in decision.placement.allocations:
        old = before.get(one.name)
        note = "new" if old is None else f"from {old.node}" if old.node != one.node else ""
        notes = (note, split(decision.stack, one), device.sharing(one.gpus))
        note = f"finished: {kept_of(one)}" if one.ended else ", ".join(filter(None, notes))
        request = decision.stack.workloads[one.workload]
        yield (one.name, request.user, one.node, *(_cell(row, one, request) for row in columns), note)


def kept_of(one: Allocation) -> str:
    """What a finished job still holds."""
    return f"keeps {one.storage} of files" if one.storage else "holds nothing"


def split(stack: Stack, one: Allocation) -> str:
    """Note for a replica whose GPUs and cores are on several NUMA nodes although one could hold them; else empty."""
    parts = stack.hardware_of(one.node).apart(one.cards, one.cpus) if one.node in stack.nodes else ()
    return f"split over NUMA nodes {' and '.join(map(str, parts))}" if parts else ""


def ranges(numbers: Iterable[int]) -> str:
    """Device numbers with ranges: 0-3,6."""
    runs = [[n for _, n in group] for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def unplaced_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per pending workload, with the rules that exclude it."""
    from swarm_iac.cli.decisions.start_times import starts

    times = starts(decision, {}, 0)
    for gone in decision.placement.unplaced:
        yield gone.workload, len(gone.missing), "; ".join(filter(None, (because(gone), times.get(gone.workload))))


def growing_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per workload that keeps its size because there is no capacity for the new one."""
    from swarm_iac.cli.decisions.start_times import starts

    times = starts(decision, {}, 0)
    for one in decision.placement.growing:
        yield one.workload, one.keeps, one.wants, "; ".join(filter(None, (because(one), times.get(one.workload))))


def because(one: Waiting) -> str:
    """Why it is pending, and a summary of the nodes."""
    return "; ".join([*(reason.text for reason in one.reasons), *([one.nodes] if one.nodes else [])])


def proof_line(decision: Decision) -> str:
    """How good the placement is, in one line, with all goals of which there is anything."""
    proof = decision.proof
    goals = goal_texts(proof.goals, decision.stack) if proof else ()
    found = "; ".join(str(goal) for goal in goals if goal.reached != "0" or goal.best != "0")
    return verdict_line(decision) + (f": {found}" if found else "")


def verdict_line(decision: Decision) -> str:
    """Whether the placement is proven optimal, and by which solver."""
    proof = decision.proof
    if proof is None:
        return "proof: stale (it belongs to another lock); `swarm solve` renews it"
    verdict = "optimal" if proof.optimal else "not proven optimal"
    cut = "; the search was interrupted, and `swarm solve` continues it" if "cut" in proof.parameters else ""
    failed = proof.parameters.get("failed")
    remark = f"; the search failed ({failed}), and a greedy placement was used: please report this" if failed else ""
    linear = proof.parameters.get("failed_linear")
    remark += f"; engines that failed on a linear program: {linear}" if linear else ""
    return f"proof: {verdict} by {proof.solver}{cut}{remark}"


def cost_line(decision: Decision) -> str:
    """Cost per hour before and after; empty if the stack has no prices."""
    remark = cost.format_change(decision.stack, decision.last, decision.placement)
    return f"cost: {remark}" if remark else ""


def decision_json(decision: Decision) -> dict[str, Any]:
    """The decision as JSON."""
    return {
        "stack": decision.name,
        "stale": list(decision.stale),
        "placement": decision.placement.model_dump(mode="json"),
        "cost": cost.as_json(decision.stack, decision.last, decision.placement),
        "proof": decision.proof.model_dump(mode="json") if decision.proof else None,
    }
