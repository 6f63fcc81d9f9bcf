"""What is on each page? Plain values for the templates, with nothing in them that the viewer may not see."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from swarm_iac.limits import usage
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.pluralize import pluralize
from swarm_iac.web.cards import team_of
from swarm_iac.web.rights import Viewer
from swarm_iac.web.service import LastReading
from swarm_iac.web.standing import Standing

#: Rows of one list; more are found by searching.
MOST = 500
_SEARCH = 100


@dataclass(frozen=True)
class WorkloadRow:
    """One workload in a list. `mine`: whether its page shows everything."""

    name: str
    user: str
    team: str
    state: str
    placed: int
    missing: int
    nodes: str
    mine: bool


def workloads(standing: Standing, viewer: Viewer, search: str = "", pending: bool = False) -> tuple[list[WorkloadRow], int]:
    """The workloads whose name, user, team or node has the words, at most MOST, and how many there are."""
    stack, words = standing.stack, search[:_SEARCH].lower().split()
    here: dict[str, list[Allocation]] = {}
    for one in standing.placement.allocations:
        here.setdefault(one.workload, []).append(one)
    missing = {one.workload: len(one.missing) for one in standing.placement.unplaced}
    growing = {one.workload for one in standing.placement.growing}
    lighter = {one.workload: one.variant for one in standing.placement.lighter}
    rows = []
    for name, workload in stack.workloads.items():
        ones = here.get(name, [])
        going = [one for one in ones if not one.ended]
        state = _state(len(going), missing.get(name, 0), name in growing, bool(ones))
        state += f", variant {lighter[name]}" if name in lighter else ""
        if pending and not (missing.get(name) or name in growing):
            continue
        nodes = sorted({one.node for one in going})
        row = WorkloadRow(
            name, workload.user, team_of(stack, name), state, len(going), missing.get(name, 0), _few(nodes),
            viewer.sees(stack, name),
        )  # fmt: skip
        text = " ".join((name, row.user, row.team, row.state, *nodes)).lower()
        if all(word in text for word in words):
            rows.append(row)
    rows.sort(key=lambda row: (not row.missing, not row.mine, row.name))
    return rows[:MOST], len(rows)


def _state(going: int, missing: int, growing: bool, any_: bool) -> str:
    if missing:
        return "placed in part" if going else "pending"
    return "waits to grow" if growing else "placed" if going else "finished" if any_ else "not decided"


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def workload(standing: Standing, viewer: Viewer, name: str) -> dict[str, Any]:
    """One workload: of another team's only its name, its owner and where it is placed."""
    stack, request = standing.stack, standing.stack.workloads[name]
    mine = viewer.sees(stack, name)
    waits = standing.waits(name)
    found: dict[str, Any] = {
        "name": name, "user": request.user, "team": team_of(stack, name), "mine": mine, "kind": request.kind,
        "allocations": [(one.name, one.node, _pieces(one), _how(standing, one)) for one in standing.of(name)],
        "missing": next((len(one.missing) for one in standing.placement.unplaced if one.workload == name), 0),
        "growing": any(one.workload == name for one in standing.placement.growing),
    }  # fmt: skip
    if not mine:
        return found
    run = request.run
    command = run.command if run else ""
    return found | {
        "command": command if isinstance(command, str) else shlex.join(command),
        "environment": sorted(run.env) if run else [],
        "priority": request.priority,
        "amounts": [(row.noun, str(row.span(one, request))) for one in standing.of(name)[:1] for row in RESOURCES
                    if row.held(one) and not row.pieces and not row.itself],
        "reasons": [reason.text for reason in waits.reasons] if waits else [],
        "live": [(one.name, standing.live[one.name].reason) for one in standing.of(name) if one.name in standing.live],
        "place": str(standing.loaded.source.place(f"workloads.{name}")),
    }  # fmt: skip


def _pieces(one: Allocation) -> str:
    return ", ".join(str(each) for each in one.gpus) or "-"


def _how(standing: Standing, one: Allocation) -> str:
    return "live" if one.name in standing.live else "finished" if one.ended else ""


def node(standing: Standing, viewer: Viewer, name: str, measured: LastReading) -> dict[str, Any]:
    """One node: its state, its cards with their owners, and what it measured."""
    stack, found = standing.stack, standing.stack.nodes[name]
    hardware = stack.hardware[found.hardware]
    seen = (measured.nodes or {}).get(name)
    return {
        "name": name, "state": found.state, "reason": found.reason, "hardware": found.hardware, "rack": found.rack,
        "site": found.site, "gpus": hardware.gpus, "place": str(standing.loaded.source.place(f"nodes.{name}")),
        "allocations": [
            (one.name, one.workload, one.user or "", team_of(stack, one.workload, one.user), _pieces(one), _how(standing, one),
             one.workload in stack.workloads)
            for one in standing.on(name)
        ],
        "measured": seen if seen and not seen["error"] else None,
        "silent": bool(seen and seen["error"]),
        # What a node said of why is for who operates it: it may have words of any process in it.
        "why": seen["error"] if seen and viewer.admin else "",
    }  # fmt: skip


def limits(standing: Standing, viewer: Viewer, today: datetime.date) -> list[tuple[str, str, str, str, int]]:
    """Scope, resource, used, limit and per cent: the fleet and all teams; users only of the viewer's teams."""
    stack = standing.stack
    known = Placement(allocations=tuple(one for one in standing.placement.allocations if one.workload in stack.workloads))
    rows = []
    for one in usage(stack, known, today, teams=True):
        if one.ceiling is None or (one.level == "user" and not _own(viewer, standing, one.subject)):
            continue
        part = round(100 * one.used / one.ceiling) if one.ceiling else 100 * bool(one.used)
        rows.append((f"{one.level} {one.subject}", one.resource, one.used_text, one.ceiling_text, part))
    return rows


def _own(viewer: Viewer, standing: Standing, user: str) -> bool:
    return viewer.admin or user == viewer.name or bool(viewer.teams & set(standing.stack.teams_of(user)))


def runs(document: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Number, time, who, commit, and nodes of each run that `swarm history --json` has. A node says what its time was."""
    for run in document:
        try:
            when = f"{datetime.datetime.fromtimestamp(run['began'], datetime.UTC):%Y-%m-%d %H:%M:%S}"
        except (OverflowError, ValueError, OSError):
            when = "?"
        yield str(run["serial"]), when, run["who"] or "-", run["commit"] or "-", _few(run["nodes"])


def attention(standing: Standing, measured: LastReading) -> Iterator[tuple[str, str]]:
    """What somebody should look at: a link and a sentence."""
    if standing.stale:
        yield "/plan", "the lock does not hold: the files ask for a change that is not applied"
    waits = standing.placement.unplaced
    if waits:
        yield "/pending", f"{pluralize(len(waits), 'workload')} pending"
    for state in ("drain", "cordon", "lost"):
        names = [name for name, each in standing.stack.nodes.items() if each.state == state]
        if names:
            yield f"/nodes/{names[0]}" if len(names) == 1 else "/?by=health", f"{state}: {_few(names)}"
    silent = [name for name, each in (measured.nodes or {}).items() if each["error"]]
    if silent:
        yield "/?by=health", f"no answer from {_few(silent)}"
    gone = [one.name for one in standing.placement.allocations if one.node not in standing.stack.nodes]
    if gone:
        yield "/plan", f"on nodes that left the stack file: {_few(gone)}"
