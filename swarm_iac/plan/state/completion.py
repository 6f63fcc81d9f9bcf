"""What becomes of a finished job? It is not run again, wherever its place is now.

What ran is known by workload, user, command and environment, and its ledger keeps it. The same request in the same place
is therefore no request to start it: it releases its GPUs, its share of the machine and its bandwidth, unless it asks for
`hold`, and keeps its files. When its place was moved, nothing is left where it ran but its record. Only another command,
another environment or another name is a new job.

A gang has failed when one member has: the others stop, and none is started again.

What the lock file says to have ended stays so, whatever a node says later: nothing of it is started. Where it runs after
all, it is left alone, and who is to have its place waits (`runs_on`). Of an end only its own node is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import AllocationState, Desired, NodeState, Observed
from swarm_iac.plan.state.diff import ended, with_ended_as_running

At = tuple[str, str]  # node, allocation
#: How an allocation is that may have a process still, though its unit is not active.
_PERHAPS = ("stopping", "unknown")


def could_end(stack: Stack, placement: Placement) -> tuple[Allocation, ...]:
    """Jobs that would release their capacity if they finished, on nodes that can be asked.

    Of a gang also members that have ended: how they did decides over the others.
    """

    def could(one: Allocation) -> bool:
        work, node = stack.workloads.get(one.workload), stack.nodes.get(one.node)
        job = work is not None and work.run is not None and work.kind != "serve" and not work.hold
        return job and node is not None and node.state != "lost"

    going = tuple(one for one in placement.going() if could(one))
    gangs = {one.workload for one in going if stack.workloads[one.workload].gang is not None}
    return going + tuple(one for one in placement.allocations if one.ended and one.workload in gangs and could(one))


def came_to_end(stack: Stack, placement: Placement, observed: Mapping[str, Observed]) -> frozenset[str]:
    """Names of the jobs that are in `placement` and finished, each as its node reports.

    Believed is a node of this fleet, of what ran there with the command, environment and user of now. Of a gang that
    failed, a member whose node says that it does not run has ended, too.
    """
    found, failed, idle = set(), set(), []
    for one in could_end(stack, placement):
        seen, name = observed.get(one.node), stack.runs_as(one)
        if seen is None or seen.error or seen.ledger is None or seen.ledger.fleet != stack.fleet:
            continue
        was, work = seen.state.allocations.get(name), stack.workloads[one.workload]
        if was is not None and not (was.workload == name.rpartition("-")[0] and _runs(was, stack, one)):
            continue
        if ended(seen, name):
            found.add(one.name)
            if work.gang is not None and seen.health[name] == "failed":
                failed.add(one.workload)
        elif work.gang is not None and not (was is not None and _may_run(seen, name)):
            idle.append(one)
    found |= {one.name for one in idle if one.workload in failed}
    return frozenset(found & {one.name for one in placement.going()})


def _runs(was: AllocationState, stack: Stack, one: Allocation) -> bool:
    """Is what is placed there what the workload requests now?"""
    work = stack.workloads[one.workload]
    run = (work.run.command, work.run.env) if work.run else ("", {})
    return (was.unit.user, was.unit.command, was.unit.env) == (work.user, *run)


def runs_on(observed: Observed, wanted: Desired) -> tuple[str, ...]:
    """What runs there, or may, though it has ended by the lock file: started by hand, or by a node put back in time."""
    return tuple(
        name
        for name in wanted.ended
        if name in observed.state.allocations
        and name in wanted.state.allocations
        and same_run(observed.state.allocations[name], wanted.state.allocations[name])
        and not ended(observed, name)
        and _may_run(observed, name)
    )


def _may_run(observed: Observed, name: str) -> bool:
    return observed.state.allocations[name].unit.active or observed.health.get(name) in _PERHAPS


def keep_ends(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> dict[str, NodeState]:
    """The desired state of each managed node where it changes because the node holds the end of a job still requested."""
    nodes = {name: wanted for name, wanted in desired.items() if wanted.managed}
    home = {one: name for name, wanted in nodes.items() for one in wanted.state.allocations}
    old = {name: with_ended_as_running(observed[name]).allocations for name in nodes if name in observed}
    ran = [(node, one) for node, held in old.items() for one in held if one in home
           and same_run(held[one], nodes[home[one]].state.allocations[one])]  # fmt: skip
    ends = {at for at in ran if ended(observed[at[0]], at[1])}
    failed = _failed_gangs(observed, nodes, ends)
    wish = {name: wanted.state for name, wanted in nodes.items()}
    for node, one, state in _recorded(observed, nodes, old, ends):
        wish[node] = _with(wish[node], one, state)
    for node, one in ran:
        was, there = old[node][one], home[one]
        if one in nodes[there].ended:
            continue  # said above, and nothing of it is wanted anywhere else
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


def _recorded(
    observed: Mapping[str, Observed],
    nodes: Mapping[str, Desired],
    old: Mapping[str, Mapping[str, AllocationState]],
    ends: set[At],
) -> Iterator[tuple[str, str, AllocationState | None]]:
    """What is wanted of each allocation that has ended by the lock file: node, name, and its files; None: nothing."""
    for node, wanted in nodes.items():
        for one in wanted.ended:
            was, asked = old.get(node, {}).get(one), wanted.state.allocations.get(one)
            if asked is None:
                continue
            if was is None or not same_run(was, asked):
                yield node, one, None
            elif (node, one) in ends or observed[node].error:
                yield node, one, given_back(was)
            else:
                yield node, one, given_back(was.model_copy(update={"unit": was.unit.model_copy(update={"active": False})}))


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
