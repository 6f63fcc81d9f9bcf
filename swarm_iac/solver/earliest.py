"""When could what is pending start at the earliest, as far as the ends of running jobs are known?

Running jobs are taken away in the order in which they end, each at its time limit, else when it is expected to. The first
moment at which the pending workload fits is told, by the test that also decides its reasons. That holds if nothing new
arrives, nothing else ends before, and nothing is moved or preempted for it. No clock is read here: `now` is an argument.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver.counting import Tally
from swarm_iac.solver.explain import room_of
from swarm_iac.solver.scene import scene_of

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
    for one in placement.allocations:
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
    found: dict[str, Start] = {}
    if not ends:
        return found
    scene = scene_of(stack, placement, today)
    whole = room_of(scene, placement)
    racks: dict[str | None, list[str]] = {}
    for bin_ in scene.bins.values():
        racks.setdefault(bin_.rack, []).append(bin_.name)
    for name in workloads:
        ask, room = scene.asks[name], whole.copy()
        need = ask.members - room.counts[name].total() if ask.gang else 1
        tally = Tally(room, ask)
        if need <= 0 or tally.reach() >= need:
            continue
        for end in ends:
            one = end.allocation
            if one.workload == name or one.node not in scene.bins:
                continue
            room.take(scene.asks[one.workload], scene.bins[one.node], -1)
            rack = scene.bins[one.node].rack
            tally.changed(racks[rack] if rack in room.racks else (one.node,))
            if tally.reach() >= need:
                found[name] = Start(workload=name, after=end.seconds, job=one.name, node=one.node, how=end.how, known=end.known)
                break
    return found
