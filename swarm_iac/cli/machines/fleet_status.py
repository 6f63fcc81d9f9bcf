"""What do the machines say, and how does that read beside what is wanted?"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.decisions.deciding import ranges
from swarm_iac.cli.decisions.start_times import starts as pending_starts
from swarm_iac.cli.engine import options
from swarm_iac.cli.machines.believed import believed, disowned
from swarm_iac.decision import Decision, stood
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.model import deadline, device
from swarm_iac.model.hardware import gpu_model
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Node
from swarm_iac.model.state import Desired, Facts, LedgerHead, Observed
from swarm_iac.model.step import Plan
from swarm_iac.model.workload import Workload
from swarm_iac.plan.state import runtimes
from swarm_iac.plan.state.completion import runs_on
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.mismatch import unlike
from swarm_iac.stackfile.reading.messages import nearest

if TYPE_CHECKING:
    from swarm_iac.observe import Run
    from swarm_iac.plan.show.summary import Summary

NODE_HEADS = ("node", "state", "answers", "GPUs", "GPU settings", "settings", "allocations")
ALLOCATION_HEADS = ("allocation", "user", "node", "GPUs", "CPUs", "memory", "health")


@dataclass(frozen=True)
class View:
    """A decision, and the machines beside it."""

    decision: Decision
    desired: Mapping[str, Desired]
    observed: Mapping[str, Observed]
    plan: Plan
    offline: str = ""  # what was taken for the machines, where none was asked
    blank: bool = False  # those are as new: nothing was ever applied
    starts: Mapping[str, str] = field(default_factory=dict)  # when what is pending could start, where that is known
    now: int = 0  # [s since 1970]


def look(
    name: str,
    *,
    offline: bool = False,
    retry: bool = False,
    only: str = "",
    quiet: bool = False,
    planned: bool = True,
) -> View:
    """Decide (for stacks/NAME.yaml, or the file that `name` is), read every machine, and plan.

    Offline: as the lock file leaves them.
    `retry`: roll-outs that halted go on. `only`: the nodes and teams that are to change. Shown on a terminal as it goes
    on, unless `quiet`. Not `planned`: the plan is empty, for who only looks: no order of steps need be safe for that.
    """
    from swarm_iac.cli.terminal.progress import doing, followed
    from swarm_iac.converge import agent_digest
    from swarm_iac.plan import desired, steps
    from swarm_iac.plan.order.temporary_placement import may_stand
    from swarm_iac.plan.state.ownership import given_back
    from swarm_iac.plan.step_graph.partial import only as read_only
    from swarm_iac.stackfile import Loaded
    from swarm_iac.stackfile.checks.warnings import doubts

    ends = None if offline else deciding.asking(name, every=True)
    decision = followed(lambda progress: deciding.current(name, progress, ends=ends), quiet=quiet)
    wanted = desired(decision.stack, decision.placement)
    budget, fits = decision.stack.solve, partial(may_stand, decision.stack)
    chosen = read_only(only, wanted, decision.stack)
    today = datetime.date.today()
    meant = tuple(str(one) for one in doubts(Loaded(decision.stack, decision.source), today))
    if ends is None:
        with doing("planning", quiet=quiet):
            seen = _as_locked(decision, wanted)
            plan = steps(seen, wanted, "", budget, fits, only=chosen) if planned else Plan()
            starts = pending_starts(decision, {}, 0) if planned else {}
            blank, since = deciding.never_applied(decision.root, decision.name), _since(decision)
            return View(decision, wanted, seen, _warned(plan, meant), since, blank, starts)
    with doing(f"asking {len(wanted)} machines", quiet=quiet):
        seen = ends.read(decision.stack, wanted)
    now = int(time.time())
    with doing("planning", quiet=quiet):
        if not planned:
            return View(decision, wanted, believed(decision, wanted, seen)[0], Plan(), now=now)
        seen, named = believed(decision, wanted, disowned(decision, seen))
        plan = steps(seen, wanted, agent_digest(), budget, fits, retry, chosen)
        named = {node: each for node, each in named.items() if chosen is None or node in chosen.nodes}
        meant = (*meant, *runtimes.warnings(decision.stack, decision.placement, seen, now))
        starts = pending_starts(decision, seen, now)
        return View(decision, wanted, seen, _warned(given_back(plan, named), meant), starts=starts, now=now)


def _warned(plan: Plan, more: tuple[str, ...]) -> Plan:
    return plan.model_copy(update={"warnings": (*plan.warnings, *more)}) if more else plan


def guard(view: View, allowed: int) -> Refused | None:
    """The refusal that `up` would end with, if any: see plan.guards."""
    from swarm_iac.plan import guards

    try:
        guards.refuse_rename(view.observed, view.desired)
        stack = view.decision.stack
        guards.refuse_left(_left(view.decision))
        lost = {name for name, node in stack.nodes.items() if node.state == "lost"}
        ran = {name: one.node for name, one in stood(view.decision, datetime.date.today()).items()}
        guards.refuse_unseen(ran, view.observed, view.desired, lost)
        stopped = guards.stopped(view.plan, view.desired)
        guards.refuse_mass_stop(stopped, view.decision.stack.solve.stops, allowed)
        guards.refuse_emptied(stopped, view.desired, allowed)
    except Refused as refused:
        return refused
    return None


def _left(decision: Decision) -> dict[str, list[str]]:
    """What runs by the lock on nodes that left the stack: nobody has their addresses any more, so none is asked."""
    found: dict[str, list[str]] = {}
    if not deciding.never_applied(decision.root, decision.name):
        for one in decision.last.going():
            if one.node not in decision.stack.nodes:
                found.setdefault(one.node, []).append(one.name)
    return found


def _since(decision: Decision) -> str:
    """The lock file, and since when it says so: it is written when something was applied, or solved by hand."""
    if deciding.never_applied(decision.root, decision.name):
        return "machines on which nothing runs, since nothing was ever applied here"
    file = decision.files.lock
    if not decision.last.allocations or not file.is_file():
        return "machines on which nothing runs, since there is no lock file"
    written = datetime.datetime.fromtimestamp(file.stat().st_mtime)
    return f"{file.name} of {written:%Y-%m-%d %H:%M}"


def _as_locked(decision: Decision, wanted: Mapping[str, Desired]) -> dict[str, Observed]:
    """Every machine as it is when all that the lock holds is done and healthy; blank when it holds nothing.

    `wanted`: of the decision, so that a lock that holds is not expanded a second time.
    """
    from swarm_iac.plan import desired

    stack, known = decision.stack, () if deciding.never_applied(decision.root, decision.name) else decision.last.allocations
    known = tuple(one for one in known if one.node in stack.nodes)
    # Of what was taken out of the stack file, an old lock says what it holds, and not whose it was.
    gone = {one.workload: Workload(user=one.user or min(stack.users(), default="nobody")) for one in known}
    # What is drained now was not when the lock was written, else the lock would hold nothing there.
    nodes = {
        name: node.model_copy(update={"state": "ready"}) if node.state == "drain" else node
        for name, node in stack.nodes.items()
    }
    users = {one.workload: one.user for one in known if one.user and one.workload in stack.workloads}
    others = {
        name: stack.workloads[name].model_copy(update={"user": user})
        for name, user in users.items()
        if user != stack.workloads[name].user
    }
    if nodes == stack.nodes and known == decision.placement.allocations and not others:
        was = wanted
    else:
        then = {"nodes": nodes, "workloads": {**gone, **stack.workloads, **others}}
        was = desired(stack.model_copy(update=then), decision.last.model_copy(update={"allocations": known}))
    if not known:
        return {name: Observed(node=name) for name in was}
    return {
        name: Observed(
            node=name,
            ledger=LedgerHead(lineage="", serial=0, fleet=stack.fleet),
            state=one.state,
            health={each: "done" if each in one.ended else "healthy" for each in one.state.allocations},
        )
        for name, one in was.items()
    }


def node_rows(view: View) -> Iterator[tuple[object, ...]]:
    """One row per node."""
    for name, seen in view.observed.items():
        node = view.decision.stack.nodes[name]
        if seen.error:
            yield name, _state(node), seen.error.strip().splitlines()[-1], "-", "-", "-", "-"
            continue
        reached = "not asked" if view.offline else "; ".join(("yes", *seen.troubles, *_times(view, seen)))
        has = view.decision.stack.hardware_of(name).gpus
        cards = (str(has) if has.count else "none") if view.offline else _cards(seen.facts)
        yield (name, _state(node), reached, cards, _gpu_settings(seen), _settings(seen), _held(seen))


def _times(view: View, seen: Observed) -> Iterator[str]:
    """Who runs there longer than was said, and who reached its limit."""
    for one in view.decision.placement.on(seen.node):
        words = _run_time(view, one).lstrip(":; ")
        if words:
            yield f"{one.name} {words}"


def _state(node: Node) -> str:
    return f"drain by {deadline.told(node.drain_by)}" if node.drain_by and node.state == "cordon" else node.state


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
    """Which allocations are to be shown; empty: all."""

    user: str = ""
    node: str = ""
    pending: bool = False


def shown(name: str, wanted: Wanted, *, quiet: bool, offline: bool = False) -> View:
    """As `look`, with only what is wanted. What is pending stands on no machine, so none is asked for it.

    Raises SwarmError for a user or node that the stack file does not have.
    """
    view = look(name, offline=offline or wanted.pending, quiet=quiet, planned=False)
    stack, placement = view.decision.stack, view.decision.placement
    for what, asked, known in (("user", wanted.user, stack.users()), ("node", wanted.node, stack.nodes.keys())):
        if asked and asked not in known:
            near = nearest(asked, known)
            raise SwarmError(f"there is no {what} {asked}", hint=near.replace("'", "") or f"see the {what}s in the stack file")

    def mine(workload: str) -> bool:
        return wanted.user in ("", stack.workloads[workload].user)

    allocations = tuple(
        one for one in placement.allocations if mine(one.workload) and wanted.node in ("", one.node) and not wanted.pending
    )
    unplaced = tuple(one for one in placement.unplaced if mine(one.workload) and not wanted.node)
    less = placement.model_copy(update={"allocations": allocations, "unplaced": unplaced})
    return replace(view, decision=replace(view.decision, placement=less))


def allocation_rows(view: View) -> Iterator[tuple[object, ...]]:
    """One row per allocation, and one per workload without a place."""
    from swarm_iac.plan.show.rows import health_words

    growing = {one.workload for one in view.decision.placement.growing}
    for one in view.decision.placement.allocations:
        seen = view.observed.get(one.node)
        there = view.decision.stack.runs_as(one)
        health = "unreachable" if seen is None or seen.error else health_words(seen, there) or "not there yet"
        health = "not asked" if view.offline else health + _run_time(view, one)
        health = _finished(view, one, health) if one.ended else health
        health += f"; waits to grow: swarm why {one.workload}" if one.workload in growing else ""
        apart = deciding.split(view.decision.stack, one)
        health += f"; {apart}" if apart else ""
        gpus = device.told(one.gpus) or "-"
        cpus = ranges(one.cpus) or (f"{one.vcpus} shared" if one.vcpus else "-")
        user, memory = view.decision.stack.workloads[one.workload].user, one.memory or "-"
        yield one.name, user, one.node, gpus, cpus, memory, health
    for gone in view.decision.placement.unplaced:
        user = view.decision.stack.workloads[gone.workload].user
        code = f" ({gone.code})" if gone.code else ""
        yield gone.workload, user, "not placed", "-", "-", "-", f"{len(gone.missing)} missing{code}: swarm why {gone.workload}"


def _finished(view: View, one: Allocation, health: str) -> str:
    """How a job is that came to its end by the lock file, and what it holds."""
    seen, wanted = view.observed.get(one.node), view.desired.get(one.node)
    if not view.offline and seen is not None and wanted is not None and not seen.error:
        if view.decision.stack.runs_as(one) in runs_on(seen, wanted):
            return f"{health}, though it has ended by the lock file: nobody gets its place before it has"
        if view.decision.stack.runs_as(one) not in seen.state.allocations:
            return "finished; its files are gone"
    how = health if health.startswith("failed") else "finished"
    return f"{how}; {deciding.kept_of(one)}"


def _run_time(view: View, one: Allocation) -> str:
    """What its time has to do with how it is, as the end of a cell."""
    seen = view.observed.get(one.node)
    if seen is None or seen.error:
        return ""
    reached = runtimes.limit_reached(seen, view.decision.stack.runs_as(one))
    late = runtimes.late(view.decision.stack, one, seen, view.now)
    return f": {reached}" if reached else f"; {late}" if late else ""


def allocations_json(view: View) -> list[dict[str, Any]]:
    """The same for machines."""
    answer: list[dict[str, Any]] = []
    for one in view.decision.placement.allocations:
        seen = view.observed.get(one.node)
        health = "unreachable" if seen is None or seen.error else seen.health.get(view.decision.stack.runs_as(one), "absent")
        health = ("finished" if one.ended else "not asked") if view.offline else health
        name, known = view.decision.stack.runs_as(one), seen is not None and not view.offline
        times = {"started": seen.started.get(name), "ended": seen.ends.get(name)} if seen is not None and known else {}
        own = one.model_dump(mode="json", exclude={"ended"}) | ({"finished": True} if one.ended else {})
        answer.append({**own, "health": health, **times})  # `ended`: how, in the node's word
    answer += [{**gone.model_dump(mode="json"), "health": "unplaced"} for gone in view.decision.placement.unplaced]
    return answer


def differences(view: View) -> list[tuple[str, str]]:
    """Every difference between wanted and found, by node; what a node's darkness hides counts as one."""
    found = [(name, f"unreachable: {seen.error.strip()}") for name, seen in view.observed.items() if seen.error]
    found += [(name, f"hardware: {words}") for name, words in unlike(view.observed, view.desired).items()]
    left = (left.step for left in view.plan.left if left.cause == "halted")
    for step in (*view.plan.steps, *left):
        if step.changes:
            found += [(step.node, f"{change.path}: {_shown(change.old)} → {_shown(change.new)}") for change in step.changes]
        elif not any(node == step.node for node, _ in found):
            found.append((step.node, f"{step.verb}: {step.why or step.allocation or 'needed'}"))
    return list(dict.fromkeys(found))


