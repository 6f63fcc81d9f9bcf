"""How are decisions asked for, and how do they read?"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_iac.cli.engine import has_state, options, repository, state_folder
from swarm_iac.decision import Decision, Ends, Progress, again, decide, decide_file, keep, resolve
from swarm_iac.errors import SwarmError
from swarm_iac.model import cost, device
from swarm_iac.model.placement import Allocation, Waiting
from swarm_iac.model.resource import RESOURCES, Resource
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.run_options import RunOptions
from swarm_iac.stackfile import nearest_policy

if TYPE_CHECKING:
    from swarm_iac.observe import Ended

#: Who only decides waits no longer for machines that do not answer. [s]
_PATIENCE = 10.0
#: What is shown in the column of another row: pinned cores by their numbers, in the place of vCPUs.
_PARTS = {row.part_of: row for row in RESOURCES if row.part_of}


def policies(file: Path) -> Path | None:
    """The default limits that hold for a stack file."""
    return nearest_policy(file)


def is_file(name: str) -> bool:
    """Is a stack named by its file, and not by NAME of stacks/NAME.yaml?"""
    return name.endswith((".yaml", ".yml")) or "/" in name


def files(names: Iterable[str]) -> list[Path]:
    """The stack files that are named, by NAME or path; all in stacks/ where none is. Raises SwarmError."""
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
    """Fleet repository and NAME of a stack, however it is named; None for a file that lies in no repository's stacks/.

    Raises SwarmError outside a repository.
    """
    if not is_file(name):
        return repository(), name
    path = Path(name).resolve()
    if path.parent.name == "stacks" and (path.parents[1] / "Pulumi.yaml").is_file():
        return path.parents[1], path.stem
    return None


def inside(name: str) -> str:
    """NAME of a stack, however it is named, for what only a repository's own stacks can do. Raises SwarmError."""
    found = home(name)
    if found is None:
        raise SwarmError(
            f"{name} lies in no fleet repository's stacks/", hint="move it there; elsewhere it can be planned only"
        )
    return found[1]


def never_applied(root: Path, name: str) -> bool:
    """Is it known that no `swarm up` ran? `swarm solve` writes a lock, too.

    The engine leaves the stack's settings beside Pulumi.yaml, which are committed, and its state, where that is in files.
    """
    if not (root / "Pulumi.yaml").is_file() or (root / f"Pulumi.{name}.yaml").is_file():
        return False
    state = state_folder(root)
    return state is not None and not has_state(state, name)


def asking(name: str, *, every: bool = False, most: float = math.inf) -> Ended:
    """What asks the machines of a stack which jobs came to their end. `every`: all of them, if any; `most`: to wait [s]."""
    from swarm_iac.observe import Ended, observe

    found = home(name)
    run = options(found[0] if found else Path(name).parent)
    return Ended(partial(observe, ssh_config=run.ssh_config, timeout=min(most, run.node_timeout)), every)


def ends(name: str) -> Ended | None:
    """The same where jobs may have run; None of a draft, or where nothing was ever applied."""
    found = home(name)
    return None if found is None or never_applied(*found) else asking(name, most=_PATIENCE)


def current(name: str, progress: Progress | None = None, *, write: bool = True, ends: Ends | None = None) -> Decision:
    """What holds today for stacks/NAME.yaml, or for a stack file by its path. Of the latter nothing is written elsewhere.

    `ends`: says which jobs came to their end; a draft has none.
    """
    today, found, frozen = datetime.date.today(), home(name), RunOptions.of(os.environ).frozen
    if found is None:
        return decide_file(Path(name), today=today, frozen=frozen, progress=progress)
    return decide(*found, today=today, frozen=frozen, write=write, progress=progress, ends=ends)


def peek(name: str, progress: Progress | None = None) -> Decision:
    """The same, and nothing is written."""
    return current(name, progress, write=False)


def recorded(name: str, file: Path, progress: Progress | None = None, ends: Ends | None = None) -> Decision:
    """Solve in any case, write lock and proof, and to `file` what was solved. Raises SwarmError when it was cut."""
    from swarm_iac.solver.decide.recording import record

    today = datetime.date.today()
    decision = resolve(repository(), inside(name), today=today, progress=progress, ends=ends)
    assert decision.proof is not None
    keep(decision, progress)
    try:
        text = record(decision.stack, decision.last, today, decision.placement, decision.proof).text()
        file.write_text(text)
    except ValueError as error:
        raise SwarmError(f"{file} is not written: {error}", hint="let it end, or lower solve.effort") from None
    except OSError as error:
        raise SwarmError(f"{file}: {error.strerror}") from None
    return decision


def solve(name: str, progress: Progress | None = None, ends: Ends | None = None) -> Decision:
    """Solve if there is anything to decide or to gain, and write lock and proof."""
    decision = bettered(current(name, progress, ends=ends), datetime.date.today(), progress)
    keep(decision, progress)
    return decision


def bettered(decision: Decision, today: datetime.date, progress: Progress | None = None) -> Decision:
    """The same, or a better one where the lock is valid and its proof is of another problem, its search was cut, or the
    budget of moves of its change was spent: another change has it anew.
    """
    cut = decision.proof is not None and "cut" in decision.proof.parameters
    if not decision.stale and (decision.proof is None or cut or spent(decision)):
        other = again(decision, today=today, progress=progress)
        same = other.placement.allocations == decision.placement.allocations
        if same or cut or placed(other) > placed(decision):
            return other
    return decision


