"""When could pending work start, in words? At a time if machines say when jobs started, else within a duration."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from swarm_iac.cli.engine import options
from swarm_iac.decision import Decision
from swarm_iac.model.placement import Placement
from swarm_iac.model.service import variants
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Observed
from swarm_iac.plan.state.completion import came_to_end
from swarm_iac.units import Seconds

if TYPE_CHECKING:
    from swarm_iac.solver.advice.earliest import Start

#: Pending workloads of a list for which it is worked out.
MOST = 100
#: What follows the end of any job.
GIVES = "the resources of a finished job are reused by the next `swarm up`"
#: What pending work could do then; the others are for what runs, and waits for its new size, or for a preferred variant.
START, GROW, CHANGE = "start", "grow", "change its variant"
#: Longest wait for machines that do not answer. [s]
_PATIENCE = 10.0


def starts(decision: Decision, seen: Mapping[str, Observed], now: int) -> dict[str, str]:
    """When each pending workload could start or grow, where that is known. `now`: [s since 1970]"""
    names = [one.workload for one in decision.placement.unplaced[:MOST]]
    found = _starts(decision.stack, decision.placement, names, seen, now)
    words = {name: format_start(start, now) for name, start in found.items()}
    for name in [one.workload for one in decision.placement.growing[:MOST] if one.workload not in names]:
        start = _starts(*asked(decision, name), [name], seen, now).get(name)
        words |= {name: format_start(start, now, GROW)} if start else {}
    return words


def asked(decision: Decision, workload: str) -> tuple[Stack, Placement]:
    """The stack and placement to ask about: for what waits to grow, or runs in a lighter variant, as it prefers to be.

    Such a workload is without its slot there.
    """
    placement = decision.placement
    others = tuple(one for one in placement.growing if one.workload != workload)
    lighter = tuple(one for one in placement.lighter if one.workload != workload)
    if len(others) == len(placement.growing) and len(lighter) == len(placement.lighter):
        return decision.stack, placement
    asked = placement.model_copy(update={"growing": others, "lighter": lighter})
    rest = tuple(one for one in placement.allocations if one.workload != workload or one.ended)
    return variants.in_effect(decision.written, asked), asked.model_copy(update={"allocations": rest})


def of(decision: Decision, workload: str, *, offline: bool) -> tuple[Start | None, str]:
    """When one pending workload could start, and in words. Asks the machines on which jobs with a known time run."""
    stack, placement = asked(decision, workload)
    timed = {one.node for one in placement.going() if stack.workloads[one.workload].time.end}
    seen: dict[str, Observed] = {}
    if timed and not offline:
        from swarm_iac.observe import observe

        targets = {node: stack.nodes[node].ssh for node in sorted(timed)}
        run = options(decision.root)
        seen = observe(targets, ssh_config=run.ssh_config, timeout=min(_PATIENCE, run.node_timeout))
    now = int(time.time())
    start = _starts(stack, placement, [workload], seen, now).get(workload)
    verb = verb_of(decision, workload)
    return start, format_start(start, now, verb) if start else ""


def verb_of(decision: Decision, workload: str) -> str:
    """What the workload could do once there is capacity."""
    if any(one.workload == workload for one in decision.placement.growing):
        return GROW
    return CHANGE if any(one.workload == workload for one in decision.placement.lighter) else START


def _starts(stack: Stack, placement: Placement, names: list[str], seen: Mapping[str, Observed], now: int) -> dict[str, Start]:
    # A node answers only for what our own lock places there.
    here = [(stack.runs_as(one), seen[one.node]) for one in placement.going() if one.node in seen]
    ends_now = came_to_end(stack, placement, seen)
    over = {stack.runs_as(one) for one in placement.going() if one.name in ends_now}
    if not names or not (over or any(one.time.end for one in stack.workloads.values())):
        return {}
    from swarm_iac.solver.advice.earliest import earliest, ends

    began = {name: node.started[name] for name, node in here if name in node.started}
    return earliest(stack, placement, names, ends(stack, placement, began, over, now), datetime.date.today())


def format_start(start: Start, now: int, verb: str = START) -> str:
    """As in `could start about 2026-11-23 04:10 UTC, when fine-2 reaches its limit (on gpu-03)`."""
    if start.how == "ended":
        return f"could {verb} at the next `swarm up`: {start.job} has ended (on {start.node})"
    moment = datetime.datetime.fromtimestamp(now + start.after, datetime.UTC)
    when = f"about {moment:%Y-%m-%d %H:%M} UTC" if start.known else f"within {Seconds(start.after)}"
    why = "reaches its limit" if start.how == "limit" else "is expected to end"
    return f"could {verb} {when}, when {start.job} {why} (on {start.node})"
