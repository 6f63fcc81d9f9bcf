"""What becomes of a job that has come to its end? It is not run again, wherever its place is now.

What ran is known by workload, user, command and environment, and its ledger keeps it. The same wish in the same place
is therefore no wish to start it: it gives back its GPUs, its share of the machine and its bandwidth, unless it asks for
`hold`, and keeps its files. When its place was moved, nothing is left where it ran but its record. Only another command,
another environment or another name is a new job.

A gang has failed when one member has: the others stop, and none is started again.
"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.state import AllocationState, Desired, NodeState, Observed
from swarm_iac.plan.diff import ended, settled

At = tuple[str, str]  # node, allocation


def keep_ends(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> dict[str, NodeState]:
    """What is wanted of each managed node whose wish changes, for it holds the end of a job that is still asked for."""
    nodes = {name: wanted for name, wanted in desired.items() if wanted.managed}
    home = {one: name for name, wanted in nodes.items() for one in wanted.state.allocations}
    old = {name: settled(observed[name]).allocations for name in nodes if name in observed}
    ran = [(node, one) for node, held in old.items() for one in held if one in home
           and same_run(held[one], nodes[home[one]].state.allocations[one])]  # fmt: skip
    ends = {at for at in ran if ended(observed[at[0]], at[1])}
    failed = _failed_gangs(observed, nodes, ends)
    wish = {name: wanted.state for name, wanted in nodes.items()}
    for node, one in ran:
        was, there = old[node][one], home[one]
        if (node, one) not in ends:
            if was.workload not in failed:
                continue
            was = was.model_copy(update={"unit": was.unit.model_copy(update={"active": False})})
        if there == node:
            asked = wish[node].allocations[one].model_copy(update={"unit": was.unit})
            wish[node] = _with(wish[node], one, asked if one in nodes[node].hold else given_back(asked))
        elif one not in old.get(there, {}):
            wish[there] = _with(wish[there], one, None)
            wish[node] = _with(wish[node], one, remembered(was))
    for name, wanted in nodes.items():
        for one, state in wanted.state.allocations.items():
            if state.workload in failed and not any(one in held for held in old.values()):
                wish[name] = _with(wish[name], one, None)
    return {name: state for name, state in wish.items() if state is not nodes[name].state}


def _failed_gangs(observed: Mapping[str, Observed], nodes: Mapping[str, Desired], ends: set[At]) -> set[str]:
    """Gangs of which a member has failed for good."""
    together = {one for wanted in nodes.values() for one, kind in wanted.handover.items() if kind == "together"}
    return {
        observed[node].state.allocations[one].workload
        for node, one in ends
        if one in together and observed[node].health.get(one) == "failed"
    }


def same_run(old: AllocationState, new: AllocationState) -> bool:
    """Is it the same that ran? Where and with how much is no part of it."""
    one, other = old.unit, new.unit
    return (old.workload, one.user, one.command, one.env) == (new.workload, other.user, other.command, other.env)


def given_back(state: AllocationState) -> AllocationState:
    """What a job holds after its end: its files. Nothing runs in its slice, so that needs no ceiling."""
    return AllocationState(workload=state.workload, unit=state.unit, scratch=state.scratch, cache=state.cache)


def remembered(old: AllocationState) -> AllocationState:
    """The record of a job that holds nothing any more."""
    return AllocationState(workload=old.workload, unit=old.unit)


def _with(state: NodeState, name: str, allocation: AllocationState | None) -> NodeState:
    others = {each: one for each, one in state.allocations.items() if each != name}
    return state.model_copy(update={"allocations": others | ({name: allocation} if allocation else {})})
