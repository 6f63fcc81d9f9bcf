"""When could what is pending start at the earliest, as far as the ends of running jobs are known?

Running jobs are taken away in the order in which they end, each at its time limit, else when it is expected to. The first
moment at which the pending workload fits is reported, by the test that also decides its reasons. That holds if nothing new
arrives, nothing else ends before, and nothing is moved or preempted for it. No clock is read here: `now` is an argument.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.explain.counting import Tally
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import WorkloadRequest

How = Literal["limit", "expected", "ended"]
_NOBODY: Mapping[str, int] = MappingProxyType({})


class End(Value):
    """When an allocation is over: after how many seconds, and by what. Not `known`: its start is not, so within so many."""

    allocation: Allocation
    seconds: int
    how: How
    known: bool


class Start(Value):
    """When a pending workload fits: `after` so many seconds, as `job` on `node` is over then. Not `known`: within so many."""

    workload: str
    after: int
    job: str
    node: str
    how: How
    known: bool


def ends(
    stack: Stack,
    placement: Placement,
    began: Mapping[str, int] = _NOBODY,
    over: Collection[str] = (),
    now: int = 0,
) -> tuple[End, ...]:
    """The ends of all running jobs of which one is known, in their order.

    `began`: when runs began [s since 1970], by the name of the allocation on its node; `over`: names of those that have
    ended. Of one that is past the time that it was only expected to take nobody knows the end, and one that holds its
    place after its end (`hold`) never gives it.
    """
    found = []
    for one in placement.going():
        workload = stack.workloads.get(one.workload)
        end = workload.time.end if workload is not None and not workload.hold else None
        if workload is None or workload.hold:
            continue
        name = stack.runs_as(one)
        if name in over:
            found.append(End(allocation=one, seconds=0, how="ended", known=True))
        elif end is not None:
            most, sure = int(end[0]), end[1]
            left = most - (now - began[name]) if name in began else most
            if sure or left > 0:
                how: How = "limit" if sure else "expected"
                found.append(End(allocation=one, seconds=max(0, left), how=how, known=name in began))
    return tuple(sorted(found, key=lambda end: (end.seconds, end.allocation.name)))


def earliest(
    stack: Stack,
    placement: Placement,
    workloads: Iterable[str],
    ends: tuple[End, ...],
    today: datetime.date | None = None,
) -> dict[str, Start]:
    """Of each pending workload the moment at which one more replica of it fits (all of a gang), given these ends.

    Left out is one that fits already, or not even when all of them are over. `ends`: in their order.
    """
    if not ends:
        return {}
    snapshot = snapshot_of(stack, placement, today)
    capacity = capacity_of(snapshot, placement)
    alike: dict[WorkloadRequest, list[str]] = {}
    found: dict[str, Start] = {}
    for name in workloads:
        if capacity.counts[name]:  # what itself has a place and ends frees no capacity for more of it
            others = tuple(end for end in ends if end.allocation.workload != name)
            found.update(_first(capacity.copy(), {snapshot.requests[name]: [name]}, others))
        else:
            alike.setdefault(replace(snapshot.requests[name], name=""), []).append(name)
    return found | _first(capacity, {snapshot.requests[names[0]]: names for names in alike.values()}, ends)


def _first(capacity: FreeCapacity, requests: Mapping[WorkloadRequest, list[str]], ends: tuple[End, ...]) -> dict[str, Start]:
    """The first end after which each fits, of all names of a request; what is over is taken out of `capacity`."""
    snapshot, found, open_ = capacity.snapshot, {}, []
    inside: dict[str | None, list[str]] = {}
    for host in snapshot.nodes.values():
        inside.setdefault(host.rack, []).append(host.name)
    for request, names in requests.items():
        need = request.members - capacity.counts[request.name].total() if request.gang else 1
        tally = Tally(capacity, request)
        if need > 0 and tally.reach() < need:
            open_.append((request, names, need, tally))
    for end in ends:
        one = end.allocation
        if one.node not in snapshot.nodes or not open_:
            continue
        host = snapshot.nodes[one.node]
        capacity.take(snapshot.requests[one.workload], host, -1)
        for each in tuple(open_):
            request, names, need, tally = each
            # Nodes of a rack are counted together, unless all replicas go to one of them.
            tally.changed(inside[host.rack] if request.together == "node" and host.rack in capacity.racks else (one.node,))
            if tally.reach() >= need:
                start = Start(workload="", after=end.seconds, job=one.name, node=one.node, how=end.how, known=end.known)
                found.update({name: start.model_copy(update={"workload": name}) for name in names})
                open_.remove(each)
    return found
