"""What does the lock file say is running, for commands that cannot read Pulumi's state?"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from swarm_iac.cli.decisions import deciding
from swarm_iac.decision import Decision
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Desired, Observed
from swarm_iac.reconcile import Records, as_locked


def records(decision: Decision, wanted: Mapping[str, Desired]) -> Records:
    """The lock as a record of earlier runs. It has no lineage, and no addresses of nodes that left the stack.

    `wanted`: the desired state of the decision, so that a valid lock is not expanded twice.
    """
    stack = decision.stack
    placed: dict[str, set[str]] = {}
    for one in (*decision.last.allocations, *decision.dropped):
        name = stack.runs_as(one) if one.workload in stack.workloads else one.name
        placed.setdefault(one.node, set()).add(name)
    return Records(
        applied=applied(decision, wanted, _known(decision)) if _known(decision) else {},
        placed={node: frozenset(names) for node, names in placed.items()} if decision.last.allocations else {},
        gone=gone(decision),
    )


def gone(decision: Decision) -> dict[str, tuple[str, ...]]:
    """Nodes that left the stack → what runs there."""
    found: dict[str, list[str]] = {}
    if not deciding.never_applied(decision.root, decision.name):
        for one in decision.last.going():
            if one.node not in decision.stack.nodes:
                found.setdefault(one.node, []).append(one.name)
    return {node: tuple(names) for node, names in found.items()}


def applied(decision: Decision, wanted: Mapping[str, Desired], known: tuple[Allocation, ...]) -> Mapping[str, Desired]:
    """The desired state of every node that corresponds to the `known` allocations."""
    stack = decision.stack
    if known == decision.placement.allocations and as_locked.stack_of(stack, known) is stack:
        return wanted
    return as_locked.applied(stack, decision.last, known)


def observed(
    decision: Decision, wanted: Mapping[str, Desired], *, always: bool = False, declares: Stack | None = None
) -> dict[str, Observed]:
    """Every node as it would be found if the lock is applied and all is healthy; blank if the lock is empty.

    `always`: assume the lock is applied, even if nothing ever was. `declares`: the stack that says what the machines are, if
    that is not the decision's own.
    """
    known = _known(decision, always=always)
    was = applied(decision, wanted, known)
    if not known:
        return {name: Observed(node=name) for name in was}
    return as_locked.healthy(was, declares or decision.stack)


def since(decision: Decision) -> str:
    """The lock file and its date: it is written when something is applied, or by `swarm solve`."""
    if deciding.never_applied(decision.root, decision.name):
        return "machines on which nothing runs, since nothing was ever applied here"
    file = decision.files.lock
    if not file.is_file():
        return "machines on which nothing runs, since there is no lock file"
    written = datetime.datetime.fromtimestamp(file.stat().st_mtime)
    record = f"{file.name} of {written:%Y-%m-%d %H:%M}"
    return record if decision.last.allocations else f"machines on which nothing runs, as {record} says"


def _known(decision: Decision, *, always: bool = False) -> tuple[Allocation, ...]:
    """Allocations of the lock on nodes that are in the stack; none if nothing was ever applied."""
    if not always and deciding.never_applied(decision.root, decision.name):
        return ()
    return tuple(one for one in decision.last.allocations if one.node in decision.stack.nodes)
