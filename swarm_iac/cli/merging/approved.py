"""What was approved with this merge? The pull request, who set its status, and the plan from the base branch to the merge."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.machines import fleet_view
from swarm_iac.cli.merging import rebased, repository
from swarm_iac.decision import Decision, decide, running
from swarm_iac.errors import Refused
from swarm_iac.forge import Forge, PullRequest
from swarm_iac.forge.forge import State
from swarm_iac.model.placement import Placement
from swarm_iac.model.step import Step
from swarm_iac.printable import printable

#: The status that a merge waits for.
CONTEXT = "swarm"
#: Paths without any effect on the machines: a commit that changes nothing else needs no pull request.
_HARMLESS = (".md", ".txt")
Judge = Callable[[str, str, PullRequest], str]


@dataclass(frozen=True)
class Approved:
    """A merge that may be applied, after `before`. `pull`: None if it changes nothing that acts on machines."""

    commit: str
    before: str
    pull: PullRequest | None


@dataclass(frozen=True)
class FleetBranch:
    """Where a merge is looked for: `branch` describes the fleet, and `bot` is our account at the forge."""

    root: Path
    remote: str
    branch: str
    forge: Forge
    bot: str


def acting(root: Path, commit: str) -> tuple[str, ...]:
    """The paths that a commit changes and that may act on machines."""
    found = repository.changed(root, repository.parent(root, commit), commit)
    return tuple(path for path in found if not path.endswith(_HARMLESS))


def part_of(at: FleetBranch, commit: str, later: Sequence[str]) -> str:
    """The commit by which the pull request was merged of which this one is a part, as after a rebase; empty if of none."""
    for other in later:
        if pull := at.forge.merged_as(other):
            statuses = at.forge.statuses(pull.head, CONTEXT)
            begin = statuses and rebased.start(at.root, at.remote, at.forge, pull, other, statuses[-1])
            return other if begin and commit in repository.between(at.root, begin, other) else ""
    return ""


def verify(at: FleetBranch, commit: str, judge: Judge | None, after: str = "") -> Approved:
    """The pull request of a merge commit, with everything that must hold before it is applied. Raises Refused, Retryable.

    The forge's own fence is not trusted alone: a push dismisses an approval seconds too late, and the token of any job may
    write a status. So: the merge commit is one by a pull request into `branch`; the last status for exactly its head is ours,
    set by `bot`; and what the merge really did is judged again, with the approvals as they are now, each for the commit that
    it was given for. `judge`: base, merge and pull request → why it must not be applied; empty if it may;
    None: it was judged when it was begun. `after`: it is judged with all that came after this commit, and was skipped.
    """
    root, forge, branch, bot = at.root, at.forge, at.branch, at.bot
    pull = forge.merged_as(commit)
    if pull is None:
        paths = acting(root, commit)
        if not paths:
            return Approved(commit, repository.parent(root, commit), None)
        raise Refused(
            f"{commit[:12]} was made by no pull request, and it changes {', '.join(paths[:3])}{' …' if len(paths) > 3 else ''}",
            hint="merge by a merge commit or squashed; a push: put it back by a pull request, and skip it (docs/forges.md)",
        )
    name = f"#{pull.number}"
    if pull.base != branch:
        raise Refused(f"{name} was merged into {printable(pull.base, 60)}, and {branch} describes the fleet")
    statuses = forge.statuses(pull.head, CONTEXT)
    if not statuses:
        raise Refused(f"{name}: nobody checked its head {pull.head[:12]}", hint=f"swarm pr post {pull.number}")
    last = statuses[-1]
    if last.by is None or last.by.lower() != bot.lower():
        raise Refused(
            f"{name}: the status {CONTEXT} of {pull.head[:12]} was set by {last.by or 'nobody known'}, and not by {bot}",
            hint="a job or a person wrote over it: find out who, then post it again with swarm pr post",
        )
    if last.state is not State.SUCCESS:
        raise Refused(f"{name}: the status {CONTEXT} of {pull.head[:12]} is {last.state.value}: {printable(last.description)}")
    before = after or rebased.start(root, at.remote, forge, pull, commit, last)
    if judge and (why := judge(before, commit, pull)):
        raise Refused(
            f"{name}: {why}", hint=f"approve the merge as it is, then run again: swarm pr apply --merge {commit[:12]}"
        )
    return Approved(commit, before, pull)


def steps(root: Path, stack: str, before: Path, after: Path) -> tuple[Step, ...]:
    """The plan from the lock of one work tree to that of another, on machines that are as the first one says.

    Without any machine that was ever changed, they are blank. Raises StaleLock if the merge has no valid lock: nothing is
    decided while it is applied.
    """
    today = datetime.date.today()
    then = decide(after, stack, today=today, frozen=True, write=False)
    blank = deciding.never_applied(root, stack)
    exists = (before / "stacks" / f"{stack}.yaml").is_file()
    now = running(before, stack, today=today) if exists else then
    last = Placement() if blank or not exists else fleet_view.with_live_of(now.layer, now.last)
    return fleet_view.supposed(replace(now, placement=last, last=last), _of(then, root, last)).plan.steps


def _of(then: Decision, root: Path, last: Placement) -> Decision:
    return replace(then, root=root, last=last)
