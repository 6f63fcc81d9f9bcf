"""How is a plan shown: to people as tables, to machines as JSON? `sections` is what every renderer for people has to say."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from swarm_iac.limits import Usage, usage_before_and_after
from swarm_iac.model import cost, deadline
from swarm_iac.model.goals.words import goal_texts
from swarm_iac.model.placement import Placement, Proof, Waiting
from swarm_iac.model.resources.table import ENFORCED, ceilings
from swarm_iac.model.stack import Stack
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.show import power_limits, variants
from swarm_iac.plan.show.alike import merged
from swarm_iac.plan.show.causes import why_moved, why_stopped
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.plan.show.summary import Summary, given_up, pending, summary
from swarm_iac.plan.show.unreachable import unreachable, warnings
from swarm_iac.plan.show.wave_rows import waves
from swarm_iac.plan.state import cpulist, format
from swarm_iac.printable import printable
from swarm_iac.ranges import natural

#: Of an allocation that comes or goes, what is worth a line, and the resource that it is; its row in Pulumi has the rest.
_TELLING = {**{next(iter(how.at)): row.name for row, how in ENFORCED if how.in_line}, "unit.command": ""}
#: Of these what is lent is a part of the figure, so the range stands beside it.
_LENT = frozenset(next(iter(how.at)) for row, how in ENFORCED if row.ceiling and not how.ceiling)

#: In place of a value that only its machine could tell.
_NOT_ASKED = "not asked"
#: Of the first two letters of a cell: what comes, what goes.
_STYLES = {"+ ": "green", "- ": "red"}


@dataclass(frozen=True)
class Context:
    """What stands beside a plan: the stack, the placement before and after, and how good it is (None: stale).

    `today`: decides which exceptions to limits hold; None: all. `offline`: what was taken for the machines, where none was
    asked. `starts`: when what is pending could start or grow, where that is known.
    """

    stack: Stack
    before: Placement
    after: Placement
    proof: Proof | None = None
    today: datetime.date | None = None
    offline: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)

    @property
    def from_lock(self) -> bool:
        """Is it a lock alone that stands in for the machines?"""
        return ".lock.yaml of " in self.offline and not self.offline.startswith("machines on which nothing runs")

    @cached_property
    def stops(self) -> dict[str, str]:
        """Why each allocation stops that ran and is placed no more."""
        return why_stopped(self.stack, self.before, self.after, self.today)

    @cached_property
    def moved(self) -> dict[str, str]:
        """Why each allocation leaves its node that ran and is placed on another."""
        return why_moved(self.stack, self.before, self.after, self.today)

    @cached_property
    def lent(self) -> dict[str, dict[str, str]]:
        """By name on its node, what each allocation may use beyond what it holds, by resource, where that is anything."""
        named = ((self.stack.runs_as(one), ceilings(one, self.stack.workloads[one.workload])) for one in self.after.going())
        return {name: most for name, most in named if most}

    def summary(self, plan: Plan) -> Summary:
        """What the plan comes to."""
        found = summary(plan, self.stops, pending(self.after))
        lost = given_up(self.stack, self.before, self.after)
        return found.model_copy(update={"lost": {name: why for name, why in lost.items() if name not in found.stop}})


def nothing(plan: Plan, stack: Stack, offline: str = "") -> tuple[str, str]:
    """What to say of a plan without a step, and its style: silence is no consent."""
    if offline:
        return (
            f"Nothing to change against {offline}; no machine was asked, so commands and settings are not compared.",
            "yellow",
        )
    silent = len(unreachable(plan))
    asked = sum(node.state != "lost" for node in stack.nodes.values())
    if silent and silent >= asked:
        return "No node answered, so nobody knows what would change; --offline plans from the lock file.", "yellow"
    if plan.deferred:
        return "Nothing that can be changed now.", "yellow"
    return "Nothing to change: every node that answered is as desired.", "yellow" if silent else "green"


def sections(plan: Plan, context: Context) -> tuple[Section, ...]:
    """All a plan has to say, from its changes and moves to the bound and the warnings. Empty ones are left out."""
    costs = cost.format_change(context.stack, context.before, context.after)
    asked = f"Compared with {context.offline}{', which has no commands and no settings' if context.from_lock else ''}."
    every = (
        Section("No machine was asked", asked if plan.steps and context.offline else ""),
        Section("What changes", rows=_changes(plan, context)),
        Section("What moves, and why", rows=_moves(context)),
        Section("What stops, and why", rows=_stops(plan, context)),
        Section("Drains that wait", rows=_drains(context)),
        Section("What waits for what", rows=waves(plan), minor=True),
        Section("What is left for later", rows=_left(plan)),
        Section("What is not placed", rows=_unplaced(context)),
        Section("What keeps its size until it can grow", rows=_growing(context)),
        Section("What runs in a lighter variant, or changes its own", rows=_variants(context)),
        Section("Limits, before and after", rows=_limits(context), minor=True),
        Section("Power limits that a power budget lowers", rows=_power(plan, context)),
        Section("What it costs per hour", costs),
        _bound(context.proof, context.stack),
        Section("Warnings", printable("\n".join(warnings(plan, context.stack))), style="yellow"),
    )
    return tuple(section for section in every if section.words or (section.rows and section.rows.cells))


def text(plan: Plan, context: Context) -> tuple[RenderableType, ...]:
    """The sections as tables for a terminal, and a last line that sums them up."""
    found = context.summary(plan)
    words, style = nothing(plan, context.stack, context.offline)
    words = "No machine is changed; what ran on a machine that is given up has no other place." if found.lost else words
    silent = () if plan.steps else (Text(f"{words}\n", style),)
    last = Text(f"{context.stack.fleet}: {found.line()}", style="bold")
    return (*silent, *(shown(merged(section)) for section in sections(plan, context)), last)


def as_json(plan: Plan, context: Context) -> dict[str, Any]:
    """The same for machines; quantities of limits in base units."""
    found = context.summary(plan)
    return {
        "summary": {**found.model_dump(mode="json"), "line": found.line()},
        "offline": context.offline or None,
        "steps": [_step_json(step, context) for step in plan.steps],
        "waves": [[step.id for step in wave] for wave in plan.waves()],
        "deferred": [{"step": left.step.id, "why": left.why} for left in plan.deferred],
        "moves": [dict(zip(("allocation", "from", "to", "why"), move, strict=True)) for move in moves(context)],
        "unplaced": [
            each.model_dump(mode="json") | {"start": context.starts.get(each.workload)} for each in context.after.unplaced
        ],
        "growing": [
            each.model_dump(mode="json") | {"start": context.starts.get(each.workload)} for each in context.after.growing
        ],
        "variants": variants.as_json(context.before, context.after),
        "limits": [
            {**after.model_dump(mode="json"), "before": before.used} for before, after in _usages(context)
        ],
        "cost": cost.as_json(context.stack, context.before, context.after),
        "proof": context.proof.model_dump(mode="json") if context.proof else None,
        "warnings": list(plan.warnings),
    }  # fmt: skip


def moves(context: Context) -> Iterator[tuple[str, str, str, str]]:
    """Allocation, old node, new node, and why: what the stack says of the old node, else who takes its place."""
    before = context.before.by_name()
    for name, one in sorted(context.after.by_name().items(), key=lambda pair: natural(pair[0])):
        old = before.get(name)
        if old is not None and old.node != one.node:
            yield name, old.node, one.node, context.moved[name]


def shown(section: Section) -> Group:
    """One section for a terminal."""
    parts: list[RenderableType] = [Text(section.words, style=section.style)] if section.words else []
    if section.rows:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for head in section.rows.heads:
            table.add_column(head, overflow="fold")
        for cells in section.rows.cells:
            table.add_row(*(Text(cell, style=_STYLES.get(cell[:2], "")) for cell in cells))
        parts.append(table)
    return Group(Text(section.title, style="bold"), Padding(Group(*parts), (0, 0, 1, 2)))


def _changes(plan: Plan, context: Context) -> Rows:
    """One line per value; an allocation that comes or goes is one line."""
    table = Rows(("node", "what", "old", "new"))
    whole: dict[tuple[str, str], str] = {}
    for step in plan.steps:
        new = any(change.old is None and change.path.endswith(".slice.cpu_weight") for change in step.changes)
        if step.verb is Verb.RELEASE or new:
            whole[step.node, step.allocation] = _step_why(step, context)
    by_node: dict[str, list[Step]] = {}
    of: dict[tuple[str, str], list[Step]] = {}
    for step in plan.steps:
        by_node.setdefault(step.node, []).append(step)
        of.setdefault((step.node, step.allocation), []).append(step)
    shown: dict[str, list[tuple[str, str]]] = {}
    for (node, name), why in sorted(whole.items(), key=lambda pair: natural(pair[0][1])):
        shown.setdefault(node, []).append((name, why))
    for node, mine in sorted(by_node.items()):
        _cards(table, node, mine, context)
        for step in mine:
            if (node, step.allocation) not in whole and step.verb is not Verb.GPUS:
                _values(table, step)
        for name, why in shown.get(node, ()):
            _whole(table, node, name, why, of[node, name], context)
    return table


def _step_json(step: Step, context: Context) -> dict[str, Any]:
    """With no old value where nobody knows it, as in `_cards`."""
    found = step.model_dump(mode="json")
    if context.from_lock and step.verb is Verb.GPUS:
        found["changes"] = [{**change, "old": None} for change in found["changes"]]
    return found


def _cards(table: Rows, node: str, mine: list[Step], context: Context) -> None:
    """One line for all GPUs whose setting changes alike.

    A lock says of no GPU how it is set. What the stack file of now would have set there is no value that ever held.
    """
    alike: dict[tuple[str, str, str], list[int]] = {}
    for change in (change for step in mine if step.verb is Verb.GPUS for change in step.changes):
        found = re.fullmatch(r"gpus\[(\d+)\]\.(\w+)", change.path)
        if found:
            what = found[2].rpartition("_")[0] or found[2]
            old = _NOT_ASKED if context.from_lock else format.value(change.path, change.old)
            line = (what, old, format.value(change.path, change.new))
            alike.setdefault(line, []).append(int(found[1]))
    for (what, old, new), gpus in sorted(alike.items()):
        table.add(node, f"gpu {cpulist.write(gpus)}: {what}", old, new)


def _values(table: Rows, step: Step) -> None:
    if not step.changes and step.verb in (Verb.STOP, Verb.PREPARE, Verb.RESTORE):
        table.add(step.node, " ".join(filter(None, (step.verb.value, step.allocation))), "", step.why)
    for change in step.changes:
        table.add(step.node, short(change.path), format.value(change.path, change.old), format.value(change.path, change.new))


def _whole(table: Rows, node: str, name: str, why: str, mine: list[Step], context: Context) -> None:
    goes = any(step.verb is Verb.RELEASE for step in mine)
    changes = {change.path.rpartition('"].')[2]: change for step in mine for change in step.changes}
    lent = {} if goes else context.lent.get(name, {})
    parts = [
        f"{field.rpartition('.')[2] if '.' in field else field} {format.value(field, change.old if goes else change.new)}"
        for field, resource in _TELLING.items()
        if (resource not in lent or field in _LENT) and (change := changes.get(field)) is not None
        if (change.old if goes else change.new) != 0  # of what the node limits for all, who has none
    ]
    parts[:0] = lent.values()
    table.add(node, f"{'-' if goes else '+'} {name}",
              ", ".join(parts) if goes else "", why if goes else f"{', '.join(parts)} ({why})")  # fmt: skip


def short(path: str) -> str:
    """`allocations["chat-0"].slice.memory_max` as `chat-0: memory max`; a sysctl as its name."""
    allocation = re.fullmatch(r'allocations\["([^"]+)"\]\.(.+)', path)
    if allocation:
        field = allocation[2].removeprefix("slice.").removeprefix("unit.").removesuffix("_s")
        return f"{allocation[1]}: {field.replace('_', ' ')}"
    return format.setting(path)


def _step_why(step: Step, context: Context) -> str:
    """Why it is taken. Of what is placed nowhere any more, the decision says more than the step."""
    return (context.stops.get(step.allocation) if step.verb in (Verb.STOP, Verb.RELEASE) else None) or step.why


def _stops(plan: Plan, context: Context) -> Rows:
    """One line for each allocation that stops for good, with its node."""
    table = Rows(("allocation", "on", "why"))
    nodes = {step.allocation: step.node for step in plan.steps if step.verb in (Verb.STOP, Verb.RELEASE)}
    for name, why in context.summary(plan).stop.items():
        table.add(name, nodes[name], why)
    return table


def _moves(context: Context) -> Rows:
    table = Rows(("allocation", "from", "to", "why"))
    for move in moves(context):
        table.add(*move)
    return table


def _drains(context: Context) -> Rows:
    table = Rows(("node", "by", "until then it keeps", "why"))
    for node in deadline.waiting(context.stack):
        kept = [one.name for one in context.after.going() if one.node == node.name]
        assert node.drain_by is not None
        table.add(node.name, deadline.format_moment(node.drain_by), ", ".join(kept) or "nothing", node.reason)
    return table


def _left(plan: Plan) -> Rows:
    """One line for each node and reason."""
    table = Rows(("node", "steps", "why"))
    alike: dict[tuple[str, str], list[str]] = {}
    for left in plan.deferred:
        if left.cause in ("halted", "part"):  # of the others the warnings speak
            alike.setdefault((left.step.node, left.why), []).append(left.step.id.partition("/")[2])
    for (node, why), steps in sorted(alike.items()):
        table.add(node, ", ".join(steps), why)
    return table


def _unplaced(context: Context) -> Rows:
    table = Rows(("workload", "missing", "because"))
    for one in context.after.unplaced:
        table.add(one.workload, str(len(one.missing)), _because(one, context.starts.get(one.workload, "")))
    return table


def _growing(context: Context) -> Rows:
    table = Rows(("workload", "keeps", "wants", "because"))
    for one in context.after.growing:
        table.add(one.workload, one.keeps, one.wants, _because(one, context.starts.get(one.workload, "")))
    return table


def _variants(context: Context) -> Rows:
    return Rows(variants.HEADS, list(variants.rows(context.before, context.after)))


def _because(one: Waiting, start: str = "") -> str:
    lines = [f"{reason.text} ({reason.path or reason.rule})" for reason in one.reasons]
    return "\n".join([*lines, *filter(None, (one.nodes, start))])


def _usages(context: Context, *, limited: bool = False) -> list[tuple[Usage, Usage]]:
    """Each ceiling before and after; before with today's limits, so the two compare."""
    return usage_before_and_after(context.stack, context.before, context.after, context.today, limited=limited)


