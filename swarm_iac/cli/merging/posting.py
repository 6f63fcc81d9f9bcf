"""How does a forge show our verdict? One comment, edited in place, and a status for exactly the commit that was judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swarm_iac.cli.merging.approved import CONTEXT
from swarm_iac.errors import SwarmError
from swarm_iac.forge import Forge, PullRequest
from swarm_iac.forge.forge import LONGEST_COMMENT, State
from swarm_iac.review.comment import MARKER

#: Characters that the links to pages may take.
_LINKS = 2_000
#: How an error ends, cut to so many characters before: its words may be the author's, and end as a verdict does.
_SAID, NO_VERDICT = 110, " (no verdict)"


@dataclass(frozen=True)
class Shown:
    """What is shown of a verdict. `pages`: by stack, a page for a browser with every row."""

    ok: bool
    summary: str
    comment: str
    pages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifacts:
    """What a job of the forge keeps: the folder that it takes files from, and the address at which they are shown then."""

    folder: Path
    where: str


def post(
    forge: Forge, pull: PullRequest, judge: Callable[[PullRequest], Shown], artifacts: Artifacts | None = None
) -> Shown | None:
    """Judge a pull request and show the verdict; None if its head moved meanwhile: the new one is judged by a later run.

    `artifacts`: where pages go if the forge takes no file beside a comment.

    What fails, a comment that cannot be written as well, leaves an error as the status, never a green one of an earlier try.
    """
    try:
        shown = judge(pull)
        if forge.pull(pull.number).head != pull.head:
            return None
        comment(forge, pull, shown, artifacts)
    except SwarmError as error:
        forge.set_status(pull.head, CONTEXT, State.ERROR, error.message.splitlines()[0][:_SAID] + NO_VERDICT)
        raise
    forge.set_status(pull.head, CONTEXT, State.SUCCESS if shown.ok else State.FAILURE, shown.summary)
    return shown


def comment(forge: Forge, pull: PullRequest, shown: Shown, artifacts: Artifacts | None = None) -> None:
    """Write the comment, or edit it where it says something else. It is ours if we wrote it and it begins with our marker.

    Others may copy the marker, and theirs is not touched. Pages are attached and linked at the end.
    """
    body = shown.comment.rstrip()
    if len(body) + _LINKS > LONGEST_COMMENT:
        raise SwarmError(
            f"the comment has {len(body)} characters, and a forge takes {LONGEST_COMMENT}",
            hint="this is a bug; please report it",
        )
    me = forge.me().lower()
    mine = [one for one in forge.comments(pull) if one.by and one.by.lower() == me and one.body.startswith(MARKER)]
    if mine and mine[0].body.replace("\r\n", "\n").startswith(body):
        return
    body += _attached(forge, pull, shown.pages, artifacts)
    if mine:
        forge.edit(pull, mine[0], body)
    else:
        forge.comment(pull, body)


def _attached(forge: Forge, pull: PullRequest, pages: Mapping[str, str], artifacts: Artifacts | None) -> str:
    """Links to the pages; none of one that nobody takes: the verdict does not wait for it."""
    links = ""
    for stack, text in pages.items():
        name = f"pull-request-{pull.number}-{stack}.html"
        try:
            where = forge.attach(pull, name, text.encode())
        except SwarmError:
            where = None
        if where is None and artifacts:
            artifacts.folder.mkdir(parents=True, exist_ok=True)
            (artifacts.folder / name).write_text(text)
            where = artifacts.where
        link = f"[Page of {stack}](<{where}>)\n" if where else ""
        links += link if len(links) + len(link) < _LINKS - 2 else ""
    return f"\n\n{links}" if links else ""
