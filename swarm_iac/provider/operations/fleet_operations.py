"""What does one operation on the fleet do: read, preview, apply, destroy?

No gRPC here: inputs and outputs are plain values, so that the rules can be read in one place.

- Act on the actual state of the machines, not on records: every operation observes first.
- A node that does not answer keeps its last known rows; its changes fail by name, all others continue.
- A change counts once a second reading shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.errors import Refused
from swarm_iac.model.step import Step, Verb
from swarm_iac.plan.show.summary import Summary, summary
from swarm_iac.pluralize import pluralize
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_rows
from swarm_iac.provider.operations.failures import divergences, failed_rows, row_of
from swarm_iac.provider.operations.fleet_rows import as_rows, home
from swarm_iac.provider.operations.machines import Machines
from swarm_iac.provider.plugin import in_flight
from swarm_iac.provider.plugin.wire import Row, Rows
from swarm_iac.reconcile import Reconciliation, Transition, pending_placement
from swarm_iac.run_options import RunOptions


@dataclass(frozen=True)
class Before:
    """What the state has: inputs, outputs and rows of the last run."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What one operation found or did."""

    rows: Rows
    outputs: dict[str, Any]
    failures: dict[Row, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    refused: Refused | None = None


def read(machines: Machines, before: Before, options: RunOptions) -> Outcome:
    """Rows as the machines are; `drift` lists the steps that would restore what was last asked for."""
    if options.offline:
        return Outcome(before.rows, dict(before.outputs), warnings=("SWARM_OFFLINE: shown as last known",))

    transition = _transition(before.inputs, before, options)
    seen = Reconciliation.of(machines.observe, transition, machines.agent(), retry=options.retry)
    return Outcome(fleet_rows.found(seen, before.rows), fleet_rows.outputs(seen), warnings=fleet_rows.warnings(seen))


def preview(machines: Machines, news: Mapping[str, Any], before: Before, options: RunOptions) -> Outcome:
    """Rows as they would be after `apply`, and its refusal, if any. Changes nothing."""
    transition = _transition(news, before, options)
    outputs: dict[str, Any] = {**before.outputs, **spec.outputs(transition.target.nodes)}
    if options.offline:
        rows = as_rows(transition.target.nodes)
        in_flight.leave(options.summary, _by_rows(before.rows, rows).model_dump_json())
        return Outcome(rows, outputs, warnings=("SWARM_OFFLINE: against what was last known",))
    seen = Reconciliation.of(machines.observe, transition, machines.agent(), retry=options.retry, only=options.only)
    in_flight.leave(options.summary, summary(seen.plan, {}, 0).model_dump_json())
    refused = None
    try:
        seen.guard(options.allow_stop)
    except Refused as error:
        refused = error  # the person who decides has to see all of it
    wanted = fleet_rows.wanted(seen)
    touched = {row_of(step) for step in seen.plan.steps} | {("Node", step.node) for step in seen.plan.steps}
    # A row without a step stays as it was found, because nothing is going to be done to it.
    still = (before.rows.keys() & wanted.keys() - touched) | (fleet_rows.blocked(seen).keys() & before.rows.keys())
    return Outcome(
        wanted | {row: before.rows[row] for row in still}, outputs, warnings=fleet_rows.warnings(seen), refused=refused
    )


def _by_rows(before: Rows, after: Rows) -> Summary:
    """The summary of a change by its rows alone, if no machine was asked."""
    names = {kind: {name for found, name in before.keys() | after.keys() if found == kind} for kind in ("Allocation", "Node")}
    old, new = ({name for kind, name in rows if kind == "Allocation"} for rows in (before, after))
    both = [("Allocation", name) for name in sorted(old & new)]
    move = [row for row in both if before[row].get("node") != after[row].get("node")]
    return Summary(
        start=tuple(sorted(new - old)),
        move=tuple(name for _, name in move),
        stop=dict.fromkeys(sorted(old - new), "no longer in the stack"),
        change=tuple(row[1] for row in both if row not in move and before[row] != after[row]),
        configure=tuple(
            sorted(
                name for name in names["Node"] if ("Node", name) in after and before.get(("Node", name)) != after["Node", name]
            )
        ),
        restore=tuple(sorted(name for name in names["Node"] if ("Node", name) not in after)),
    )


def apply(
    machines: Machines,
    news: Mapping[str, Any],
    before: Before,
    options: RunOptions,
    *,
    on_progress: Callable[[str], None],
    stop: threading.Event,
    guarded: bool = True,
) -> Outcome:
    """Apply the request and read the machines again. Raises Refused if SWARM_OFFLINE is set or no order is safe.

    `guarded`: also if more would stop than can be intended (plan.guards).
    """
    if options.offline:
        raise Refused("nothing can be applied with SWARM_OFFLINE set", hint="unset it, or run preview")
    transition = _transition(news, before, options)
    on_progress("reading the machines")
    # Destroy always means everything.
    part: Any = {"retry": options.retry, "only": options.only} if guarded else {}
    first = Reconciliation.of(machines.observe, transition, machines.agent(), **part)
    if guarded:
        first.guard(options.allow_stop)
    now, failures = first, {}
    if first.plan.steps:
        places = [(step.node, step.allocation) for step in first.plan.steps if _places(step)]
        lineage, serial = transition.target.lineage, first.serial + 1
        us: Any = {"lineage": lineage, "serial": serial, "on_progress": on_progress}
        with machines.claimed(first.ours, **us) as run:
            pending_placement.begin(options.state_home, lineage, serial, places, transition.records.serial)
            results = machines.converge(first.plan, transition.all, **us, run=run, stop=stop)
        on_progress("reading the machines again")
        now = first.again(machines.observe, results)
        # Deferred steps report their reason and status themselves.
        later = {left.step.id for left in now.plan.deferred}
        failures = failed_rows((step for step in first.plan.steps if step.id not in later), results)
        done = sum(result.ok for result in results.values())
        on_progress(f"{done} of {pluralize(len(first.plan.steps), 'step')} done")
    failures |= divergences(step for step in now.as_if_running(first).plan.steps if row_of(step) not in failures)
    failures |= {row: "; ".join(filter(None, (failures.get(row), why))) for row, why in fleet_rows.blocked(now).items()}
    found = fleet_rows.found(now, before.rows)
    wanted = as_rows(transition.target.nodes)
    for row in failures.keys() - found.keys() - before.rows.keys():
        # The engine records failed creations, so the row has only what is certainly true.
        found[row] = {"node": wanted[row]["node"]} if "node" in wanted.get(row, {}) else {}
    # Failed rows trigger the next run by themselves; `drift` is for what a refresh finds.
    outputs = {**fleet_rows.outputs(now, applied=True), "drift": []}
    warnings = tuple(dict.fromkeys(fleet_rows.warnings(first) + fleet_rows.warnings(now)))
    return Outcome(found, outputs, failures, warnings)


def destroy(
    machines: Machines,
    before: Before,
    options: RunOptions,
    *,
    on_progress: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Restore every machine. The remaining rows belong to what could not be restored."""
    nothing = {**before.inputs, "spec": ""}
    done = apply(machines, nothing, before, options, on_progress=on_progress, stop=stop, guarded=False)
    failures = dict(done.failures)
    for name in done.outputs["leaving"]:
        why = [text for row, text in done.failures.items() if home(row, before.rows) == name]
        failures.setdefault(("Node", name), "; ".join(why) or f"{name}: not restored")
    bad = {home(row, before.rows) for row in failures}
    rows = {row: value for row, value in before.rows.items() if home(row, before.rows) in bad}
    return Outcome(rows, done.outputs, failures, done.warnings)


def _transition(news: Mapping[str, Any], before: Before, options: RunOptions) -> Transition:
    return Transition.of(spec.target(news), spec.records(before.inputs, before.outputs), options.state_home)


def _places(step: Step) -> bool:
    return bool(step.allocation) and step.verb not in (Verb.STOP, Verb.RELEASE)