def _limits(context: Context) -> Rows:
    """The cluster, and every user or node whose use changes or is above its ceiling."""
    table = Rows(("limit of", "resource", "before", "after", "ceiling"))
    for before, after in _usages(context, limited=True):
        if after.ceiling is None or not (before.used or after.used):
            continue
        if after.level == "cluster" or before.used != after.used or after.used > after.ceiling:
            subject = f"{after.level} {after.subject}"
            table.add(subject, after.resource, before.used_text, after.used_text, after.ceiling_text)
    return table


def _power(plan: Plan, context: Context) -> Rows:
    """Where GPUs are set: whose range is lowered."""
    table = Rows(power_limits.HEADS)
    for row in power_limits.lowered(context.stack, context.after) if any(s.verb is Verb.GPUS for s in plan.steps) else ():
        table.add(*row)
    return table


def _bound(proof: Proof | None, stack: Stack) -> Section:
    title = "How good the placement is"
    if proof is None:
        return Section(
            title,
            "stale: it was proven for another placement or another stack file; `swarm solve` proves it again",
            style="yellow",
        )
    table = Rows(("goal", "priority", "reached", "at best"))
    for goal in goal_texts(proof.goals, stack):
        table.add(goal.several, goal.priority, goal.reached, goal.best)
    verdict = "optimal" if proof.optimal else "not proven optimal"
    return Section(title, f"{verdict}, by {proof.solver}", table, minor=True)
