"""Who may change what, as tables and as the file that forges read?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.review.judgement import People
from swarm_iac.stackfile.reading.rights import OWN


def rows(who: People) -> Iterator[tuple[str, str, str]]:
    """One row per rule, in their order; the last is for what none of them names."""
    for rule in who.rights.owners:
        by = "the user of each" if rule.by == OWN else ", ".join(rule.by)
        yield ", ".join((*rule.paths, *rule.files)), by, ", ".join(who.accounts(who.members(rule)))
    rest = who.members(who.rights.strictest)
    yield "everything else", ", ".join(rest), ", ".join(who.accounts(rest))


def code_owners(who: People, file: str) -> str:
    """CODEOWNERS of a repository with one stack. It knows files and no paths, so a stack file belongs to all that own a part.

    The last line that fits decides there; here the first one does, so the order is turned around.
    """
    everyone = dict.fromkeys(user for rule in who.rights.owners for user in who.members(rule))
    own = any(rule.by == OWN for rule in who.rights.owners)
    everyone |= dict.fromkeys(sorted(who.stack.users())) if own else {}
    lines = ["# Written by `swarm rights --codeowners`. `swarm pr check` judges by path and effect; this is a second fence."]
    lines.append(f"* {_names(who, who.members(who.rights.strictest))}")
    stem = file.removesuffix(".yaml")
    lines += [f"/stacks/{stem}{end}.yaml {_names(who, tuple(everyone))}" for end in ("", ".lock", ".proof")]
    for rule in reversed(who.rights.owners):
        lines += [f"/{pattern} {_names(who, who.members(rule))}" for pattern in reversed(rule.files)]
    return "\n".join(lines) + "\n"


def _names(who: People, users: tuple[str, ...]) -> str:
    return " ".join(f"@{account}" for account in who.accounts(users))
