"""How are decisions asked for, and how do they read?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarm_iac.cli.engine import repository
from swarm_iac.decision import Decision, Progress, again, decide, decide_file, keep, resolve
from swarm_iac.errors import SwarmError
from swarm_iac.model import cost
from swarm_iac.stackfile import nearest_policy

PLACEMENT_HEADS = ("allocation", "user", "node", "GPUs", "CPUs", "memory", "storage", "out", "in", "")


def policies(file: Path) -> Path | None:
    """The default limits that hold for a stack file."""
    return nearest_policy(file)


def current(name: str, progress: Progress | None = None) -> Decision:
    """What holds for stacks/NAME.yaml today."""
    return decide(repository(), name, today=datetime.date.today(), progress=progress)


def peek(name: str, progress: Progress | None = None) -> Decision:
    """The same, and nothing is written."""
    return decide(repository(), name, today=datetime.date.today(), write=False, progress=progress)


def of_file(file: Path, progress: Progress | None = None) -> Decision:
    """What holds for a stack file anywhere today. Nothing is written."""
    return decide_file(file, today=datetime.date.today(), progress=progress)


def recorded(name: str, file: Path, progress: Progress | None = None) -> Decision:
    """Solve in any case, write lock and proof, and to `file` what was solved. Raises SwarmError when it was cut."""
    from swarm_iac.solver.record import record

    today = datetime.date.today()
    decision = resolve(repository(), name, today=today, progress=progress)
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


def solve(name: str, progress: Progress | None = None) -> Decision:
    """Solve if there is anything to decide or to gain, and write lock and proof."""
    decision = decide(repository(), name, today=datetime.date.today(), progress=progress)
    cut = decision.proof is not None and "cut" in decision.proof.parameters
    if not decision.stale and (decision.proof is None or cut or decision.placement.unplaced):
        # The lock is valid, but its proof is gone, its search was cut, or something waits for room: look again.
        other = again(decision, today=datetime.date.today(), progress=progress)
        same = other.placement.allocations == decision.placement.allocations
        if same or cut or len(other.placement.allocations) > len(decision.placement.allocations):
            decision = other
    keep(decision, progress)
    return decision


def placement_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per allocation; the last cell says what is new or moved."""
    before = decision.last.by_name()
    for one in decision.placement.allocations:
        old = before.get(one.name)
        note = "new" if old is None else f"from {old.node}" if old.node != one.node else ""
        cpus = ",".join(map(str, one.cpus)) if one.cpus else f"{one.vcpus} shared"
        gpus = ",".join(map(str, one.gpus)) or "-"
        user = decision.stack.workloads[one.workload].user
        yield (
            one.name,
            user,
            one.node,
            gpus,
            cpus,
            one.memory,
            one.storage or "-",
            one.egress or "-",
            one.ingress or "-",
            note,
        )


def unplaced_rows(decision: Decision) -> Iterator[tuple[object, ...]]:
    """One row per workload that found no place, with the rules in the way."""
    for gone in decision.placement.unplaced:
        yield gone.workload, len(gone.missing), "; ".join(reason.text for reason in gone.reasons)


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
