"""Who has to agree to a change? By the rights of the base: for each value and file that differs, and for each that loses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from swarm_iac.model.base import Value
from swarm_iac.model.stack import Stack
from swarm_iac.review.approvals import Approval
from swarm_iac.review.effect import ChangedFile, ChangedValue, Effect, loss
from swarm_iac.review.priorities import raised
from swarm_iac.review.snapshots import CommittedStack
from swarm_iac.review.values import Difference, differences, shown
from swarm_iac.stackfile import Loaded
from swarm_iac.stackfile.reading.rights import OWN, OwnerRule, Rights

#: Characters of a value that is shown.
_SHOWN = 200


class Need(Value):
    """An approval that is missing: of one of these users, and for what."""

    stack: str = Field(default="", description="The stack whose rights ask for it.")
    by: tuple[str, ...] = Field(description="Users; any one of them can approve. Empty: nobody can.")
    accounts: tuple[str, ...] = Field(description="Their accounts at the forge.")
    why: str
    lines: tuple[str, ...] = Field(default=(), description="What it is about, each with its place.")


@dataclass(frozen=True)
class People:
    """Who is who by the rights of one stack's base. `author`: the user who asks; empty: nobody that is known."""

    stack: Stack
    rights: Rights
    login: str

    @property
    def author(self) -> str:
        """The user whose account the author has; empty for an unknown one."""
        return self.user(self.login)

    def user(self, login: str) -> str:
        """The user with an account; empty for none."""
        if not login.isascii():  # no account has other letters, and some of those become these in lower case
            return ""
        return next((user for user in self._users() if login and self.rights.login(user) == login.lower()), "")

    def _users(self) -> list[str]:
        named = (owner for _, owner in self.rights.named() if not owner.startswith("team "))
        return sorted({*self.stack.users(), *self.rights.accounts, *named})

    def members(self, rule: OwnerRule | None) -> tuple[str, ...]:
        """All users that a rule names."""
        found: dict[str, None] = {}
        for owner in rule.by if rule and rule.by != OWN else ():
            team = owner.removeprefix("team ")
            found |= dict.fromkeys((owner,) if team == owner else self.stack.teams[team].users)
        return tuple(found)

    def for_user(self, user: str) -> tuple[str, ...]:
        """Who can agree for a user: they and their team in the base, but never the author. Else those of the rights."""
        team = next(iter(self.stack.teams_of(user)), "")
        found = (user, *self.stack.teams[team].users) if team else (user,) if user in self._users() else ()
        found = tuple(one for one in dict.fromkeys(found) if one != self.author)
        return found or tuple(one for one in self.members(self.rights.strictest) if one != self.author)

    def accounts(self, users: Sequence[str]) -> tuple[str, ...]:
        """Their accounts, as they are written."""
        return tuple(self.rights.accounts.get(user, user) for user in users)

    def need(self, by: tuple[str, ...], why: str, lines: Sequence[str], stack: str) -> Need:
        """A missing approval."""
        return Need(stack=stack, by=by, accounts=self.accounts(by), why=why, lines=tuple(lines))


def people(before: Loaded, author: str | None) -> People | None:
    """Who is who; None where the base has no rights."""
    return None if before.rights is None else People(before.stack, before.rights, author or "")


def values(
    who: People | None, before: CommittedStack | None, after: CommittedStack | None, lines: CommittedStack | None
) -> tuple[ChangedValue, ...]:
    """Each value that differs, with whose approval it needs. `lines`: the head, whose lines people see."""
    found = []
    for one in differences(before.loaded if before else None, after.loaded if after else None):
        where = lines or after
        source = before if one.new is None or where is None else where
        groups = _of_value(who, one, before, after) if who else ()
        place = source.place(one.text) if source else ""
        if source is before and before is not None:
            place = f"{place} of the base"
        told = ChangedValue(path=one.text, old=_short(one.old), new=_short(one.new), place=place)
        found += [told.model_copy(update={"by": by}) for by in groups or ((),)]
    return tuple(found)


