"""How does a forge show our verdict? One comment, edited in place, and a status for exactly the commit that was judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.cli.merging.approved import CONTEXT
from swarm_iac.errors import SwarmError
from swarm_iac.forge import Forge, PullRequest
from swarm_iac.forge.forge import LONGEST_COMMENT, State
from swarm_iac.review.comment import MARKER


@dataclass(frozen=True)
class Shown:
    """What is shown of a verdict. `whole`: a longer form of the comment, attached where the forge takes files."""

    ok: bool
    summary: str
    comment: str
    whole: bytes = b""


def post(forge: Forge, pull: PullRequest, judge: Callable[[PullRequest], Shown]) -> Shown | None:
    """Judge a pull request and show the verdict; None if its head moved meanwhile: the new one is judged by a later run.

    A judge that fails leaves an error as the status, never a green one of an earlier try.
    """
    try:
        shown = judge(pull)
    except SwarmError as error:
        forge.set_status(pull.head, CONTEXT, State.ERROR, error.message.splitlines()[0])
        raise
    if forge.pull(pull.number).head != pull.head:
        return None
    comment(forge, pull, shown)
    forge.set_status(pull.head, CONTEXT, State.SUCCESS if shown.ok else State.FAILURE, shown.summary)
    return shown


def comment(forge: Forge, pull: PullRequest, shown: Shown) -> None:
    """Write the comment, or edit it: it is ours if we wrote it and it begins with our mark. Others may copy the mark."""
    body = shown.comment
    if len(body) > LONGEST_COMMENT:
        raise SwarmError(
            f"the comment has {len(body)} characters, and a forge takes {LONGEST_COMMENT}",
            hint="this is a bug; please report it",
        )
    me = forge.me().lower()
    mine = [one for one in forge.comments(pull) if one.by and one.by.lower() == me and one.body.startswith(MARKER)]
    if not mine:
        forge.comment(pull, body)
    elif mine[0].body.replace("\r\n", "\n").rstrip() != body.rstrip():
        forge.edit(pull, mine[0], body)
