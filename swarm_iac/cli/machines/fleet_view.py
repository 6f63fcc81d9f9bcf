"""What is decided, what do the machines say, and what would `up` do? For `plan`, `status`, `ps` and `assert`."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.decisions.start_times import starts as pending_starts
from swarm_iac.cli.engine import options
from swarm_iac.cli.machines import lock_records, state_file
from swarm_iac.decision import Decision, request, with_live
from swarm_iac.errors import Refused, told
from swarm_iac.live.layer import Grant, Layer
from swarm_iac.live.overlay import Overlay, sentences
from swarm_iac.model.placement import Placement
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan
from swarm_iac.plan import desired
from swarm_iac.pluralize import pluralize
from swarm_iac.reconcile import Reconciliation, Records, Target, Transition
from swarm_iac.reconcile.reconcile import believed, selected
from swarm_iac.units import Bytes

_MB = 10**6


@dataclass(frozen=True)
class FleetView:
    """A decision, and the machines of its stack."""

    decision: Decision
    desired: Mapping[str, Desired]
    observed: Mapping[str, Observed]
    plan: Plan
    offline: str = ""  # what stands in for the machines if none was asked
    blank: bool = False  # nothing was ever applied
    starts: Mapping[str, str] = field(default_factory=dict)  # when pending work could start, if known
    now: int = 0  # [s since 1970]
    found: Reconciliation | None = None  # if a change was planned
    live: Mapping[str, Grant] = field(
        default_factory=dict
    )  # replicas above those of the lock, by name; `decision` has them too


def read(
    name: str,
    *,
    offline: bool = False,
    retry: bool = False,
    only: str = "",
    quiet: bool = False,
    planned: bool = True,
    write: bool = True,
) -> FleetView:
    """Decide (for stacks/NAME.yaml, or the file that `name` is), read every machine, and plan.

    `offline`: assume the machines are as the lock file says. `retry`: continue halted roll-outs. `only`: nodes and teams to
    change. Progress is shown on a terminal, unless `quiet`. Not `planned`: the plan is empty, for a command that only looks;
    that needs no safe order of steps. Not `write`: a new decision is not kept as the candidate.
    """
    from swarm_iac.cli.terminal.progress import doing, followed
    from swarm_iac.plan.state import runtimes
    from swarm_iac.reach.node_program import agent_digest

    ends = None if offline else deciding.asking(name, every=True)
    decision = followed(lambda progress: deciding.current(name, progress, write=write, ends=ends, offline=offline), quiet=quiet)
    today = datetime.date.today()
    asked = request(decision, today)
    wanted = asked.nodes()
    beside = with_live(decision, today)
    said = sentences(beside, decision.layer, time.time())
    decision = _beside(decision, beside)
    stack, placement = decision.stack, decision.placement
    if ends is None:
        with doing("planning", quiet=quiet):
            seen = lock_records.observed(decision, wanted)
            transition = Transition.of(Target.of(asked, wanted), Records(gone=lock_records.gone(decision)), None)
            found = Reconciliation(transition, seen, only=selected(transition, only))
            plan = _warned(found.plan, (*said, *_doubts(decision, today))) if planned else Plan()
            starts = pending_starts(decision, {}, 0) if planned else {}
            blank, since = deciding.never_applied(decision.root, decision.name), lock_records.since(decision)
            reached = found if planned else None
            return FleetView(decision, wanted, seen, plan, since, blank, starts, found=reached, live=beside.live)
    records = state_file.records(decision.root, decision.name) if planned else None
    records = records or lock_records.records(decision, wanted)
    transition = Transition.of(Target.of(asked, wanted, records.lineage), records, options(decision.root).state_home)
    with doing(f"asking {pluralize(len(transition.all), 'machine')}", quiet=quiet):
        if not planned:
            seen = believed(transition, ends.read(stack, wanted))[0]
            return FleetView(decision, wanted, seen, Plan(), now=int(time.time()), live=beside.live)
        found = Reconciliation.of(ends.at, transition, agent_digest(), retry=retry, only=only)
    now = int(time.time())
    with doing("planning", quiet=quiet):
        seen = {node: found.observed[node] for node in wanted}
        meant = (*said, *lent(seen, wanted), *_doubts(decision, today), *runtimes.warnings(stack, placement, seen, now))
        plan, starts = _warned(found.plan, meant), pending_starts(decision, seen, now)
        return FleetView(decision, wanted, seen, plan, starts=starts, now=now, found=found, live=beside.live)


def lent(seen: Mapping[str, Observed], wanted: Mapping[str, Desired]) -> tuple[str, ...]:
    """What nodes lend by use, in place of what the plan would lend: it is live, and no drift."""
    found = []
    for node in sorted(seen.keys() & wanted.keys()):
        ones = seen[node].state.allocations  # its part of now, whatever the plan is about to make of it
        for name, now in sorted(seen[node].lent.items()):
            if name in ones:
                may, part = (Bytes(size // _MB * _MB) for size in (now, ones[name].slice.memory_max or 0))
                found.append(f"live: {name} on {node} may use {may} of memory now; its part is {part}")
    return tuple(found)


def _beside(decision: Decision, beside: Overlay) -> Decision:
    """The decision with what is live, before as well on nodes that have it."""
    if not decision.layer.grants:
        return decision
    return replace(decision, placement=beside.placement, last=with_live_of(decision.layer, decision.last))


def with_live_of(layer: Layer, last: Placement) -> Placement:
    """What runs by the lock, and beside it the live replicas of nodes that have them."""
    known = last.by_name()
    granted = (one.allocation for one in layer.grants if one.allocation.name not in known)
    ran = [one for one in granted if one.node not in layer.unapplied]
    return last.model_copy(update={"allocations": tuple(sorted((*known.values(), *ran), key=lambda one: one.name))})


def supposed(now: Decision, then: Decision) -> FleetView:
    """The plan of the hypothetical `then`, assuming that everything in the lock file of `now` is running.

    Raises Refused if no order is safe.
    """
    asked = request(then, datetime.date.today())
    wanted = asked.nodes()
    runs = lock_records.observed(now, desired(now.stack, now.placement), always=True, declares=then.stack)
    seen = {name: runs.get(name, Observed(node=name)) for name in wanted}
    transition = Transition.of(Target.of(asked, wanted), Records(gone=lock_records.gone(then)), None)
    found = Reconciliation(transition, seen)
    return FleetView(then, wanted, seen, found.plan, now.files.lock.name, found=found)


def guard(view: FleetView, allowed: int) -> Refused | None:
    """The refusal that `up` would end with, if any: see Reconciliation.guard."""
    assert view.found is not None, "nothing was planned"
    try:
        view.found.guard(allowed)
    except Refused as refused:
        return refused
    return None


def _doubts(decision: Decision, today: datetime.date) -> tuple[str, ...]:
    """Warnings: what is legal in the stack file and probably not intended."""
    from swarm_iac.stackfile import Loaded
    from swarm_iac.stackfile.checks.warnings import doubts

    return told(doubts(Loaded(decision.stack, decision.source), today))


def _warned(plan: Plan, more: tuple[str, ...]) -> Plan:
    return plan.model_copy(update={"warnings": (*plan.warnings, *more)}) if more else plan