def _short(value: object) -> str:
    """A value as it is shown and compared: of a long one the beginning, and a digest of all of it."""
    text = shown(value)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters, sha256 {digest})"


_Groups = tuple[tuple[str, ...], ...]


def _of_value(who: People, one: Difference, before: CommittedStack | None, after: CommittedStack | None) -> _Groups:
    """Groups of users, of each of which one has to approve; none where the author may change it."""
    rule = who.rights.rule_of(one.path)
    if rule is None or rule.by != OWN:
        members = who.members(rule)
        return () if who.author and who.author in members else (members,)
    name = one.path[1] if len(one.path) > 1 else ""
    both = [side.loaded.stack.workloads.get(name) for side in (before, after) if side]
    # A workload that is given to somebody counts against their limits, so they are asked as well.
    users = dict.fromkeys(workload.user for workload in both if workload is not None)
    others = [user for user in users if not who.author or user != who.author]
    return tuple(filter(None, (*(who.for_user(user) for user in others), _of_priority(who, rule, one, before, after))))


def _of_priority(
    who: People, rule: OwnerRule, one: Difference, before: CommittedStack | None, after: CommittedStack | None
) -> tuple[str, ...]:
    """Who has to agree that a workload comes before others': those of the cluster's limits, unless a rule names priorities."""
    if one.path[2:] != ("priority",) or rule.names(one.path) or after is None:
        return ()
    risen = {name for name, _, _ in raised(before.loaded.stack if before else None, after.loaded.stack)}
    members = who.members(who.rights.rule_of(("limits", "cluster"))) or who.members(who.rights.strictest)
    return () if one.path[1] not in risen or (who.author and who.author in members) else members


def files(all_of: Mapping[str, People], changed: Sequence[tuple[str, str]]) -> tuple[ChangedFile, ...]:
    """Each other file with whose approval it needs. Every stack with rights has a say."""
    found = []
    for name, blob in changed:
        by: dict[str, None] = {}
        for who in all_of.values():
            members = who.members(who.rights.rule_of_file(name))
            by |= {} if who.author and who.author in members else dict.fromkeys(members)
        found.append(ChangedFile(name=name, blob=blob, by=tuple(by)))
    return tuple(found)


def needs(all_of: Mapping[str, People], effect: Effect, held: Sequence[Approval]) -> tuple[Need, ...]:
    """The approvals that are missing."""
    return tuple(one for one in _asked(all_of, effect) if not _given(all_of[one.stack], one, held))


def _given(who: People, one: Need, held: Sequence[Approval]) -> bool:
    users = {who.user(each.who) for each in held if each.who.lower() != who.login.lower()}
    return not users.isdisjoint(one.by)


def _asked(all_of: Mapping[str, People], effect: Effect) -> Iterator[Need]:
    for stack in effect.stacks:
        who = all_of.get(stack.stack)
        if who is None:
            continue
        by_owner: dict[tuple[str, ...], list[str]] = {}
        for one in stack.values:
            if one.by:
                line = f"{one.place}: {one.path}: {one.old or 'nothing'} → {one.new or 'nothing'}"
                by_owner.setdefault(one.by, []).append(line)
        for by, lines in by_owner.items():
            yield who.need(by, f"{' or '.join(by)} may change this", lines, stack.stack)
        losers: dict[str, list[str]] = {}
        for each in stack.allocations:
            if each.harms and (not who.author or each.user != who.author):
                losers.setdefault(each.user, []).append(loss(each))
        for user, losses in sorted(losers.items()):
            team = next(iter(who.stack.teams_of(user)), "")
            whose = f"{user or 'an unknown user'}{f' (team {team})' if team else ''}"
            if by := who.for_user(user):  # else the author alone decides about the rights of everyone
                yield who.need(by, f"{whose} is affected", losses, stack.stack)
    for name, who in all_of.items():
        for file in effect.files:
            members = who.members(who.rights.rule_of_file(file.name))
            if file.by and not (who.author and who.author in members):
                yield who.need(members, f"{' or '.join(members)} may change this", (file.name,), name)
