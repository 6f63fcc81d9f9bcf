"""What would a change do, and how is that shown?"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal.screen import table
from swarm_iac.decision import Decision, Progress, suppose
from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.limits import Usage, limited_models, usage
from swarm_iac.model import cost, deadline
from swarm_iac.model.placement import Allocation, Unplaced
from swarm_iac.model.resources.table import LIMITED, ceilings
from swarm_iac.plan.show import variants
from swarm_iac.solver.explain.move_causes import moved_for
from swarm_iac.stackfile import Loaded, load
from swarm_iac.stackfile.editing.overrides import edited, parse
from swarm_iac.stackfile.locks.companions import Files

_NO_MORE = "no more than it holds"
_HINT = "as in: swarm what-if workloads.chat.replicas=4 nodes.gpu-07.state=ready"


def supposed(now: Decision, edits: Sequence[str], file: Path | None, today: datetime.date, progress: Progress) -> Decision:
    """The decision with the edits (of `file`, if given). Raises StackFileError, LimitExceeded."""
    if not edits and file is None:
        raise StackFileError((Problem(Place("what-if"), "", "there is nothing to change; name an edit or --file", _HINT),))
    base = load(file, today=today) if file else Loaded(deadline.written(now.written), now.source)
    return suppose(now, _with(base, edits, today), today=today, progress=progress)


def check(name: str, edits: Sequence[str], file: Path | None, today: datetime.date) -> None:
    """Check the edits before anything is solved. Raises StackFileError."""
    of = deciding.home(name)
    path = file or (Files.of(*of).stack if of else Path(name))
    if path.is_file():  # a missing file is reported by the solve
        _with(load(path, today=today), edits, today)


def _with(base: Loaded, edits: Sequence[str], today: datetime.date) -> Loaded:
    changes = [edit for text in edits for edit in parse(text)]
    return edited(base, changes) if changes else base


def sections(now: Decision, then: Decision, today: datetime.date) -> Iterator[RenderableType]:
    """The difference as text."""
    changes = list(placement_rows(now, then))
    if changes:
        yield table("placement", ("allocation", "user", "before", "after", ""), changes)
    else:
        yield Text("Every allocation stays as it is.\n", style="green")
    moves = [(reason.text,) for reason in _moves(then, today)]
    if moves:
        yield table("what moves or stops, and why", ("",), moves)
    unplaced = list(unplaced_rows(now, then))
    if unplaced:
        yield table("not placed", ("workload", "missing before", "after", "because"), unplaced)
    if then.placement.growing:
        heads = ("workload", "keeps", "wants", "because")
        yield table("keeps its size until there is capacity", heads, deciding.growing_rows(then))
    if lighter := list(variants.rows(then.last, then.placement)):
        yield table("runs in a lighter variant, or changes its own", variants.HEADS, lighter)
    limits = [
        (f"{one.level} {one.subject}", one.resource, before.used_text, one.used_text, _ceilings(before, one))
        for before, one in _usages(now, then, today)
    ]
    if limits:
        yield table("limits", ("limit of", "resource", "before", "after", "ceiling"), limits)
    if line := _cost_line(now, then):
        yield Text(line)


def changes(now: Decision, then: Decision) -> bool:
    """Would any allocation be placed elsewhere, or may use more or less? What is pending changes nothing by itself."""
    return any(True for _ in placement_rows(now, then))


def as_json(now: Decision, then: Decision, edits: Sequence[str], today: datetime.date) -> dict[str, Any]:
    """The difference as JSON."""
    before, after = cost.cost(now.stack, now.last), cost.cost(then.stack, then.placement)
    heads = ("allocation", "user", "before", "after", "note")
    return {
        "edits": list(edits),
        "before": deciding.decision_json(now),
        "after": deciding.decision_json(then),
        "changes": [dict(zip(heads, row, strict=True)) for row in placement_rows(now, then)],
        "moves": [reason.model_dump() for reason in _moves(then, today)],
        "variants": variants.as_json(then.last, then.placement),
        "limits": [
            {**one.model_dump(), "before": was.used, "ceiling_before": was.ceiling} for was, one in _usages(now, then, today)
        ],
        "cost": {
            "before": str(before) if before else None,
            "after": str(after) if after else None,
            "difference": str(after - before) if before and after and before.currency == after.currency else None,
        },
    }


def placement_rows(now: Decision, then: Decision) -> Iterator[tuple[str, str, str, str, str]]:
    """One row for each allocation that would be placed elsewhere than it runs, or with another size or ceiling.

    Marked: what would change without the edit as well, since the stack file is not applied yet.
    """
    before, after, anyway = now.last.by_name(), then.placement.by_name(), now.placement.by_name()
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        most, usual = _may_use(new, then), _may_use(old, now)
        if old == new and most == usual:
            continue
        one = new or old
        assert one is not None
        request = then.stack.workloads.get(one.workload) or now.stack.workloads.get(one.workload)
        if new is None:
            note, without = _ends(one, then), _ends(one, now)
        else:
            note = without = "new" if old is None else "moves" if old.node != new.node else "other resources"
        if old == new:
            note = f"may use {most or _NO_MORE} instead of {usual or _NO_MORE}"
        elif anyway.get(name) == new:
            note += " (also without the edit)" if note == without else f"; without the edit: {without}"
        note += f", {most}" if most and old != new else ""
        yield name, request.user if request else "-", old.node if old else "-", new.node if new else "-", note


def _may_use(one: Allocation | None, of: Decision) -> str:
    """What an allocation may use beyond what it holds."""
    known = one is not None and one.workload in of.stack.workloads
    return ", ".join(ceilings(one, of.stack.workloads[one.workload]).values()) if one and known else ""


def _ends(one: Allocation, of: Decision) -> str:
    """Why an allocation is no longer placed."""
    request = of.stack.workloads.get(one.workload)
    return "no longer requested" if request is None or one.index >= request.members else "loses its slot"


def unplaced_rows(now: Decision, then: Decision) -> Iterator[tuple[object, ...]]:
    """One row for each workload that is pending before or after."""
    before, after = _by_workload(now), _by_workload(then)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        why = deciding.because(new) if new else "placed" if name in then.stack.workloads else "-"
        yield name, len(old.missing) if old else 0, len(new.missing) if new else 0, why


def _by_workload(decision: Decision) -> dict[str, Unplaced]:
    return {one.workload: one for one in decision.placement.unplaced}


def _moves(then: Decision, today: datetime.date) -> list[Any]:
    now = then.placement.by_name()
    changed = (one for one in then.last.allocations if one.name not in now or _differ(one, now[one.name]))
    moved = {one.workload for one in changed if one.workload in then.stack.workloads}
    return [
        reason for name in sorted(moved) for reason in moved_for(then.stack, then.placement, name, then.last, today)
    ]  # fmt: skip


def _differ(was: Allocation, now: Allocation) -> bool:
    return (was.node, was.gpus) != (now.node, now.gpus)


def _usages(now: Decision, then: Decision, today: datetime.date) -> Iterator[tuple[Usage, Usage]]:
    """Each limit whose use or value would change."""
    before = {
        (one.level, one.subject, one.resource): one
        for one in usage(now.stack, now.last, today, models=limited_models(then.stack))
    }
    for one in usage(then.stack, then.placement, today):
        was = before.get((one.level, one.subject, one.resource)) or one.model_copy(update={"used": 0})
        told = not LIMITED[one.noun.key][0].itself or (was.ceiling, one.ceiling) != (None, None)
        if told and (was.used, was.ceiling) != (one.used, one.ceiling):
            yield was, one


def _ceilings(before: Usage, after: Usage) -> str:
    old, new = before.ceiling_text or "none", after.ceiling_text or "none"
    return new if old == new else f"{old} → {new}"


def _cost_line(now: Decision, then: Decision) -> str:
    before, after = cost.cost(now.stack, now.last), cost.cost(then.stack, then.placement)
    if after is None:
        return "" if before is None else f"cost: {before}, and no prices after"
    if before is None or before.currency != after.currency:
        return f"cost: {after}"
    return f"cost: {cost.difference(before, after)}{cost.without_price(then.stack, then.placement)}"
