"""Why does an allocation stop for good, or leave its node? By taking the cause away.

What is still wanted and has no place was preempted by newcomers: those without whom it would fit where it ran.
"""

from __future__ import annotations

import datetime
from collections import Counter

from swarm_iac.limits import BESIDES, besides, called_back, came, gain, joins, torn
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import held_of
from swarm_iac.model.service.variants import changed
from swarm_iac.model.stack import Stack

#: A judgement of the whole fleet takes a second in a fleet of thousands; beyond so many stops only nodes are judged.
_WHOLE = 20


def why_stopped(stack: Stack, before: Placement, after: Placement, today: datetime.date | None = None) -> dict[str, str]:
    """Of each allocation that ran and is placed no more, by its name on the node: why.

    Without `today`, every exception to a limit holds.
    """
    now = after.by_name()
    gone = [one for one in before.allocations if one.name not in now]
    causes = {}
    waits = {each.workload: each.missing for each in after.unplaced}
    stand = Counter(each.workload for each in after.allocations)
    whole = 0
    for one in gone:
        workload = stack.workloads.get(one.workload)
        if workload is None:
            causes[one.name] = "removed from the stack file"
        elif one.index not in waits.get(one.workload, ()) and max(one.index, stand[one.workload]) >= workload.members:
            causes[stack.runs_as(one)] = f"scaled down to {workload.members}"
        else:
            whole += 1
            causes[stack.runs_as(one)] = _lost(stack, before, after, one, today, whole=whole <= _WHOLE)
    return causes


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
        return f"{was.node}: {node.state}" + (f" ({node.reason})" if node.reason else "")
    # With its size of now, on the devices that it had where that is the same.
    same = held_of(was) == held_of(now)
    back = was if same else now.model_copy(update={"node": was.node})
    found = came(stack, before, after, (back,), today, whole=whole)
    frees = f"frees capacity for {found.who()}" if found.names else ""
    if found.broken:
        head = f"it does not fit {was.node} any more" if same else f"its new size does not fit {was.node}"
        head = _given(stack, was) or changed(before, after, was.workload) or head
        return f"{head}: {BESIDES.join(filter(None, (*found.rules(), frees)))}"
    if (other := joins(stack, before, after, now)) and {*found.names} <= {other}:
        return f"comes to {other}, which runs only with it"
    if frees:
        return frees
    return gain(stack, after, was, now) or f"{was.node} still has capacity for it: the search ended before finding that"


def _given(stack: Stack, was: Allocation) -> str:
    """It has another user: it is restarted. Empty where it has not."""
    user = stack.workloads[was.workload].user
    return "" if was.user in (None, user) else f"it is of {user} now"


def _lost(
    stack: Stack, before: Placement, after: Placement, one: Allocation, today: datetime.date | None, *, whole: bool
) -> str:
    """Why an allocation that is still wanted lost its place."""
    node = stack.nodes.get(one.node)
    if node is None:
        return f"{one.node} left the stack, and no other node takes it"
    if node.state in ("drain", "lost"):
        more = besides(stack, before, after, one, today, whole=whole)
        return f"{one.node}: {node.state}{f' ({node.reason})' if node.reason else ''}, and no other node takes it{more}"
    # A gang stands whole or not at all, so it is put back whole.
    gang, now = stack.workloads[one.workload].gang is not None, after.by_name()
    back = tuple(each for each in before.allocations if gang and each.workload == one.workload and each.name not in now)
    found = came(stack, before, after, back or (one,), today, whole=whole)
    if text := torn(stack, back, found):
        return text
    if found.names and not found.broken:
        return called_back(stack, before, after, one, found.names) or found.text(stack, one.workload)
    # What asks for another size has no place with that.
    broken = [each for each in found.broken if each.rule != "sizes_equal_request"]
    if broken and len(broken) == len(found.broken):
        head = _given(stack, one) or f"it does not fit {one.node} any more"
        return f"{head}: {found.text(stack, one.workload)}, and no other node takes it"
    reasons = next((gone.reasons for gone in after.unplaced if gone.workload == one.workload), ())
    return (
        "; ".join(reason.text for reason in reasons)
        or f"{one.node} still has capacity for it: the search ended before finding that"
    )
