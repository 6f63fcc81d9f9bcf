"""How does a forge show our verdict? One comment, edited in place, and a status for exactly the commit that was judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.cli.merging.approved import CONTEXT
from swarm_iac.errors import SwarmError
from swarm_iac.forge import Forge, PullRequest
from swarm_iac.forge.forge import LONGEST_COMMENT, State
from swarm_iac.review.comment import MARKER

#: Characters that the link to the whole may take.
_LINK = 600
#: How an error ends, cut to so many characters before: its words may be the author's, and end as a verdict does.
_SAID, NO_VERDICT = 110, " (no verdict)"


@dataclass(frozen=True)
class Shown:
    """What is shown of a verdict. `whole`: a longer form of the comment, attached where the forge takes files."""

    ok: bool
    summary: str
    comment: str
    whole: bytes = b""


def post(forge: Forge, pull: PullRequest, judge: Callable[[PullRequest], Shown]) -> Shown | None:
    """Judge a pull request and show the verdict; None if its head moved meanwhile: the new one is judged by a later run.

    What fails, a comment that cannot be written as well, leaves an error as the status, never a green one of an earlier try.
    """
    try:
        shown = judge(pull)
        if forge.pull(pull.number).head != pull.head:
            return None
        comment(forge, pull, shown)
    except SwarmError as error:
        forge.set_status(pull.head, CONTEXT, State.ERROR, error.message.splitlines()[0][:_SAID] + NO_VERDICT)
        raise
    forge.set_status(pull.head, CONTEXT, State.SUCCESS if shown.ok else State.FAILURE, shown.summary)
    return shown


def comment(forge: Forge, pull: PullRequest, shown: Shown) -> None:
    """Write the comment, or edit it where it says something else. It is ours if we wrote it and it begins with our marker.

    Others may copy the marker, and theirs is not touched. What has a longer form is attached and linked at the end.
    """
    body = shown.comment.rstrip()
    if len(body) + _LINK > LONGEST_COMMENT:
        raise SwarmError(
            f"the comment has {len(body)} characters, and a forge takes {LONGEST_COMMENT}",
            hint="this is a bug; please report it",
        )
    me = forge.me().lower()
    mine = [one for one in forge.comments(pull) if one.by and one.by.lower() == me and one.body.startswith(MARKER)]
    if mine and mine[0].body.replace("\r\n", "\n").startswith(body):
        return
    body += _attached(forge, pull, shown.whole) if shown.whole else ""
    if mine:
        forge.edit(pull, mine[0], body)
    else:
        forge.comment(pull, body)


def _attached(forge: Forge, pull: PullRequest, whole: bytes) -> str:
    """A link to the whole; nothing where the forge takes no file: the verdict does not wait for it."""
    try:
        where = forge.attach(pull, f"pull-request-{pull.number}.md", whole)
    except SwarmError:
        where = None
    return f"\n\n[Every row](<{where}>)\n" if where and len(where) < _LINK - 20 else ""
