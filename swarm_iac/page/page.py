"""How is a plan shown in a browser? One file without any request: what it shows is in it, and it may fetch nothing.

User's text is data: jinja2 escapes all of it, and the policy of the page allows just this script and this style, by digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from swarm_iac import __version__
from swarm_iac.model import cost
from swarm_iac.model.step import Plan
from swarm_iac.page.fleet_map import FleetMap, RackMap
from swarm_iac.plan.show.alike import grouped
from swarm_iac.plan.show.render import Context, nothing, sections
from swarm_iac.plan.show.section import Section
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable

_TEMPLATE = Path(__file__).with_name("template")
#: Up to so many nodes each card is wide enough for a name.
_WIDE = 64
#: How what becomes of allocations is called above the map.
_COUNTED = {
    "start": "to start", "move": "to move", "restart": "to restart", "stop": "to stop", "change": "to change in place",
    "settings": "nodes to configure", "later": "steps deferred", "pending": "pending",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A row of a table, and the position of the team that it is about, if it is about one."""

    cells: tuple[str, ...]
    team: int | None = None


@dataclass(frozen=True)
class PageSection:
    """A section with its rows; those that say the same of several nodes are one."""

    title: str
    words: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    minor: bool
    warns: bool


@dataclass(frozen=True)
class Frame:
    """What a page is about beside its plan. `verdict`: in a few words, and the kind by whose colour it is shown."""

    verdict: tuple[str, str]
    above: tuple[Section, ...]
    below: tuple[Section, ...]


def page(plan: Plan, context: Context, *, refused: str = "", frame: Frame | None = None, details: bool = True) -> str:
    """The page. `refused`: why `swarm up` would refuse the plan, if it would; `frame`: where it is not about the plan alone.

    Without `details` it is the map with its counts: names of nodes, teams and allocations, and no value, command or reason.
    """
    fleet = FleetMap(plan, context)
    racks = fleet.racks()
    nodes = [node for rack in racks for node in rack.nodes]
    style = _asset("page.css") + _places(racks)
    script = _asset("page.js")
    return _template().render(
        fleet=fleet, racks=racks, counts=_counts(fleet), count=len(nodes),
        above=_parts(fleet, frame.above) if frame else [],
        parts=_parts(fleet, (*sections(plan, context), *(frame.below if frame else ()))) if details else [],
        same=sum(node.same for node in nodes), wide=len(nodes) <= _WIDE,
        verdict=frame.verdict if frame else _verdict(fleet, refused),
        refused=printable(refused), facts=_facts(fleet), line=fleet.summary.line(), name=context.stack.fleet,
        today=context.today, version=__version__, style=Markup(style), script=Markup(script),
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )  # fmt: skip


@cache
def _template() -> Template:
    loader = FileSystemLoader(_TEMPLATE)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["pluralize"] = pluralize
    return environment.get_template("page.html")


@cache
def _asset(name: str) -> str:
    """A file of ours; nothing of a user is in it."""
    return (_TEMPLATE / name).read_text()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _places(racks: tuple[RackMap, ...]) -> str:
    """Classes for where a block begins and how many cards it covers: the policy allows no `style` in an element."""
    most = max((node.cards for rack in racks for node in rack.nodes), default=0)
    each = "".join(f".c{i}{{grid-column-start:{i + 1}}}" for i in range(most))
    each += "".join(f".w{i}{{grid-column-end:span {i}}}" for i in range(2, most + 1))
    return each + "".join(f".n{i}{{--n:{i}}}" for i in range(1, most + 1))


def _verdict(fleet: FleetMap, refused: str) -> tuple[str, str]:
    """In a few words what kind of change this is, and the kind by whose colour it is shown."""
    found = fleet.summary
    if refused:
        return "Refused", "stop"
    if found.stop or found.lost:
        many = len(found.stop) + len(found.lost)
        return f"Stops {pluralize(many, 'allocation')}", "stop"
    if found.move or found.restart:
        return "Interrupts what runs: moves or restarts, and no stop", "move"
    if found.changes:
        return "Interrupts nothing that runs", "start"
    words, style = nothing(fleet.plan, fleet.context.stack, fleet.context.offline)
    return words, "change" if style == "yellow" else ""


def _counts(fleet: FleetMap) -> list[tuple[str, int, str]]:
    """Kind, number and words of what there is any of."""
    found = fleet.summary
    numbers = {
        "start": len(found.start), "move": len(found.move), "restart": len(found.restart),
        "stop": len(found.stop) + len(found.lost), "change": len(found.change),
        "settings": len(found.configure) + len(found.restore), "later": found.deferred, "pending": found.pending,
    }  # fmt: skip
    words = {kind: _COUNTED[kind].replace("s ", " ", 1) if number == 1 else _COUNTED[kind] for kind, number in numbers.items()}
    return [(kind, number, words[kind]) for kind, number in numbers.items() if number]


def _facts(fleet: FleetMap) -> list[str]:
    """What it costs, how good the placement is, and what was taken for the machines, a line each."""
    context, proof = fleet.context, fleet.context.proof
    money = cost.format_change(context.stack, context.before, context.after)
    quality = "not proven (stale)" if proof is None else "proven optimal" if proof.optimal else "not proven optimal"
    return [
        *([f"Cost: {money}"] if money else []),
        f"Placement: {quality}",
        *([f"No machine was asked: compared with {context.offline}"] if context.offline else []),
    ]


def _parts(fleet: FleetMap, shown: Iterable[Section]) -> list[PageSection]:
    context = fleet.context
    teams = {
        one.name: fleet.team_of(one.workload, one.user) for one in (*context.before.allocations, *context.after.allocations)
    }
    teams |= {name: fleet.team_of(name) for name in context.stack.workloads}
    return [_part(section, teams) for section in shown]


def _part(section: Section, teams: dict[str, int]) -> PageSection:
    heads = section.rows.heads if section.rows else ()
    rows = section.rows.cells if section.rows else []
    pairs = grouped(rows, heads.index("node"), 1) if "node" in heads else [(cells, cells) for cells in rows]
    lines = tuple(Line(cells, _team(first, teams)) for cells, first in pairs)
    return PageSection(section.title, section.words, heads, lines, section.minor, section.style == "yellow")


def _team(cells: tuple[str, ...], teams: dict[str, int]) -> int | None:
    """Whose allocation or workload the first two cells name, if they do."""
    for cell in cells[:2]:
        name = cell[2:] if cell[:2] in ("+ ", "- ") else cell.partition(":")[0]
        if name in teams:
            return teams[name]
    return None
