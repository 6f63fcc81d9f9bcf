"""Does an approval still hold? As long as what would happen is the same as what was approved, or less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from swarm_iac.model.base import Value
from swarm_iac.review.effect import HARM, AllocationEffect, Effect, StackEffect

#: Lines that are quoted of what was not approved.
QUOTED = 20


class Approval(Value):
    """Who approved, at which commit, and what merging would have done then.

    Without an effect it holds for nothing but the very commits that it names.
    """

    who: str = Field(description="Account at the forge.")
    commit: str = Field(description="Head of the pull request when it was given, in full.")
    base: str = Field(default="", description="Tip of the base then, in full; empty: not known.")
    effect: Effect | None = Field(default=None, description="As `swarm pr check --json` gave it for that head.")


class Dismissed(Value):
    """An approval that does not hold any more, and what it did not cover."""

    who: str
    commit: str
    lines: tuple[str, ...]


def beyond(approved: Effect, now: Effect) -> tuple[str, ...]:
    """What `now` does that was not approved, a line each; empty where it is the same or less.

    For every allocation a, with harm(a) = 0 unharmed, 1 restarted, 2 moved, 3 stopped:

    harm_now(a) ≤ harm_approved(a);  of every resource that a loses, a lost some in `approved` as well, and no more of it
    remained, unless a was stopped there;  what starts or grows did so in `approved`, to at least that amount;  nodes, raised
    priorities, values that have an owner, and files: each is in `approved` as well, with the same value;  for every team, what
    cost_after − cost_before adds is no more than it was.
    """
    before = {one.stack: one for one in approved.stacks}
    lines: list[str] = []
    for stack in now.stacks:
        lines += (f"{stack.stack}: {line}" for line in _beyond(before.get(stack.stack, StackEffect(stack=stack.stack)), stack))
    known = {(one.name, one.blob) for one in approved.files}
    lines += (f"{one.name} changes" for one in now.files if (one.name, one.blob) not in known)
    return tuple(lines)


def standing(
    approvals: Sequence[Approval], now: Effect, head: str, base: str
) -> tuple[tuple[Approval, ...], tuple[Dismissed, ...]]:
    """The approvals that hold, and those that are dismissed. Of one person the last one counts."""
    last: Mapping[str, Approval] = {one.who.lower(): one for one in approvals}
    held: list[Approval] = []
    gone: list[Dismissed] = []
    for one in last.values():
        if one.effect is None:
            same = (one.commit, one.base) == (head, base)
            lines: tuple[str, ...] = () if same else ("what was approved is not known; approve again",)
        else:
            lines = beyond(one.effect, now)
        if lines:
            gone.append(Dismissed(who=one.who, commit=one.commit, lines=lines))
        else:
            held.append(one)
    return tuple(held), tuple(gone)


def _beyond(approved: StackEffect, now: StackEffect) -> Iterator[str]:
    was = {(one.name, one.user): one for one in approved.allocations}
    for one in now.allocations:
        yield from _more(was.get((one.name, one.user)), one)
    nodes = {(one.name, one.becomes, one.new) for one in approved.nodes}
    for each in now.nodes:
        if (each.name, each.becomes, each.new) not in nodes:
            yield f"{each.name}: {each.becomes}{f' to {each.new}' if each.new else ''}"
    yield from (
        f"priority of {one.workload}: {one.old} → {one.new}" for one in now.priorities if one not in approved.priorities
    )
    values = {(one.path, one.new) for one in approved.values if one.by}
    owned = (one for one in now.values if one.by and (one.path, one.new) not in values)
    yield from (f"{one.path}: {one.old or 'nothing'} → {one.new or 'nothing'}" for one in owned)
    costs = {one.team: one.after - one.before for one in approved.costs if approved.currency == now.currency}
    for cost in now.costs:
        more, allowed = cost.after - cost.before, costs.get(cost.team, 0)
        if more > max(0, allowed):
            yield f"cost of {cost.team or 'users without a team'}: {_money(more)} {now.currency} more per month"


def _more(was: AllocationEffect | None, now: AllocationEffect) -> Iterator[str]:
    """What becomes of one allocation beyond what was approved of it."""
    whose = f"{now.name} of {now.user}"
    before = HARM[was.becomes] if was else 0
    if HARM[now.becomes] > before:
        yield f"{whose} is {now.becomes}"
        return
    known = {one.resource: one for one in was.amounts} if was else {}
    for one in () if now.becomes == "stopped" else now.amounts:
        old = known.get(one.resource)
        if one.new < one.old:
            within = before == HARM["stopped"] or (old is not None and old.new < old.old and one.new >= old.new)
        else:
            within = old is not None and old.new > old.old and one.new <= old.new
        if not within:
            yield f"{whose}: {one.text}"
    if now.becomes == "started" and (was is None or was.becomes != "started"):
        yield f"{whose} is started"


def _money(amount: int) -> str:
    return f"{amount / 10_000:,.2f}"
