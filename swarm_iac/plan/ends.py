"""What becomes of a job that has come to its end? It is not run again, wherever its place is now.

What ran is known by workload, user, command and environment, and its ledger keeps it. The same wish in the same place
is therefore no wish to start it. When its place was moved, what it held is given back and its record stays where it ran;
only another command, another environment or another name is a new job.
"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.state import AllocationState, NodeState, Observed
from swarm_iac.plan.diff import ended, settled


def keep_ends(nodes: Mapping[str, tuple[Observed, NodeState]]) -> dict[str, NodeState]:
    """What is wanted of each node whose wish changes, for it holds the end of a job that is still asked for.

    `nodes`: what was found of each managed node, and what is wanted of it.
    """
    home = {name: node for node, (_, new) in nodes.items() for name in new.allocations}
    found: dict[str, NodeState] = {}
    for node, (seen, _) in nodes.items():
        for name, old in settled(seen).allocations.items():
            there = home.get(name)
            if there is None or not ended(seen, name):
                continue
            at = found.get(there, nodes[there][1])
            wish = at.allocations[name]
            if not same_run(old, wish):
                continue
            if there == node:
                found[node] = _with(at, name, wish.model_copy(update={"unit": old.unit}))
            elif name not in nodes[there][0].state.allocations:
                found[there] = _with(at, name, None)
                found[node] = _with(found.get(node, nodes[node][1]), name, remembered(old))
    return found


def same_run(old: AllocationState, new: AllocationState) -> bool:
    """Is it the same that ran? Where and with how much is no part of it."""
    one, other = old.unit, new.unit
    return (old.workload, one.user, one.command, one.env) == (new.workload, other.user, other.command, other.env)


def remembered(old: AllocationState) -> AllocationState:
    """The record of a job that holds nothing any more: nothing runs in its slice, so that needs no ceiling."""
    return AllocationState(workload=old.workload, unit=old.unit)


def _with(state: NodeState, name: str, allocation: AllocationState | None) -> NodeState:
    others = {each: one for each, one in state.allocations.items() if each != name}
    return state.model_copy(update={"allocations": others | ({name: allocation} if allocation else {})})
