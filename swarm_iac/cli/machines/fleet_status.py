"""How are nodes and allocations listed, with what the machines say of them?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.decisions.deciding import ranges
from swarm_iac.cli.engine import options, repository
from swarm_iac.cli.machines import fleet_view
from swarm_iac.cli.machines.fleet_view import FleetView
from swarm_iac.cli.machines.in_use import NodeUsage, in_use, power_text
from swarm_iac.cli.terminal.screen import table
from swarm_iac.cli.terminal.tables import Grid
from swarm_iac.errors import SwarmError
from swarm_iac.model import deadline, device
from swarm_iac.model.hardware import gpu_model
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.table import ceilings
from swarm_iac.model.stack import Node
from swarm_iac.model.state import Facts, Observed
from swarm_iac.plan.state import runtimes
from swarm_iac.plan.state.completion import runs_on
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.mismatch import mismatches
from swarm_iac.ranges import natural
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.units import Bytes

if TYPE_CHECKING:
    from swarm_iac.observe import MemoryMove, Past, PastRun

NODE_HEADS = ("node", "state", "answers", "GPUs", "GPU settings", "settings", "allocations")
ALLOCATION_HEADS = ("allocation", "user", "node", "GPUs", "CPUs", "memory", "health")


def power_drawn(view: FleetView) -> dict[str, NodeUsage]:
    """What measures the power of GPUs says of those nodes that answered; none where nothing measures it."""
    from swarm_iac.observe import measurements

    stack = view.decision.stack
    answered = (name for name, seen in view.observed.items() if not seen.error and stack.hardware_of(name).gpus.count)
    targets = {name: stack.nodes[name].ssh for name in answered if stack.telemetry is not None and not view.offline}
    if not targets:
        return {}
    run = options(view.decision.root)
    found = in_use(measurements(targets, ssh_config=run.ssh_config, timeout=run.node_timeout).values())
    return {name: one for name, one in found.nodes.items() if one.power is not None}


def node_table(view: FleetView, drawn: Mapping[str, NodeUsage]) -> Grid:
    """One row per node; the power that its GPUs draw, of what they may, where that is measured anywhere."""
    heads: tuple[str, ...] = NODE_HEADS
    rows = [tuple(row) for row in node_rows(view)]
    if drawn:
        at = heads.index("GPU settings")
        cells = [power_text(drawn[str(row[0])]) if row[0] in drawn else "-" for row in rows]
        heads = (*heads[:at], "power", *heads[at:])
        rows = [(*row[:at], cell, *row[at:]) for row, cell in zip(rows, cells, strict=True)]
    return table(f"fleet {view.decision.stack.fleet}", heads, rows)


def node_rows(view: FleetView) -> Iterator[tuple[object, ...]]:
    """One row per node."""
    for name, seen in view.observed.items():
        node = view.decision.stack.nodes[name]
        if seen.error:
            yield name, "asleep" if seen.asleep else _state(node), seen.error.strip().splitlines()[-1], "-", "-", "-", "-"
            continue
        reached = "not asked" if view.offline else "; ".join(("yes", *seen.troubles, *seen.unverified, *_times(view, seen)))
        has = view.decision.stack.hardware_of(name).gpus
        cards = (str(has) if has.count else "none") if view.offline else _cards(seen.facts)
        yield (name, _state(node), reached, cards, _gpu_settings(seen), _settings(seen), _held(seen))


def nodes_json(view: FleetView, drawn: Mapping[str, NodeUsage]) -> dict[str, Any]:
    """The same as JSON, with everything a node reports. Where none was asked, health is unknown."""
    found = {name: seen.model_dump(mode="json") for name, seen in view.observed.items()}
    for name, usage in drawn.items():
        found[name]["power"] = {"drawn_w": usage.power, "limit_w": usage.power_limit}
    for one in found.values() if view.offline else ():
        one["health"] = {name: how if how == "done" else "not asked" for name, how in one["health"].items()}
    return found


def _times(view: FleetView, seen: Observed) -> Iterator[str]:
    """Allocations that run longer than expected, or have reached their limit."""
    for one in view.decision.placement.on(seen.node):
        words = _run_time(view, one).lstrip(":; ")
        if words:
            yield f"{one.name} {words}"


def _state(node: Node) -> str:
    return f"drain by {deadline.format_moment(node.drain_by)}" if node.drain_by and node.state == "cordon" else node.state


def _cards(facts: Facts) -> str:
    models = [gpu_model(card.model) for card in facts.gpus]
    return ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models)) or "none"


def _gpu_settings(seen: Observed) -> str:
    """Settings that GPUs share, e.g. '0-7: 600 W'."""
    groups: dict[str, list[int]] = {}
    for index, gpu in sorted(seen.state.gpus.items()):
        words = [f"{gpu.power_w} W" if gpu.power_w is not None else "", f"{gpu.clock_mhz} MHz" if gpu.clock_mhz else ""]
        words.append("persistent" if gpu.persistence else "")
        groups.setdefault(" ".join(word for word in words if word) or "default", []).append(index)
    return "; ".join(f"{ranges(which)}: {what}" for what, which in groups.items()) or "-"


def _settings(seen: Observed) -> str:
    words = [f"{key.rpartition('.')[2]}={value}" for key, value in sorted(seen.state.settings.sysctl.items())]
    return " ".join(words) or "-"


def _held(seen: Observed) -> str:
    ones = (f"{name} (finished)" if ended(seen, name) else name for name in sorted(seen.state.allocations))
    return " ".join(ones) or "-"


@dataclass(frozen=True)
class Wanted:
    """Which allocations to show; empty: all."""

    user: str = ""
    node: str = ""
    pending: bool = False


def shown(name: str, wanted: Wanted, *, quiet: bool, offline: bool = False) -> FleetView:
    """As `look`, with only what was asked for. For what is pending no machine is asked.

    Raises SwarmError for a user or node that the stack file does not have.
    """
    view = fleet_view.read(name, offline=offline or wanted.pending, quiet=quiet, planned=False)
    stack, placement = view.decision.stack, view.decision.placement
    for what, asked, known in (("user", wanted.user, stack.users()), ("node", wanted.node, stack.nodes.keys())):
        if asked and asked not in known:
            near = nearest(asked, known)
            raise SwarmError(f"there is no {what} {asked}", hint=near.replace("'", "") or f"see the {what}s in the stack file")

    def mine(workload: str) -> bool:
        return wanted.user in ("", stack.workloads[workload].user)

    growing = {one.workload for one in placement.growing}
    allocations = tuple(
        one
        for one in placement.allocations
        if mine(one.workload) and wanted.node in ("", one.node) and (not wanted.pending or one.workload in growing)
    )
    unplaced = tuple(one for one in placement.unplaced if mine(one.workload) and not wanted.node)
    less = placement.model_copy(update={"allocations": allocations, "unplaced": unplaced})
    return replace(view, decision=replace(view.decision, placement=less))


def allocation_rows(view: FleetView) -> Iterator[tuple[object, ...]]:
    """One row per allocation, and one per workload without a place."""
    from swarm_iac.plan.show.rows import health_words

    growing = {one.workload for one in view.decision.placement.growing}
    lighter = {one.workload: one.variant for one in view.decision.placement.lighter}
    for one in sorted(view.decision.placement.allocations, key=lambda one: natural(one.name)):
        seen = view.observed.get(one.node)
        there = view.decision.stack.runs_as(one)
        health = "unreachable" if seen is None or seen.error else health_words(seen, there) or "not there yet"
        health = "not asked" if view.offline else health + _run_time(view, one)
        health = _finished(view, one, health) if one.ended else health
        health += f"; waits to grow: swarm why {one.workload}" if one.workload in growing and not one.ended else ""
        health += f"; variant {lighter[one.workload]}: swarm why {one.workload}" if one.workload in lighter else ""
        live = "live" if one.name in view.live else ""
        apart = filter(None, (live, deciding.split(view.decision.stack, one), device.sharing(one.gpus)))
        health = "; ".join((health, *apart))
        gpus = device.format_devices(one.gpus) or "-"
        request = view.decision.stack.workloads[one.workload]
        yield one.name, request.user, one.node, gpus, deciding.cpus(one, request), deciding.memory(one, request), health
    for gone in view.decision.placement.unplaced:
        user = view.decision.stack.workloads[gone.workload].user
        code = f" ({gone.code})" if gone.code else ""
        yield gone.workload, user, "not placed", "-", "-", "-", f"{len(gone.missing)} missing{code}: swarm why {gone.workload}"


def _finished(view: FleetView, one: Allocation, health: str) -> str:
    """State of a job that has finished according to the lock file, and what it holds."""
    seen, wanted = view.observed.get(one.node), view.desired.get(one.node)
    if not view.offline and seen is not None and wanted is not None and not seen.error:
        if view.decision.stack.runs_as(one) in runs_on(seen, wanted):
            return f"{health}, though it has finished according to the lock file: its resources are not reused before it ends"
        if view.decision.stack.runs_as(one) not in seen.state.allocations:
            return "finished; its files were removed"
    how = health if health.startswith("failed") else "finished"
    return f"{how}; {deciding.kept_of(one)}"


def _run_time(view: FleetView, one: Allocation) -> str:
    """What its time limit says about it, as the end of a cell."""
    seen = view.observed.get(one.node)
    if seen is None or seen.error:
        return ""
    reached = runtimes.limit_reached(seen, view.decision.stack.runs_as(one))
    late = runtimes.late(view.decision.stack, one, seen, view.now)
    return f": {reached}" if reached else f"; {late}" if late else ""


def allocations_json(view: FleetView) -> list[dict[str, Any]]:
    """The same as JSON."""
    answer: list[dict[str, Any]] = []
    growing = {one.workload: one for one in view.decision.placement.growing}
    lighter = {one.workload: one.variant for one in view.decision.placement.lighter}
    for one in view.decision.placement.allocations:
        seen = view.observed.get(one.node)
        health = "unreachable" if seen is None or seen.error else seen.health.get(view.decision.stack.runs_as(one), "absent")
        health = ("finished" if one.ended else "not asked") if view.offline else health
        name, known = view.decision.stack.runs_as(one), seen is not None and not view.offline
        times = {"started": seen.started.get(name), "ended": seen.ends.get(name)} if seen is not None and known else {}
        own = one.model_dump(mode="json", exclude={"ended"}) | ({"finished": True} if one.ended else {})
        own |= {"live": view.live[one.name].reason} if one.name in view.live else {}
        waits = growing.get(one.workload)
        own |= {"waits_to_grow": waits.model_dump(mode="json", exclude={"workload"})} if waits and not one.ended else {}
        own |= {"variant": variant} if (variant := lighter.get(one.workload)) else {}
        own |= {"may_use": most} if (most := ceilings(one, view.decision.stack.workloads[one.workload])) else {}
        answer.append({**own, "health": health, **times})  # `ended`: how, as the node puts it
    answer += [{**gone.model_dump(mode="json"), "health": "unplaced"} for gone in view.decision.placement.unplaced]
    return answer


def differences(view: FleetView) -> list[tuple[str, str]]:
    """All differences between desired and found, by node; an unreachable node counts as one, as does a value not verified.

    A node that is powered off on purpose does not.
    """
    found = [
        (name, f"unreachable: {seen.error.strip()}") for name, seen in view.observed.items() if seen.error and not seen.asleep
    ]
    found += [(name, f"hardware: {words}") for name, words in mismatches(view.observed, view.desired).items()]
    found += [(name, words) for name, seen in view.observed.items() if not seen.error for words in seen.unverified]
    left = (left.step for left in view.plan.deferred if left.cause == "halted")
    for step in (*view.plan.steps, *left):
        if step.changes:
            found += [(step.node, f"{change.path}: {_shown(change.old)} → {_shown(change.new)}") for change in step.changes]
        elif not any(node == step.node for node, _ in found):
            found.append((step.node, f"{step.verb}: {step.why or step.allocation or 'needed'}"))
    return list(dict.fromkeys(found))


def waiting(view: FleetView) -> Iterator[str]:
    """What is asked for and cannot be placed yet, so that no machine differs for it."""
    for gone in view.decision.placement.unplaced:
        yield f"pending: {gone.workload}, {len(gone.missing)} not placed; see: swarm why {gone.workload}"
    for one in view.decision.placement.growing:
        wants = f"keeps {one.keeps} until there is capacity for {one.wants}"
        yield f"pending: {one.workload} {wants}; see: swarm why {one.workload}"


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


def proven(view: FleetView) -> str:
    """How good the placement is, in one line."""
    return deciding.proof_line(view.decision)


HISTORY_HEADS = ("run", "when", "who", "commit", "nodes", "steps", "changed", "failed")


def history(name: str) -> Past:
    """What the nodes of a stack tell of past runs and of memory that they moved."""
    from swarm_iac.observe import history as read

    decision = deciding.current(name)
    targets = {node: one.ssh for node, one in decision.stack.nodes.items() if node not in decision.layer.asleep}
    run = options(decision.root)
    return read(targets, ssh_config=run.ssh_config, timeout=run.node_timeout)


def history_rows(runs: list[PastRun]) -> Iterator[tuple[str, ...]]:
    """Rows below HISTORY_HEADS."""
    for run in runs:
        when = datetime.datetime.fromtimestamp(run.began).strftime("%Y-%m-%d %H:%M:%S")
        failed = ", ".join(name for name, step in run.steps.items() if not step.get("ok")) or "-"
        counts = (str(len(run.steps)), str(run.count("changed")), failed)
        yield (str(run.serial), when, run.who or "-", run.commit or "-", " ".join(run.nodes), *counts)


MOVE_HEADS = ("when", "node", "allocation", "memory.max", "of", "used", "guaranteed")


def move_rows(moves: list[MemoryMove]) -> Iterator[tuple[str, ...]]:
    """Rows below MOVE_HEADS: one for each limit that changed."""
    for one in moves:
        when = datetime.datetime.fromtimestamp(one.t).strftime("%Y-%m-%d %H:%M:%S")
        for name, (before, after) in sorted(one.moved.items()):
            known = (_size(each[name]) if name in each else "-" for each in (one.used, one.guaranteed))
            yield (when, one.node, name, f"{_size(before)} → {_size(after)}", _size(one.lent), *known)


def _size(size: int) -> str:
    return str(Bytes(size // 10**6 * 10**6))


DECISION_HEADS = ("when", "workload or node", "change", "measured", "why")


def decided(name: str, most: int) -> list[dict[str, Any]]:
    """What the autopilot of a stack decided, newest first."""
    from swarm_iac.live import file as live_file
    from swarm_iac.stackfile.locks.companions import existing

    path = existing(repository(), deciding.inside(name)).live
    return live_file.decisions(path, most) if path else []


def decision_rows(found: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Rows below DECISION_HEADS. A line of another version is shown as far as it goes."""
    for one in found:
        when, measured = _number(one.get("at"), 1e11), _number(one.get("measured"), 1e18)
        moment = "-" if when is None else datetime.datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M:%S")
        count = f"{one.get('before', '?')} → {one.get('after', '?')}"
        value = "-" if measured is None else f"{measured:g}"
        yield moment, str(one.get("workload", one.get("node", "-"))), count, value, str(one.get("reason", ""))


def _number(value: object, most: float) -> float | None:
    """Of a line that anybody could have written."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= most else None
