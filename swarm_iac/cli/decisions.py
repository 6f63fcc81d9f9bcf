"""How are decisions asked for, and how do they read?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarm_iac.cli.engine import repository
from swarm_iac.decision import Decision, decide, decide_file, keep, resolve
from swarm_iac.model import cost
from swarm_iac.stackfile import nearest_policy

PLACEMENT_HEADS = ("allocation", "user", "node", "GPUs", "CPUs", "memory", "storage", "out", "in", "")


def policies(file: Path) -> Path | None:
    """The default limits that hold for a stack file."""
    return nearest_policy(file)


def current(name: str) -> Decision:
    """What holds for stacks/NAME.yaml today."""
    return decide(repository(), name, today=datetime.date.today())


def of_file(file: Path) -> Decision:
    """What holds for a stack file anywhere today. Nothing is written."""
    return decide_file(file, today=datetime.date.today())


def solve(name: str) -> Decision:
    """Solve if there is anything to decide, and write lock and proof."""
    decision = current(name)
    if decision.proof is None:
        # The lock is valid and its proof is gone or of another lock: prove anew; solving twice changes nothing.
        again = resolve(decision.root, name, today=datetime.date.today())
        if again.placement.allocations == decision.placement.allocations:
            decision = again
    keep(decision)
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
    """How good the placement is, in one line."""
    proof = decision.proof
    if proof is None:
        return "proof: stale (it belongs to another lock); `swarm solve` makes it anew"
    goals = ", ".join(f"{goal.name} {goal.value} of {goal.bound}" for goal in proof.goals)
    return f"proof: {'optimal' if proof.optimal else 'not proven optimal'} by {proof.solver}: {goals}"


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
