"""What does one operation on the fleet do: read, foresee, apply, give back?

No gRPC in here: what comes in and goes out are values, so that the laws can be read in one place.

- Act on what the machines are, not on what was once written: every operation observes first.
- A node that does not answer keeps the rows that were last known; its changes fail by name, everyone else's go on.
- A change counts when a second reading shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swarm_iac.errors import Refused
from swarm_iac.model.step import Step, Verb
from swarm_iac.plan.show.summary import Summary, summary
from swarm_iac.provider import spec
from swarm_iac.provider.operations import in_flight, pending_placement
from swarm_iac.provider.operations.failures import divergences, failed_rows, row_of
from swarm_iac.provider.operations.machines import Machines
from swarm_iac.provider.operations.reconcile import Asked, Sight, as_rows, home
from swarm_iac.provider.plugin.wire import Row, Rows
from swarm_iac.run_options import RunOptions


@dataclass(frozen=True)
class Before:
    """What the state holds: inputs, outputs and rows of the last run."""

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
    """Rows as the machines are, and in `drift` the steps that would make them as last asked."""
    if options.offline:
        return Outcome(before.rows, dict(before.outputs), warnings=("SWARM_OFFLINE: shown as last known",))
    # A reading is of everything: a node that is asked for now may not have been known then.
    asked = Asked.of(before.inputs, before.inputs, before.outputs, options.state_home)
    seen = Sight.look(machines, asked, retry=options.retry)
    return Outcome(seen.rows(before.rows), seen.outputs(), warnings=seen.warnings())


def foresee(machines: Machines, news: Mapping[str, Any], before: Before, options: RunOptions) -> Outcome:
    """Rows as they would be after `apply`, and whether that would refuse them. Changes nothing."""
    asked = Asked.of(news, before.inputs, before.outputs, options.state_home)
    outputs: dict[str, Any] = {**before.outputs, **spec.outputs(asked.kept)}
    if options.offline:
        rows = as_rows(asked.kept)
        in_flight.leave(options.summary, _by_rows(before.rows, rows).model_dump_json())
        return Outcome(rows, outputs, warnings=("SWARM_OFFLINE: against what was last known",))
    seen = Sight.look(machines, asked, retry=options.retry, only=options.only)
    in_flight.leave(options.summary, summary(seen.plan, {}, 0).model_dump_json())
    refused = None
    try:
        seen.guard(options.allow_stop)
    except Refused as error:
        refused = error  # whoever is to allow it must see all of it
    wanted = seen.wanted
    touched = {row_of(step) for step in seen.plan.steps} | {("Node", step.node) for step in seen.plan.steps}
    # A row without a step stays as it was found, because nothing is going to be done to it.
    still = (before.rows.keys() & wanted.keys() - touched) | (seen.blocked.keys() & before.rows.keys())
    return Outcome(wanted | {row: before.rows[row] for row in still}, outputs, warnings=seen.warnings(), refused=refused)


def _by_rows(before: Rows, after: Rows) -> Summary:
    """What a change comes to by its rows alone, where no machine was asked."""
    names = {kind: {name for found, name in before.keys() | after.keys() if found == kind} for kind in ("Allocation", "Node")}
    old, new = ({name for kind, name in rows if kind == "Allocation"} for rows in (before, after))
    both = [("Allocation", name) for name in sorted(old & new)]
    move = [row for row in both if before[row].get("node") != after[row].get("node")]
    return Summary(
        start=tuple(sorted(new - old)),
        move=tuple(name for _, name in move),
        stop=dict.fromkeys(sorted(old - new), "no longer wanted"),
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
    """Make the machines as asked and read them again. Raises Refused when SWARM_OFFLINE is set or no order is safe.

    `guarded`: also when more would stop than anyone can have meant (plan.guards).
    """
    if options.offline:
        raise Refused("nothing can be applied with SWARM_OFFLINE set", hint="unset it, or run preview")
    asked = Asked.of(news, before.inputs, before.outputs, options.state_home)
    on_progress("reading the machines")
    # To destroy means all of it.
    first = Sight.look(machines, asked, retry=guarded and options.retry, only=options.only if guarded else "")
    if guarded:
        first.guard(options.allow_stop)
    now, failures = first, {}
    if first.plan.steps:
        places = [(step.node, step.allocation) for step in first.plan.steps if _places(step)]
        us: Any = {"lineage": asked.inputs.lineage, "serial": first.serial + 1}
        with machines.claimed(first.ours, **us, on_progress=on_progress) as run:
            pending_placement.begin(options.state_home, asked.inputs.lineage, first.serial + 1, places, asked.serial)
            results = machines.converge(first.plan, asked.all, **us, run=run, on_progress=on_progress, stop=stop)
        on_progress("reading the machines again")
        now = first.again(machines, results)
        # What is left for a later run says why itself, and where things stand.
        later = {left.step.id for left in now.plan.left}
        failures = failed_rows((step for step in first.plan.steps if step.id not in later), results)
        done = sum(result.ok for result in results.values())
        on_progress(f"{done} of {len(first.plan.steps)} steps done")
    failures |= divergences(step for step in now.as_if_running(first).plan.steps if row_of(step) not in failures)
    failures |= {row: "; ".join(filter(None, (failures.get(row), why))) for row, why in now.blocked.items()}
    found = now.rows(before.rows)
    wanted = as_rows(asked.kept)
    for row in failures.keys() - found.keys() - before.rows.keys():
        # The engine records a creation that failed, so the row says the least that is true of it.
        found[row] = {"node": wanted[row]["node"]} if "node" in wanted.get(row, {}) else {}
    # Failed rows bring the next run here by themselves; `drift` is for what a reading finds.
    outputs = {**now.outputs(applied=True), "drift": []}
    return Outcome(found, outputs, failures, tuple(dict.fromkeys(first.warnings() + now.warnings())))


def give_back(
    machines: Machines,
    before: Before,
    options: RunOptions,
    *,
    on_progress: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Restore every machine. Rows that are left belong to what could not be given back."""
    done = apply(machines, {**before.inputs, "spec": ""}, before, options, on_progress=on_progress, stop=stop, guarded=False)
    failures = dict(done.failures)
    for name in done.outputs["leaving"]:
        why = [text for row, text in done.failures.items() if home(row, before.rows) == name]
        failures.setdefault(("Node", name), "; ".join(why) or f"{name}: not restored")
    bad = {home(row, before.rows) for row in failures}
    rows = {row: value for row, value in before.rows.items() if home(row, before.rows) in bad}
    return Outcome(rows, done.outputs, failures, done.warnings)


def _places(step: Step) -> bool:
    return bool(step.allocation) and step.verb not in (Verb.STOP, Verb.RELEASE)
