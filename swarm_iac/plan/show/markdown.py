"""How is a plan shown in a pull request? Markdown, with what only some readers want folded away."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swarm_iac.model.step import Plan
from swarm_iac.plan.show.alike import merged
from swarm_iac.plan.show.render import Context, nothing, sections
from swarm_iac.plan.show.section import Rows, Section

#: Rows of one table, so that a large plan is still a comment: on GitHub one holds 65,536 characters.
MOST = 100
#: Names in a cell that make no range; a terminal shows all.
NAMES = 12
#: What Markdown or a forge would take for more than text: markup, references, people, formulas, addresses, emoji.
_SPECIAL = re.compile(
    r"[\\*\[\]<>|~#@&$`]|(?<!\w)_|_(?!\w)|://|(?<=www)\.|mailto:|!\d|%[\w\"]|\bGH-\d|:[\w+-]+:", re.IGNORECASE
)
#: What makes a list, a heading, a rule, a table, an indented block or a command of the forge of a line that begins so.
_BLOCK = re.compile(r"\s|[-+=:/]|\d+[.)](\s|$)")
#: What a bar behind a backslash is shown as.
BAR = "¦"
_BARS = re.compile(r"(?<=(\\))?\|")


def markdown(plan: Plan, context: Context) -> str:
    """One comment: a line that sums it up, the sections, and that line once more."""
    last = words(f"{context.stack.fleet}: {context.summary(plan).line()}")
    parts = [f"**{_sum(plan, context, last)}**", *(shown(merged(section, NAMES)) for section in sections(plan, context)), last]
    return "\n\n".join(parts) + "\n"


def _sum(plan: Plan, context: Context, last: str) -> str:
    """The last line, too, where anything changes: a list of pull requests shows the first only."""
    return last if plan.steps or context.summary(plan).lost else nothing(plan, context.stack, context.offline)[0]


def words(line: str) -> str:
    """Text as it is, within a sentence: each special character is escaped, as code would break the emphasis around it."""
    return _SPECIAL.sub(lambda found: "".join(f"\\{one}" for one in found[0]), line)


def plain(line: str) -> str:
    """A line as it is, outside of a table. As code where it would mean more: a forge sees people and issues behind escapes."""
    return f"`{_quiet(line)}`" if _SPECIAL.search(line) or _BLOCK.match(line) else line


def shown(section: Section, most: int = MOST, more: str = "`swarm plan`") -> str:
    """One section. `most`: rows of a table, and lines, that are shown; `more`: where the others are."""
    lines = [plain(line) for line in section.words.splitlines() if line.strip()]
    cut = _Cut(most, more)
    body = "\n\n".join(filter(None, ("<br>\n".join(cut.short(lines)), _table(section.rows, cut) if section.rows else "")))
    if section.minor:
        return f"<details><summary>{section.title}</summary>\n\n{body}\n\n</details>"
    return f"### {section.title}\n\n{body}"


@dataclass(frozen=True)
class _Cut:
    """How much is shown, and where the rest is."""

    most: int
    where: str

    def short(self, lines: list[str], gap: str = "") -> list[str]:
        more = len(lines) - self.most
        return lines if more <= 0 else [*lines[: self.most], f"{gap}… and {more} more: {self.where}"]


def _table(rows: Rows, cut: _Cut) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (rows.heads, ("---",) * len(rows.heads))]
    return "\n".join([*lines, *cut.short([f"| {' | '.join(map(_cell, cells))} |" for cells in rows.cells], "\n")])


def _cell(text: str) -> str:
    """Text as it is: as code where it would mean something else."""
    return "<br>".join(_code(line) if _SPECIAL.search(line) else line for line in text.splitlines())


def _code(line: str) -> str:
    """As code within a table, where a bar ends the cell, and one behind a backslash does for some."""
    return f"`{_BARS.sub(lambda found: BAR if found[1] else chr(92) + '|', _quiet(line))}`"


def _quiet(line: str) -> str:
    """What may stand between backticks: none of them, and something beside spaces."""
    return line.replace("`", "'") if line.strip() else "·"
