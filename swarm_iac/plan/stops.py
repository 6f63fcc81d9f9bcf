"""Why does an allocation stop for good, or leave its node? By taking the cause away.

What is still wanted and has no place was preempted by whoever came: those without whom it would fit where it ran.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable

from swarm_iac.limits import judge
from swarm_iac.model import growth
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack

#: A judgement of the whole fleet takes a second in a fleet of thousands; beyond so many stops only nodes are judged.
_WHOLE = 20


def why_stopped(stack: Stack, before: Placement, after: Placement, today: datetime.date | None = None) -> dict[str, str]:
    """Of each allocation that ran and is placed no more, by its name on the node: why.

    Without `today`, every exception to a limit holds.
    """
    now = after.by_name()
    gone = [one for one in before.allocations if one.name not in now]
    told = {}
    waits = {each.workload: each.missing for each in after.unplaced}
    stand = Counter(each.workload for each in after.allocations)
    whole = 0
    for one in gone:
        workload = stack.workloads.get(one.workload)
        if workload is None:
            told[one.name] = "removed from the stack file"
        elif one.index not in waits.get(one.workload, ()) and max(one.index, stand[one.workload]) >= workload.members:
            told[stack.runs_as(one)] = f"scaled down to {workload.members}"
        else:
            whole += 1
            told[stack.runs_as(one)] = _lost(stack, before, after, one, today, whole=whole <= _WHOLE)
    return told


def why_moved(stack: Stack, before: Placement, after: Placement, today: datetime.date | None = None) -> dict[str, str]:
    """Of each allocation that ran on another node than it will, by its name: why."""
    now = after.by_name()
    moved = [one for one in before.allocations if one.name in now and now[one.name].node != one.node]
    return {one.name: _left(stack, before, after, one, now[one.name], today, whole=i < _WHOLE) for i, one in enumerate(moved)}


def _left(
    stack: Stack,
    before: Placement,
    after: Placement,
    was: Allocation,
    now: Allocation,
    today: datetime.date | None,
    *,
    whole: bool,
) -> str:
    """Why an allocation leaves its node."""
    node = stack.nodes.get(was.node)
    if node is None:
        return f"{was.node} left the stack"
    if node.state in ("drain", "lost"):
        return f"{was.node}: {node.state}" + (f" ({node.why})" if node.why else "")
    if growth.size(was) != growth.size(now):
        return f"its new size has no place on {was.node}"
    if names := _came(stack, before, after, (was,), today, whole=whole):
        return f"makes room for {' and '.join(names)}"
    return "fewer nodes in use, or GPUs that fit better"


def _lost(
    stack: Stack, before: Placement, after: Placement, one: Allocation, today: datetime.date | None, *, whole: bool
) -> str:
    """Why an allocation that is still wanted lost its place."""
    node = stack.nodes.get(one.node)
    if node is None:
        return f"{one.node} left the stack, and no other node takes it"
    if node.state in ("drain", "lost"):
        return f"{one.node}: {node.state}{f' ({node.why})' if node.why else ''}, and no other node takes it"
    # A gang stands whole or not at all, so it is put back whole.
    gang, now = stack.workloads[one.workload].gang is not None, after.by_name()
    back = tuple(each for each in before.allocations if gang and each.workload == one.workload and each.name not in now)
    if names := _came(stack, before, after, back or (one,), today, whole=whole):
        return _by(stack, one, names)
    found = next((gone.reasons for gone in after.unplaced if gone.workload == one.workload), ())
    return "; ".join(reason.text for reason in found) or "no place was found for it"


def _came(
    stack: Stack,
    before: Placement,
    after: Placement,
    back: tuple[Allocation, ...],
    today: datetime.date | None,
    *,
    whole: bool,
) -> list[str]:
    """The fewest workloads that came without which `back` would still fit where it ran; empty when they are not why."""
    old, gone = before.by_name(), {each.name for each in back}
    stand = tuple(each for each in after.allocations if each.name not in gone)
    came = [each for each in stand if each.name not in old or old[each.name].node != each.node]
    nodes = {each.node for each in back}
    here = Placement(allocations=tuple(each for each in stand if each.node in nodes))
    for scope in (here, Placement(allocations=stand)) if whole else (here,):
        kept = frozenset((*(each.name for each in scope.allocations if each.name in old), *gone))

        def breaks(without: frozenset[str], scope: Placement = scope, kept: frozenset[str] = kept) -> bool:
            # GPUs and cores of those that stayed are where they are; a newcomer's are whatever it took.
            rest = (each for each in scope.allocations if each.workload not in without or each not in came)
            rules = {v.rule for v in judge(stack, Placement(allocations=(*rest, *back)), today, kept=kept)}
            return bool(rules - {"gangs_are_whole"})

        mine = {each.workload for each in came if each in scope.allocations} - {each.workload for each in back}
        if breaks(frozenset()) and not breaks(frozenset(mine)):
            return _fewest(sorted(mine), breaks)
    return []


def _fewest(names: list[str], breaks: Callable[[frozenset[str]], bool]) -> list[str]:
    """A smallest part of `names` that must be away for nothing to break: none of it can be left."""
    away = set(names)
    for name in names:
        if not breaks(frozenset(away - {name})):
            away.discard(name)
    return sorted(away)


def _by(stack: Stack, one: Allocation, names: list[str]) -> str:
    ranks = ("low", "normal", "high")
    mine = ranks.index(stack.workloads[one.workload].priority)
    higher = all(ranks.index(stack.workloads[name].priority) > mine for name in names)
    return f"{'preempted by' if higher else 'its place went to'} {' and '.join(names)}"
