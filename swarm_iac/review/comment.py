"""How does a forge show the answer? One comment of Markdown, that reads as plain text as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swarm_iac.model.goals.words import goal_texts
from swarm_iac.plan.show.alike import merged
from swarm_iac.plan.show.markdown import NAMES, plain, shown, words
from swarm_iac.plan.show.render import sections
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.printable import printable
from swarm_iac.review.approvals import QUOTED, Dismissed
from swarm_iac.review.consequences import Consequences
from swarm_iac.review.effect import AllocationEffect, Becomes, Effect, moves
from swarm_iac.review.judgement import Need

#: Characters of a comment; a forge that takes the least takes 65,536.
MOST = 60_000
#: Rows that a table has at first, and fewer until it all fits.
_ROWS = (100, 50, 25, 12, 6, 3, 1, 0)
_DEEDS: tuple[tuple[Becomes, str], ...] = (
    ("started", "start"), ("moved", "move"), ("restarted", "restart"), ("stopped", "stop"), ("changed", "change in place"),
)  # fmt: skip
#: How a comment is found again, and an approval bound: the first line, which nobody sees.
MARKER = "<!-- swarm-pr"


@dataclass(frozen=True)
class Review:
    """All that a comment tells. `notes`: what holds beside it, a line each; `approved`: accounts whose approvals hold."""

    head: str
    base: str
    effect: Effect
    refused: tuple[str, ...]
    needs: tuple[Need, ...]
    dismissed: tuple[Dismissed, ...]
    approved: tuple[str, ...]
    notes: tuple[str, ...]
    consequences: tuple[Consequences, ...]

    @property
    def summary(self) -> str:
        """One line: the verdict, and what would happen."""
        parts = []
        if self.refused:
            parts.append(f"refused: {_first(self.refused)}")
        if self.needs:
            parts.append(f"needs {_approvals(self.needs)}")
        if not parts:
            parts.append("may be merged")
        return printable(f"{'; '.join(parts)} ({self.deeds})")

    @property
    def deeds(self) -> str:
        """`2 to start, 1 to stop, 1 to move`, over all stacks."""
        counts = {word: sum(len(stack.of(becomes)) for stack in self.effect.stacks) for becomes, word in _DEEDS}
        found = [f"{count} to {word}" for word, count in counts.items() if count]
        return ", ".join(found) or "no allocation changes"


def comment(review: Review) -> str:
    """The comment, under MOST characters."""
    more = "the page has them all" if review.consequences else "`swarm pr check --json` has them all"
    for rows in _ROWS:
        text = _written(review, rows, more)
        if len(text) <= MOST:
            return text
    short = _written(review, 0, more, folded=False)
    return short[:MOST].rpartition("\n")[0] + "\n"


def marker(review: Review) -> str:
    """The first line."""
    return f"{MARKER} head={review.head} base={review.base} effect={review.effect.digest} -->"


def _written(review: Review, most: int, more: str, *, folded: bool = True) -> str:
    every = (*first_screen(review), *(_folded(review) if folded else ()))
    verdict = "**Refused**" if review.refused else "**Waits for approval**" if review.needs else "**May be merged**"
    lines = [marker(review), f"{verdict}: {words(review.deeds)}."]
    refused = (printable(one).splitlines() for one in (*review.refused[:QUOTED], *_rest(review.refused)))
    lines += ["- " + "\n  ".join(map(plain, filter(None, map(str.strip, one)))) for one in refused]
    return "\n\n".join([*lines, *(shown(section, most, more) for section in every), _foot(review)]) + "\n"


def _rest(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > QUOTED:
        yield f"and {len(lines) - QUOTED} more"


def _foot(review: Review) -> str:
    return f"Head {review.head[:12]} merged into {review.base[:12]}; effect {review.effect.digest}."


def first_screen(review: Review) -> tuple[Section, ...]:
    """What matters, the most important first."""
    every = (
        Section("Who has to approve", rows=_needs(review)),
        Section("Approvals that do not hold any more", rows=_dismissed(review)),
        Section("Who is affected", rows=_affected(review)),
        Section("Priorities that rise", rows=_priorities(review)),
        Section("Nodes that lead elsewhere", rows=_addresses(review)),
        Section("Cost per month", rows=_costs(review)),
        Section("Limits that come near", rows=_near(review)),
        Section("What is pending", rows=_pending(review)),
        Section("How good the placement is", "\n".join(_proofs(review))),
        Section("Other files", rows=_files(review)),
        Section("Good to know", "\n".join((*review.notes, *_approved(review)))),
    )
    return tuple(one for one in every if one.words or (one.rows and one.rows.cells))


def _folded(review: Review) -> tuple[Section, ...]:
    found = [Section("What the stack files say, old and new", rows=_values(review), minor=True)]
    several = len(review.consequences) > 1
    for one in review.consequences:
        prefix = f"{one.now.name}: " if several else ""
        for section in (merged(each, NAMES) for each in sections(one.plan, one.context)):
            if section.title != "How good the placement is" or section.minor:
                found.append(Section(f"{prefix}{section.title}", section.words, section.rows, section.style, minor=True))
    return tuple(one for one in found if one.words or (one.rows and one.rows.cells))


def _needs(review: Review) -> Rows:
    table = Rows(("who can approve", "because", "what it is about"))
    for one in review.needs:
        who = " or ".join(one.accounts) or "nobody: no user of the base may"
        table.add(who, one.why, "\n".join((*one.lines[:QUOTED], *_rest(one.lines))))
    return table


def _dismissed(review: Review) -> Rows:
    table = Rows(("approval of", "at", "what it did not cover"))
    for one in review.dismissed:
        table.add(one.who, one.commit[:12], "\n".join((*one.lines[:QUOTED], *_rest(one.lines))))
    return table


def _affected(review: Review) -> Rows:
    """Who loses, the worst first; then what starts and grows, per user."""
    several = len(review.effect.stacks) > 1
    table = Rows(("user", "team", "allocation", "what becomes of it", "why"))
    order = ("stopped", "moved", "restarted", "changed", "started")
    for stack in review.effect.stacks:
        prefix = f"{stack.stack}: " if several else ""
        for one in sorted((each for each in stack.allocations if each.harms), key=lambda each: order.index(each.becomes)):
            table.add(one.user, one.team, f"{prefix}{one.name}", _becomes(one), one.why)
        gains: dict[tuple[str, str], list[AllocationEffect]] = {}
        for one in stack.allocations:
            if not one.harms:
                gains.setdefault((one.user, one.becomes), []).append(one)
        for (user, become), ones in sorted(gains.items()):
            names = ", ".join(one.name for one in ones[:4]) + (f" and {len(ones) - 4} more" if len(ones) > 4 else "")
            many = f"{len(ones)} {'started' if become == 'started' else 'changed in place'}"
            text = _becomes(ones[0]) if len(ones) == 1 else many
            table.add(user, ones[0].team, f"{prefix}{names}", text, "")
    return table


def _becomes(one: AllocationEffect) -> str:
    where = {
        "stopped": f"stops on {one.before}",
        "moved": moves(one),
        "restarted": f"restarts on {one.after}",
        "changed": f"changes in place on {one.after}",
        "started": f"starts on {one.after}",
    }[one.becomes]
    return ", ".join((where, *(each.text for each in one.amounts)))


def _priorities(review: Review) -> Rows:
    table = Rows(("workload", "user", "priority before", "after"))
    for stack in review.effect.stacks:
        for one in stack.priorities:
            table.add(one.workload, one.user, one.old, one.new)
    return table


def _addresses(review: Review) -> Rows:
    table = Rows(("node", "address before", "after"))
    for stack in review.effect.stacks:
        for one in stack.nodes:
            if one.becomes == "readdressed":
                table.add(one.name, one.old, one.new)
    return table


def _costs(review: Review) -> Rows:
    table = Rows(("team", "before", "after", "difference"))
    for stack in review.effect.stacks:
        total = [0, 0]
        for one in stack.costs:
            table.add(one.team or "no team", *_money(one.before, one.after, stack.currency))
            total = [total[0] + one.before, total[1] + one.after]
        if stack.costs:
            table.add(f"all of {stack.stack}", *_money(total[0], total[1], stack.currency))
    return table


def _money(before: int, after: int, currency: str) -> tuple[str, str, str]:
    sign = "+" if after > before else ""
    return (
        f"{before / 10_000:,.2f} {currency}",
        f"{after / 10_000:,.2f} {currency}",
        f"{sign}{(after - before) / 10_000:,.2f} {currency}" if after != before else "as before",
    )


def _near(review: Review) -> Rows:
    table = Rows(("limit of", "resource", "after", "ceiling", "used"))
    for stack in review.effect.stacks:
        for one in stack.near:
            table.add(one.subject, one.resource, one.used, one.ceiling, f"{one.percent}%")
    return table


def _pending(review: Review) -> Rows:
    table = Rows(("workload", "user", "missing", "because", "cheapest fix"))
    for stack in review.effect.stacks:
        for one in sorted(stack.pending, key=lambda each: not each.new):
            name = f"{one.workload}{'' if one.new else ' (as before)'}"
            table.add(name, one.user, str(one.missing), one.why, one.fix)
    return table


def _proofs(review: Review) -> Iterator[str]:
    for one in review.consequences:
        proof, name = one.now.proof, one.now.name
        if proof is None:
            yield f"{name}: not proven; `swarm solve` on the branch decides again, and says how good it is"
            continue
        verdict = "optimal" if proof.optimal else "not proven optimal"
        gaps = [str(goal) for goal in goal_texts(proof.goals, one.now.stack) if goal.reached != goal.best]
        claimed = "" if one.now.stale or not one.claimed else ", as the proof file of the head says"
        yield f"{name}: {verdict} by {proof.solver}{claimed}; gap: {'; '.join(gaps) or 'none'}"


def _files(review: Review) -> Rows:
    table = Rows(("file", "who may change it", "after the merge"))
    for one in review.effect.files:
        table.add(one.name, " or ".join(one.by) or "anyone who can merge", "deleted" if not one.blob else "changed")
    return table


def _values(review: Review) -> Rows:
    table = Rows(("where", "path", "old", "new"))
    seen = set()
    for stack in review.effect.stacks:
        for one in stack.values:
            if (stack.stack, one.path) not in seen:
                seen.add((stack.stack, one.path))
                table.add(one.place, one.path, one.old, one.new)
    return table


def _approved(review: Review) -> Iterator[str]:
    if review.approved:
        yield f"approvals that hold: {', '.join(review.approved)}"


def _approvals(needs: Sequence[Need]) -> str:
    first = " or ".join(needs[0].accounts) or "nobody can"
    more = f" and {len(needs) - 1} more" if len(needs) > 1 else ""
    return f"the approval of {first}{more}"


def _first(lines: Sequence[str]) -> str:
    return lines[0].splitlines()[0][:120] + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
