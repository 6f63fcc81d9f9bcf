"""Which rows and outputs does Pulumi keep, for the machines as they are and as they should be?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm_iac.model.state import Desired, Facts, NodeState, Observed
from swarm_iac.model.step import Deferred
from swarm_iac.plan import rows as rows_of
from swarm_iac.plan.state.completion import keep_ends
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.step_graph.partial import part
from swarm_iac.provider import spec
from swarm_iac.provider.operations.failures import row_of
from swarm_iac.provider.plugin.wire import Row, Rows, plain
from swarm_iac.reconcile import Reconciliation


def found(seen: Reconciliation, old: Rows) -> Rows:
    """Rows as found; for a node that did not answer, as last known. A node without a ledger is not ours (yet)."""
    ours = {name: node for name, node in seen.observed.items() if not node.error and node.ledger is not None}
    last = {row: value for row, value in old.items() if home(row, old) in seen.unreachable}
    return as_rows(ours) | last


def wanted(seen: Reconciliation) -> Rows:
    """Rows as they will be after this run, without what finished jobs no longer hold; their result stays as it is."""
    target = seen.transition.target.nodes
    if seen.only is not None:
        mixed = part(seen.observed, seen.transition.all, seen.only).desired
        touched = {step.node for step in seen.plan.steps}
        ours = {name for name, node in seen.observed.items() if node.ledger is not None}
        target = {name: each for name, each in mixed.items() if name in ours | touched}
    kept = keep_ends(seen.observed, target)
    rows = as_rows({name: kept.get(name, value.state) for name, value in target.items() if value.managed})
    for node in seen.observed.values():
        for name in node.state.allocations:
            row = rows.get(("Allocation", name), {})
            if ended(node, name) and row.get("node") == node.node:
                row["health"] = "failed" if node.health[name] == "failed" else "ok"
    return rows


def blocked(seen: Reconciliation) -> dict[Row, str]:
    """Rows with steps that cannot run, because a node does not answer or a roll-out halted → reason.

    The settings of a node that is powered off wait for it, which is no failure.
    """
    out: dict[Row, list[str]] = {}
    for left in (left for left in seen.plan.deferred if left.cause != "part" and not _sleeps(left, seen)):
        out.setdefault(row_of(left.step), []).append(left.why)
    return {row: "; ".join(dict.fromkeys(whys)) for row, whys in out.items()}


def _sleeps(left: Deferred, seen: Reconciliation) -> bool:
    stays = left.step.node in seen.transition.target.nodes
    return left.cause == "asleep" and stays and not left.step.allocation


def outputs(seen: Reconciliation, *, applied: bool = False) -> dict[str, Any]:
    """Outputs of the Fleet. `known`: the last observation of nodes that are not as the state's inputs say.

    After a refresh the inputs still say how a node was left, unless it was not left that way.
    """
    # Blocked rows count as drift, or the next run would find nothing to do and succeed despite an unreachable node.
    drift = [step.id for step in seen.plan.steps] + [f"{name}: {why}" for (_, name), why in blocked(seen).items()]
    astray = {step.node for step in (*seen.plan.steps, *(left.step for left in seen.plan.deferred))}
    astray |= {name for name, node in seen.observed.items() if node.rollout_failures}
    astray = (astray if applied else astray & seen.transition.records.seen.keys()) | seen.unreachable.keys()
    return {
        **spec.outputs(seen.transition.target.nodes),
        "serial": seen.serial,
        "drift": sorted(drift),
        "leaving": {name: _dump(seen.transition.leaving[name]) for name in _leaving(seen)},
        "known": {name: _dump(_bare(seen.observed[name])) for name in sorted(astray & seen.observed.keys())},
    }


def warnings(seen: Reconciliation) -> tuple[str, ...]:
    """Warnings of the plan, troubles of machines, and what was found that is in no ledger."""
    troubles = [
        f"{name}: {words}" for name, node in sorted(seen.observed.items()) for words in (*node.troubles, *node.unverified)
    ]
    foreign = [
        f"{name}: in no ledger, left alone: {', '.join(node.foreign)}"
        for name, node in sorted(seen.observed.items())
        if node.foreign
    ]
    dark = sorted(name for name in seen.unreachable if not seen.observed[name].asleep)
    hint = f"{', '.join(dark)}: changes deferred to the next `swarm up`; if the machine is gone, set `state: lost`"
    return (*seen.plan.warnings, *([hint] if dark else ()), *_perhaps_off(seen, dark), *troubles, *foreign)


def _perhaps_off(seen: Reconciliation, dark: list[str]) -> tuple[str, ...]:
    """Which nodes an autopilot may have powered off that runs in another clone: only there is it known which are off."""
    stack = seen.transition.target.stack() if dark else None
    saved = [name for name in dark if stack and name in stack.nodes and stack.nodes[name].power_saving]
    words = "under `power_saving`, and perhaps powered off on purpose: run `swarm up` where the autopilot runs"
    return (
        (f"{', '.join(saved)}: {words}; `state: lost` is for one that `swarm status` there names as failed",) if saved else ()
    )


def as_rows(nodes: Mapping[str, Desired] | Mapping[str, Observed] | Mapping[str, NodeState]) -> Rows:
    """Rows of nodes, wanted or found, as they look after a round trip through the engine."""
    return {row: plain(properties) for row, properties in rows_of(nodes).items()}


def home(row: Row, rows: Rows) -> str:
    """The node that a row lives on; empty when the row is not among `rows`."""
    if row[0] == "Node":
        return row[1]
    return str(rows.get(row, {}).get("node", ""))


def _leaving(seen: Reconciliation) -> list[str]:
    """Nodes that still have to be restored. One that was never reached was never ours."""
    nodes = (seen.observed.get(name) for name in seen.transition.leaving)
    return sorted(node.node for node in nodes if node and node.ledger)


def _bare(node: Observed) -> Observed:
    return node.model_copy(
        update={
            "facts": Facts(),
            "error": "",
            "asleep": False,
            "foreign": (),
            "troubles": (),
            "unverified": (),
            "health": {},
            "started": {},
            "ends": {},
        }
    )


def _dump(value: Desired | Observed) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True)
