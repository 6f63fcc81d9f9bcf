"""Does `rights` name paths, users and teams that there are, and someone who may change the rights themselves?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.errors import Problem
from swarm_iac.model.stack import Stack
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.stackfile.reading.rights import OWN, Rights
from swarm_iac.stackfile.reading.shape import StackFile
from swarm_iac.stackfile.reading.source import Source


def rights_problems(stack: Stack, rights: Rights | None, source: Source) -> Iterator[Problem]:
    """All disagreements of the section with the rest of the file; nothing where there is no such section."""
    if rights is None:
        return
    known = stack.users() | rights.accounts.keys()
    if rights.strictest is None:
        hint = "add `{paths: [rights], by: [NAME]}`: they also decide about whatever no rule names"
        yield Problem(source.place("rights"), "rights", "no rule says who may change `rights`", hint)
    yield from _rules(rights, source)
    yield from _owners(known, stack, rights, source)
    yield from _shared(known, rights, source)


def _rules(rights: Rights, source: Source) -> Iterator[Problem]:
    """What a rule is about."""
    for number, rule in enumerate(rights.owners):
        path = f"rights.owners[{number}]"
        if not rule.paths and not rule.files:
            yield Problem(source.place(path), path, "the rule names nothing", "add `paths:` or `files:`")
        if not rule.by:
            hint = "name a user, a team as in `team research`, or write `own`"
            yield Problem(source.place(path), f"{path}.by", "nobody is named", hint)
        for pattern in rule.paths:
            section = pattern.split(".")[0]
            if section not in StackFile.model_fields:
                hint = nearest(section, list(StackFile.model_fields)) or f"one of {', '.join(StackFile.model_fields)}"
                message = f"a stack file has no section {section!r}"
                yield Problem(source.place(path), f"{path}.paths", message, hint)
        if rule.by == OWN and (rule.files or any(pattern.split(".")[0] != "workloads" for pattern in rule.paths)):
            message = "only workloads have a user of their own"
            yield Problem(source.place(path), f"{path}.by", message, "name users or teams")


def _owners(known: frozenset[str], stack: Stack, rights: Rights, source: Source) -> Iterator[Problem]:
    """Whom the rules name."""

    def said(path: str, message: str, hint: str) -> Problem:
        return Problem(source.place(path), path, message, hint)

    for number, owner in rights.named():
        path = f"rights.owners[{number}].by"
        team = owner.removeprefix("team ")
        if team == owner:
            if owner not in known:
                hint = nearest(owner, known) or f"give them an account: `rights.accounts: {{{owner}: NAME}}`"
                yield said(path, f"there is no user {owner!r}", f"{hint}; a team is written `team NAME`")
        elif team not in stack.teams:
            yield said(path, f"there is no team {team!r}", nearest(team, stack.teams) or "describe it under `teams:`")
        elif not stack.teams[team].users:
            yield said(path, f"nobody is in the team {team}", "name users, or a team that has some")


def _shared(known: frozenset[str], rights: Rights, source: Source) -> Iterator[Problem]:
    """Two users with one account would be one and the same at the forge."""
    first: dict[str, str] = {}
    for user in sorted(known):
        login = rights.login(user)
        if login in first:
            path = f"rights.accounts.{user if user in rights.accounts else first[login]}"
            message = f"{first[login]} and {user} both have the account {login}"
            yield Problem(source.place(path), path, message, "give each of them an account of their own")
        first.setdefault(login, user)
