"""How is a plan shown in a pull request? Markdown, with what only some readers want folded away."""

from __future__ import annotations

import re

from swarm_iac.model.step import Plan
from swarm_iac.plan.render import Context, Rows, Section, moves, nothing, sections

#: Rows of one table, so that a large plan is still a comment: on GitHub one holds 65,536 characters.
MOST = 100
#: What Markdown or a forge would take for more than text: markup, references, people.
_SPECIAL = re.compile(r"[\\*\[\]<>|~#@&]|(?<!\w)_|_(?!\w)|://")


def markdown(plan: Plan, context: Context) -> str:
    """One comment: a line that sums it up, then the sections."""
    parts = [f"**{_sum(plan, context)}**", *(_section(section) for section in sections(plan, context))]
    return "\n\n".join(parts) + "\n"


def _sum(plan: Plan, context: Context) -> str:
    if not plan.steps:
        return nothing(plan, context.stack)[0]
    nodes = len({step.node for step in plan.steps})
    told = [f"{_many(len(plan.steps), 'step')} on {_many(nodes, 'node')}"]
    if moved := len(list(moves(context))):
        told.append(_many(moved, "move"))
    if missing := sum(len(one.missing) for one in context.after.unplaced):
        told.append(f"{_many(missing, 'replica')} without a place")
    return f"{context.stack.fleet}: {', '.join(told)}"


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _section(section: Section) -> str:
    words = [_code(line) if _SPECIAL.search(line) else line for line in section.words.splitlines()]
    body = "\n\n".join(filter(None, ("<br>\n".join(_short(words)), _table(section.rows) if section.rows else "")))
    if section.minor:
        return f"<details><summary>{section.title}</summary>\n\n{body}\n\n</details>"
    return f"### {section.title}\n\n{body}"


def _table(rows: Rows) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (rows.heads, ("---",) * len(rows.heads))]
    return "\n".join([*lines, *_short([f"| {' | '.join(map(_cell, cells))} |" for cells in rows.cells], "\n")])


def _short(lines: list[str], gap: str = "") -> list[str]:
    more = len(lines) - MOST
    return lines if more <= 0 else [*lines[:MOST], f"{gap}… and {more} more: `swarm plan`"]


def _cell(text: str) -> str:
    """Text as it is: as code where it would mean something else."""
    return "<br>".join(_code(line) if "`" in line or _SPECIAL.search(line) else line for line in text.splitlines())


def _code(line: str) -> str:
    return f"`{line.replace('`', chr(39)).replace('|', chr(92) + '|')}`"
