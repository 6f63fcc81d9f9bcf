"""How do a forge's pull request and approvals become a verdict, where everything that decides comes from the base branch?

An approval holds for what it was given for. The forge says for which commit and when; what merging that commit would have done
then is computed again: the status of our account on that commit ends with the tip of the base branch that it was judged on.
Nothing of it is read from a comment, which others may edit.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swarm_iac.cli.merging import posting, published, repository
from swarm_iac.cli.merging.applying import Merges
from swarm_iac.cli.merging.approved import CONTEXT
from swarm_iac.cli.merging.posting import Artifacts, Shown
from swarm_iac.cli.merging.rebased import JUDGED_ON
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.forge import Forge, ForgeApproval, PullRequest, Status, opened
from swarm_iac.forge.forge import State
from swarm_iac.forge.opening import run_page
from swarm_iac.review.approvals import Approval as Reviewed
from swarm_iac.review.check import check
from swarm_iac.review.effect import Effect

Say = Callable[[str], None]


def post_all(
    root: Path, remote: str, base: str, numbers: tuple[int, ...], environment: Mapping[str, str], say: Say,
    pages: Path | None = None,
) -> bool:  # fmt: skip
    """Judge pull requests (all open ones, if none is named) and show the verdicts; is every one of them green?

    `pages`: a folder of which a job of the forge keeps what is in it.

    One that cannot be judged does not keep the others from it. Raises the first such error at the end.
    """
    forge = opened(environment)
    bot, tip = forge.me(), repository.fetched(root, remote, f"refs/heads/{base}")
    known = published.files(root, remote, tip)
    artifacts = Artifacts(pages, where) if pages and (where := run_page(environment)) else None
    failed: list[SwarmError] = []
    green = True
    for pull in [forge.pull(number) for number in numbers] or forge.open_pulls(base):
        try:
            shown = posting.post(forge, pull, lambda one: judged(root, remote, forge, bot, one, tip, known), artifacts)
        except SwarmError as error:
            say(f"#{pull.number}: {error.message}")
            failed.append(error)
            continue
        say(f"#{pull.number}: {shown.summary if shown else 'its head moved; the next run judges it'}")
        green = green and (shown is None or shown.ok)
    if failed:
        raise failed[0]
    return green


def judged(root: Path, remote: str, forge: Forge, bot: str, pull: PullRequest, tip: str, known: Sequence[bytes] = ()) -> Shown:
    """The verdict on one pull request, merged into the tip of the base branch. Its head is fetched as objects alone.

    `known`: what is published of the machines.

    A stale lock is refused here, since it would be after the merge, where all later merges wait for this one.
    """
    if repository.fetched(root, remote, forge.ref(pull)) != pull.head:
        raise SwarmError("its head is moving", hint="run it again")
    given = reviewed(root, remote, forge, bot, pull)
    verdict = check(root, tip, pull.head, pull.author, given, frozen=True, snapshots=known, offered=True)
    return Shown(verdict.ok, f"{verdict.summary[:110]} on {tip[:16]}", verdict.comment, verdict.pages)


def reviewed(root: Path, remote: str, forge: Forge, bot: str, pull: PullRequest) -> tuple[Reviewed, ...]:
    """Who approves a pull request, each with what was to happen when it was approved, as far as that is known."""
    return tuple(_reviewed(root, remote, forge, bot, pull, one) for one in forge.approvals(pull))


def _reviewed(root: Path, remote: str, forge: Forge, bot: str, pull: PullRequest, one: ForgeApproval) -> Reviewed:
    bare = Reviewed(who=one.by, commit=one.commit)
    base = judged_on(forge.statuses(one.commit, CONTEXT), bot, one.at)
    if not base or not repository.offered(root, remote, one.commit):
        return bare
    try:
        whole = repository.commit(root, base)
        if not whole.startswith(base):  # a tag or branch of that name
            return bare
        return Reviewed(who=one.by, commit=one.commit, base=whole, effect=_effect(root, whole, one.commit, pull))
    except SwarmError:  # what merging it would have done is not known: it holds for nothing else
        return bare


def _effect(root: Path, base: str, head: str, pull: PullRequest) -> Effect:
    """What was shown of a commit: as then, a stale lock does nothing but be refused."""
    return check(root, base, head, pull.author, frozen=True).effect


def judged_on(statuses: Iterable[Status], bot: str, at: datetime.datetime) -> str:
    """On which commit of the base branch a verdict was shown when somebody approved; empty if none was.

    A status that says why something could not be judged is no verdict: its text may be one of the pull request.
    """
    ours = (one for one in statuses if one.by and one.by.lower() == bot.lower() and one.at <= at)
    verdicts = [one for one in ours if one.state in (State.SUCCESS, State.FAILURE)]
    found = JUDGED_ON.search(verdicts[-1].description) if verdicts else None
    return found[1] if found else ""


def apply_merges(
    root: Path,
    stack: str,
    merge: str,
    since: str,
    skip: tuple[str, str],
    allow_stop: int,
    base: tuple[str, str],
    environment: Mapping[str, str],
    say: Say,
) -> tuple[str, ...]:
    """Apply every merge up to a commit: see Merges. What a merge really did is judged with the approvals as they are now.

    `base`: the remote and its branch; with no `merge`, all that is merged there. `skip`: the last commit that is left to the
    next merge, and why.
    """
    remote, branch = base
    forge = opened(environment)
    bot, tip = forge.me(), repository.fetched(root, remote, f"refs/heads/{branch}")

    def judge(before: str, commit: str, pull: PullRequest) -> str:
        verdict = check(root, before, commit, pull.author, reviewed(root, remote, forge, bot, pull), frozen=True)
        return "" if verdict.ok else verdict.summary

    last = repository.commit(root, merge) if merge else tip
    if not repository.comes_after(root, tip, last):
        raise Refused(f"{last[:12]} is not on {branch}", hint=f"only what was merged into {branch} is applied")
    return Merges(root, stack, forge, bot, judge, say, branch, since, allow_stop, remote=remote, skip=skip).apply(last)