def placed(decision: Decision) -> tuple[int, ...]:
    """Thousandths of GPUs, then replicas, that have a place: of each priority, the highest first."""
    found: list[int] = []
    for level in sorted(PRIORITIES, key=lambda name: -PRIORITIES[name]):
        wishes = [decision.stack.workloads[one.workload] for one in decision.placement.going()]
        mine = [wish.each.gpus for wish in wishes if wish.priority == level]
        found += [sum(gpus.count * gpus.share for gpus in mine), len(mine)]
    return tuple(found)


def spent(decision: Decision) -> bool:
    """Does something wait, and did the change that was decided use moves, which the next one has anew?"""
    waits, goals = decision.placement.waiting(), decision.proof.goals if decision.proof else ()
    moves = next((goal.value for goal in goals if goal.name == "moves"), 0)
    return any(one.code == "Moves" for one in waits) or (bool(waits) and moves > 0)


def placement_heads(decision: Decision) -> tuple[str, ...]:
    """The heads of `placement_rows`."""
    return ("allocation", "user", "node", *(row.title for row in _columns(decision)), "")


def _columns(decision: Decision) -> list[Resource]:
    """Each resource of machines has a column, and each other one that anybody holds."""
    rows = (row for row in RESOURCES if not row.part_of)
    return [row for row in rows if row.capacity or any(map(row.held, decision.placement.allocations))]


def _cell(row: Resource, one: Allocation) -> str:
    """Pieces by their numbers; else an amount, which is shared where others have its pieces."""
    if row.pieces:
        return _pieces(getattr(one, row.field)) or "-"
    if row.name not in _PARTS:
        return row.text(row.held(one)) if row.held(one) else "-"
    return _pieces(getattr(one, _PARTS[row.name].field)) or (f"{row.text(row.held(one))} shared" if row.held(one) else "-")


def _pieces(held: tuple[Any, ...]) -> str:
    return device.told(held) if held and isinstance(held[0], device.Device) else ranges(held)


def placement_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per allocation; the last cell says what is new or moved, and what is split."""
    before, columns = decision.last.by_name(), _columns(decision)
    for one in decision.placement.allocations:
        old = before.get(one.name)
        note = "new" if old is None else f"from {old.node}" if old.node != one.node else ""
        note = f"finished: {kept_of(one)}" if one.ended else ", ".join(filter(None, (note, split(decision.stack, one))))
        user = decision.stack.workloads[one.workload].user
        yield (one.name, user, one.node, *(_cell(row, one) for row in columns), note)


def kept_of(one: Allocation) -> str:
    """What a job holds that came to its end."""
    return f"keeps {one.storage} of files" if one.storage else "holds nothing"


def split(stack: Stack, one: Allocation) -> str:
    """Words for a replica whose GPUs and cores lie on several NUMA nodes, though one could hold them; nothing for others."""
    parts = stack.hardware_of(one.node).apart(one.cards, one.cpus) if one.node in stack.nodes else ()
    return f"split over NUMA nodes {' and '.join(map(str, parts))}" if parts else ""


def ranges(numbers: Iterable[int]) -> str:
    """Devices by number, neighbours as one: 0-3,6."""
    runs = [[n for _, n in group] for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def unplaced_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per workload that found no place, with the rules in the way."""
    from swarm_iac.cli.decisions.start_times import starts

    times = starts(decision, {}, 0)
    for gone in decision.placement.unplaced:
        yield gone.workload, len(gone.missing), "; ".join(filter(None, (because(gone), times.get(gone.workload))))


def growing_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per workload that keeps its size, since there is no room for the one that it asks for."""
    from swarm_iac.cli.decisions.start_times import starts

    times = starts(decision, {}, 0)
    for one in decision.placement.growing:
        yield one.workload, one.keeps, one.wants, "; ".join(filter(None, (because(one), times.get(one.workload))))


def because(one: Waiting) -> str:
    """Why it waits, and the count of the nodes."""
    return "; ".join([*(reason.text for reason in one.reasons), *([one.nodes] if one.nodes else [])])


def proof_line(decision: Decision) -> str:
    """How good the placement is, in one line, with every goal."""
    proof = decision.proof
    goals = ", ".join(f"{goal.name} {goal.value} of {goal.bound}" for goal in proof.goals) if proof else ""
    return verdict_line(decision) + (f": {goals}" if goals else "")


def verdict_line(decision: Decision) -> str:
    """Whether the placement is optimal, by whose word."""
    proof = decision.proof
    if proof is None:
        return "proof: stale (it belongs to another lock); `swarm solve` makes it anew"
    verdict = "optimal" if proof.optimal else "not proven optimal"
    cut = "; the search was cut by hand, and `swarm solve` goes on" if "cut" in proof.parameters else ""
    failed = proof.parameters.get("failed")
    told = f"; the search failed ({failed}), and what fits was placed without one: please report this" if failed else ""
    linear = proof.parameters.get("failed_linear")
    told += f"; engines that failed on a linear program: {linear}" if linear else ""
    return f"proof: {verdict} by {proof.solver}{cut}{told}"


def cost_line(decision: Decision) -> str:
    """What it costs per hour, before and after; empty where the stack has no prices."""
    told = cost.told(decision.stack, decision.last, decision.placement)
    return f"cost: {told}" if told else ""


def decision_json(decision: Decision) -> dict[str, Any]:
    """The decision for machines."""
    return {
        "stack": decision.name,
        "stale": list(decision.stale),
        "placement": decision.placement.model_dump(mode="json"),
        "cost": cost.as_json(decision.stack, decision.last, decision.placement),
        "proof": decision.proof.model_dump(mode="json") if decision.proof else None,
    }
