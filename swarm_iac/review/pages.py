"""How is a verdict shown in a browser? The page of each stack's plan, with what the comment says around it: every row."""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.page import Frame, page
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.printable import printable
from swarm_iac.ranges import ranges
from swarm_iac.review.comment import Review, first_screen
from swarm_iac.review.effect import ChangedValue, StackEffect

#: Sections of the first screen that the page of a plan has by itself.
_OWN = ("How good the placement is",)
#: The page counts by team under the same title.
_TITLES = {"Who is affected": "Who is affected, by allocation"}
#: Sections whose entries are alike by the dozen.
_MANY = ("nodes", "workloads")


def pages(review: Review) -> dict[str, str]:
    """The page of each stack whose plan is known, by its name."""
    above = tuple(
        Section(_TITLES.get(one.title, one.title), one.words, one.rows)
        for one in (_refused(review), *first_screen(review))
        if one.title not in _OWN and (one.words or one.rows)
    )
    values = {one.stack: one for one in review.effect.stacks}
    verdict = (
        ("Refused", "stop")
        if review.refused
        else ("Waits for approval", "move")
        if review.needs
        else ("May be merged", "start")
    )
    found = {}
    for one in review.consequences:
        below = Section("What the stack files say, old and new", rows=_values(values[one.now.name]), minor=True)
        found[one.now.name] = page(one.plan, one.context, frame=Frame(verdict, above, (below,)))
    return found


def _refused(review: Review) -> Section:
    return Section("Why it is refused", printable("\n".join(review.refused)))


def _values(stack: StackEffect) -> Rows:
    """Each value that differs; one row for all nodes or workloads of which the same is said, with the first of their places."""
    table = Rows(("where", "path", "old", "new"))
    alike: dict[tuple[str, str, str, str], dict[str, ChangedValue]] = {}
    for one in stack.values:
        section, _, rest = one.path.partition(".")
        name, _, below = rest.partition(".")
        key = (section, below, one.old, one.new) if section in _MANY and below else (one.path, "", one.old, one.new)
        alike.setdefault(key, {}).setdefault(name, one)
    for (section, below, old, new), ones in alike.items():
        first = next(iter(ones.values()))
        table.add(first.place, f"{section}.{_names(ones)}.{below}" if below else first.path, old, new)
    return table


def _names(ones: Mapping[str, ChangedValue]) -> str:
    return next(iter(ones)) if len(ones) == 1 else ranges(ones)
