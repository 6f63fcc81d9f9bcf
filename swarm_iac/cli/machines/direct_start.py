"""May new live replicas be started at once, before an `up` records them, and how?

Nothing but steps of replicas that are new, on nodes that are otherwise as they should be, while no other node is to change:
that is read, planned, guarded and claimed as in `up`, and only Pulumi and Ansible are left out. The `up` that follows finds the
replicas there, and writes the state. Until then, this is what a run is that was killed before its state was saved: its serial
is in the ledgers, and a note says what it was about to place.
"""

from __future__ import annotations

import datetime
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from swarm_iac.cli import engine, engine_lock
from swarm_iac.cli.machines import state_file
from swarm_iac.decision import Decision, request
from swarm_iac.errors import Retryable, SwarmError
from swarm_iac.live import checkpoint
from swarm_iac.live.layer import Layer
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Verb
from swarm_iac.reconcile import Reconciliation, Records, Target, Transition, pending_placement

#: Steps of one allocation alone.
_VERBS = {Verb.GPUS, Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC, Verb.START, Verb.HEALTH}


def start(root: Path, decision: Decision, layer: Layer, say: engine.Say) -> str:
    """Start the live replicas that are not applied yet. Why that is left to `up`; empty: they run.

    Raises Retryable while another run changes the stack; that goes first.
    """
    if state := checkpoint.state_folder(root):
        engine_lock.refuse_held(state, decision.name)
    fresh = {one.allocation.name: one.allocation.node for one in layer.grants if one.allocation.node in layer.unapplied}
    nodes = sorted(node for node in layer.unapplied if node in decision.stack.nodes and node not in layer.power)
    if not fresh or layer.stopping:
        return "replicas are to stop" if layer.stopping else "no replica is new"
    records = state_file.records(root, decision.name)
    if records is None or not records.applied:
        return "the state is not kept in files here"
    try:
        return _start(root, replace(decision, layer=layer), nodes, fresh, records, say)
    except Retryable:
        raise
    except SwarmError as error:
        return str(error)


def _start(
    root: Path, decision: Decision, nodes: list[str], fresh: Mapping[str, str], records: Records, say: engine.Say
) -> str:
    from swarm_iac.converge import claimed, converge
    from swarm_iac.observe import observe
    from swarm_iac.reach.author import commit, who
    from swarm_iac.reach.node_program import agent_digest

    run = engine.options(root)
    if elsewhere := [name for name, node in fresh.items() if _placed(records, name) - {node}]:
        return f"{elsewhere[0]} may run elsewhere"
    asked = request(decision, datetime.date.today())
    every = asked.nodes()
    rest = every.keys() - {*nodes} - decision.layer.power.keys()  # nothing draws power where a node is off
    if other := sorted(name for name in rest if not _as_applied(name, every[name], records)):
        return f"{other[0]} is to change as well"  # a power limit in its rack, perhaps, that has to fall first
    wanted = {name: one for name, one in every.items() if name in nodes}
    stood = {name: node for name, node in asked.stood.items() if node in nodes}
    target = replace(Target.of(asked, wanted, records.lineage), stood=stood)
    transition = Transition.of(target, _part(records, nodes), run.state_home)
    reach: Any = {"ssh_config": run.ssh_config, "timeout": run.node_timeout}
    read = partial(observe, **reach)
    # The next after the state's: a run since then, whatever it did, has this one refused.
    serial = records.serial + 1
    us: Any = {"lineage": records.lineage, "serial": serial, "run": secrets.token_hex(8), "who": who(run.who)}
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(Reconciliation.of, read, transition, agent_digest())
        with claimed(_deciding(records, decision.layer, us), **reach, on_progress=say):
            found = reading.result()
            found.guard(0)
            if why := _not_simple(found, fresh, records, serial):
                return why
            places = [(step.node, step.allocation) for step in found.plan.steps]
            pending_placement.begin(run.state_home, records.lineage, serial, places, records.serial)
            quiet: Any = {"on_progress": say, "stop": threading.Event(), "directly": True}
            results = converge(found.plan, wanted, **reach, **us, commit=commit(), **quiet)
    if bad := [one for one in results.values() if not one.ok]:
        return bad[0].message or bad[0].id
    left = found.again(read, results).plan.steps
    return f"{left[0].id} is still to be done" if left else ""


def _deciding(records: Records, layer: Layer, us: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Whom an `up` would ask for its claim: all that it has changed and that are on, the first by name before others."""
    on = sorted(records.applied.keys() - layer.power.keys())
    return {name: (records.applied[name].address, {**us, "fleet": records.applied[name].fleet}) for name in on}


def _as_applied(name: str, wanted: Desired, records: Records) -> bool:
    return name in records.applied and records.applied[name].state == wanted.state


def _placed(records: Records, name: str) -> set[str]:
    """Nodes on which an allocation may be, by what is on record."""
    applied = {node for node, one in records.applied.items() if name in one.state.allocations}
    seen = {node for node, one in records.seen.items() if name in one.state.allocations}
    return applied | seen | {node for node, names in records.placed.items() if name in names}


def _part(records: Records, nodes: list[str]) -> Records:
    """What is on record of these nodes alone: the others are neither read nor changed."""
    kept = {*nodes}
    return replace(
        records,
        applied={name: one for name, one in records.applied.items() if name in kept},
        leaving={},
        seen={name: one for name, one in records.seen.items() if name in kept},
        placed={name: one for name, one in records.placed.items() if name in kept},
        gone={},
    )


def _not_simple(found: Reconciliation, fresh: Mapping[str, str], records: Records, claimed: int) -> str:
    """Why this is more than new replicas on nodes as they should be; empty if it is not. `claimed`: the serial of this run."""
    plan: Plan = found.plan
    # A node that was read after it granted the claim has that serial; if another run had it, the claim was refused.
    if found.serial not in (records.serial, claimed):
        return "a later run than that of the state was there"
    if found.unreachable:
        return f"{min(found.unreachable)} does not answer"
    if plan.deferred or not plan.steps:
        return plan.deferred[0].why if plan.deferred else "nothing is to be done"
    for step in plan.steps:
        held = found.observed[step.node].state.allocations
        if step.verb not in _VERBS or fresh.get(step.allocation) != step.node or step.allocation in held:
            return f"{step.id} is more than a new replica"
    if rest := [name for name, one in found.observed.items() if one.ledger is None or one.foreign]:
        return f"{rest[0]} is not as its ledger says"
    return ""
