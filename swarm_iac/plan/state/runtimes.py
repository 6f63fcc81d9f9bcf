"""Who runs longer than was said, and who was ended by its time limit?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.plan.state import format
from swarm_iac.plan.state.diff import timed_out
from swarm_iac.units import Seconds


def limit_reached(seen: Observed, name: str) -> str:
    """Why a job failed that its time limit ended; empty for any other."""
    if not timed_out(seen, name):
        return ""
    limit = seen.state.allocations[name].unit.time_limit_s if name in seen.state.allocations else None
    return "reached its time limit" + ("" if limit is None else f" of {Seconds(limit)}")


def late(stack: Stack, one: Allocation, seen: Observed, now: int) -> str:
    """By how much a run is longer than was said; empty where it is not, or where its node ends it. `now`: [s since 1970]"""
    name, time = stack.runs_as(one), stack.workloads[one.workload].time
    if name not in seen.started:
        return ""
    ran = now - seen.started[name]
    if time.limit is not None and ran > time.limit and time.past == "report":
        return f"has run for {format.lasting(ran)}, past its limit of {time.limit}"
    if time.expected is not None and ran > time.expected:
        return f"has run for {format.lasting(ran)}, and {time.expected} was expected"
    return ""


def warnings(stack: Stack, placement: Placement, observed: Mapping[str, Observed], now: int) -> Iterator[str]:
    """One for each that runs longer than was said, and for each that a limit would end which its node does not know yet."""
    for one in placement.allocations:
        seen = observed.get(one.node)
        if seen is None:
            continue
        if how := late(stack, one, seen, now):
            yield f"{one.name} on {one.node} {how}"
        if ran := _cut(stack, one, seen, now):
            limit = stack.workloads[one.workload].time.limit
            yield f"{one.name} on {one.node} has run for {format.lasting(ran)}: its new limit of {limit} ends it at once"


def _cut(stack: Stack, one: Allocation, seen: Observed, now: int) -> int:
    """For how long it has run, if a new limit is less than that, and its grace; else 0. [s]"""
    name, workload = stack.runs_as(one), stack.workloads[one.workload]
    limit, state = workload.time.limit, seen.state.allocations.get(name)
    if name not in seen.started or limit is None or workload.time.past != "stop" or state is None:
        return 0
    ran = now - seen.started[name]
    return ran if ran > limit - workload.stop.grace and state.unit.time_limit_s != int(limit) else 0