def waiting(view: View) -> Iterator[str]:
    """What is wished and can be nowhere yet, so that no machine differs for it."""
    for gone in view.decision.placement.unplaced:
        yield f"pending: {gone.workload}, {len(gone.missing)} without a place; see: swarm why {gone.workload}"
    for one in view.decision.placement.growing:
        yield f"pending: {one.workload} keeps {one.keeps} until there is room for {one.wants}; see: swarm why {one.workload}"


def _shown(value: Any) -> str:
    return "absent" if value is None else str(value)


def changes(view: View) -> bool:
    """Would `up` change anything, now or as soon as a node answers?"""
    summary: Summary = _context(view).summary(view.plan)
    return summary.changes


def plan_json(view: View) -> dict[str, Any]:
    """The plan for machines."""
    from swarm_iac.plan.show.render import as_json

    return as_json(view.plan, _context(view))


def plan_text(view: View) -> tuple[Any, ...]:
    """The plan for people."""
    from swarm_iac.plan.show.render import text

    return tuple(text(view.plan, _context(view)))


def plan_markdown(view: View) -> str:
    """The plan for a pull request."""
    from swarm_iac.plan.show.markdown import markdown

    return markdown(view.plan, _context(view))


def _context(view: View) -> Any:
    from swarm_iac.plan.show.render import Context

    return Context(
        stack=view.decision.stack,
        before=Placement() if view.blank else view.decision.last,
        after=view.decision.placement,
        proof=view.decision.proof,
        today=datetime.date.today(),
        offline=view.offline,
        starts=view.starts,
    )


def proven(view: View) -> str:
    """What is proven of the placement, in one line."""
    return deciding.proof_line(view.decision)


HISTORY_HEADS = ("run", "when", "who", "commit", "nodes", "steps", "changed", "failed")


def history(name: str) -> tuple[list[Run], dict[str, str]]:
    """Runs on the nodes of a stack, newest first, and the nodes that could not be asked."""
    from swarm_iac.observe import history as read

    decision = deciding.current(name)
    targets = {node: one.ssh for node, one in decision.stack.nodes.items()}
    run = options(decision.root)
    return read(targets, ssh_config=run.ssh_config, timeout=run.node_timeout)


def history_rows(runs: list[Run]) -> Iterator[tuple[str, ...]]:
    """Rows below HISTORY_HEADS."""
    for run in runs:
        when = datetime.datetime.fromtimestamp(run.began).strftime("%Y-%m-%d %H:%M:%S")
        failed = ", ".join(name for name, step in run.steps.items() if not step.get("ok")) or "-"
        counts = (str(len(run.steps)), str(run.count("changed")), failed)
        yield (str(run.serial), when, run.who or "-", run.commit or "-", " ".join(run.nodes), *counts)
