"""What would merging a pull request do, may it, and who has to approve? The whole answer, for the command line and forges."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import Field

from swarm_iac.decision import Decision, again
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.model.base import Value
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable
from swarm_iac.review import judgement, last_known
from swarm_iac.review.approvals import Approval, Dismissed, standing
from swarm_iac.review.comment import Review, comment
from swarm_iac.review.commits import Commits, Entry, MergeConflict, opened
from swarm_iac.review.consequences import Consequences
from swarm_iac.review.effect import Effect, StackEffect
from swarm_iac.review.judgement import Need, People
from swarm_iac.review.last_known import FleetSnapshot
from swarm_iac.review.pages import pages
from swarm_iac.review.snapshots import CommittedStack, StackEntries, entries, stack_of, written
from swarm_iac.run_options import RunOptions
from swarm_iac.stackfile.locks.digests import digest_placement

#: Rows of machines that differ which a refusal names.
MOST_ROWS = 10


class Verdict(Value):
    """The answer."""

    ok: bool
    summary: str = Field(description="One line, for a commit status.")
    comment: str = Field(description="Markdown, under 60,000 characters.")
    pages: dict[str, str] = Field(default={}, exclude=True, description="By stack, the same for a browser, with every row.")
    effect: Effect = Effect()
    needs: tuple[Need, ...] = Field(default=(), description="Approvals that are missing.")
    dismissed: tuple[Dismissed, ...] = Field(default=(), description="Approvals that do not hold any more.")
    approved: tuple[str, ...] = Field(default=(), description="Accounts whose approvals hold.")
    refused: tuple[str, ...] = Field(default=(), description="What forbids it, even if all approve.")
    head: str = Field(description="The commit that was judged, in full.")
    base: str = Field(description="The commit into which it would be merged, in full.")


@dataclass
class _Found:
    """What is learnt on the way. `frozen`: nothing is decided again. `offered`: snapshots that cannot be used are notes."""

    frozen: bool
    offered: bool = False
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stacks: list[StackEffect] = field(default_factory=list)
    consequences: list[Consequences] = field(default_factory=list)
    people: dict[str, People] = field(default_factory=dict)
    snapshots: dict[str, FleetSnapshot] = field(default_factory=dict)


def check(
    repository: Path, base: str, head: str, author: str | None = None, approvals: Sequence[Approval] = (), *,
    frozen: bool = False, snapshots: Sequence[bytes] = (), offered: bool = False,
) -> Verdict:  # fmt: skip
    """Judge what merging the commit `head` into `base` would do, on the merged result.

    `author`: account of who asks; `approvals`: those that were given, the last of each person last; `frozen`: refuse a stale
    lock, as SWARM_FROZEN does; `snapshots`: files of the last known state, which add refusals and take none away. One that is
    not verified, or of something else, is refused; of those that a branch `offered` it is left out, and said so: who may
    push there could else hold every check. Nothing of the head is run or checked out; rights and default limits are those of
    the base.
    Raises SwarmError where it cannot be judged, as where a commit is missing.
    """
    found = _Found(frozen or RunOptions.of(os.environ).frozen, offered)
    effect = Effect()
    with opened(repository, base, head) as commits, tempfile.TemporaryDirectory(prefix="swarm-pr-") as made:
        tree = commits.merged()
        _read(commits, snapshots, found)
        if isinstance(tree, MergeConflict):
            found.refused.append(_conflict(tree, base))
        else:
            effect = _effect(commits, tree, Path(made).resolve(), author, found)
        held, dismissed = standing(approvals, effect, commits.head, commits.base)
        needs = () if isinstance(tree, MergeConflict) else judgement.needs(found.people, effect, held)
        review = Review(
            commits.head, commits.base, effect, tuple(found.refused), needs, dismissed,
            tuple(one.who for one in held), tuple(found.notes), tuple(found.consequences),
        )  # fmt: skip
        text, shown = comment(review), pages(review)
    return Verdict(
        ok=not found.refused and not needs, summary=review.summary, comment=text, pages=shown, effect=effect, needs=needs,
        dismissed=dismissed, approved=review.approved, refused=review.refused, head=review.head, base=review.base,
    )  # fmt: skip


def _effect(commits: Commits, tree: str, folder: Path, author: str | None, found: _Found) -> Effect:
    before, after, seen = entries(commits, commits.base), entries(commits, tree), entries(commits, commits.head)
    base: dict[str, CommittedStack] = {}
    for name, stack in before.items():
        if stack.exists:
            base[name] = written(commits, stack, folder / "base")
            if who := judgement.people(base[name].loaded, author):
                found.people[name] = who
            else:
                found.notes.append(f"{name} has no `rights`: everyone who can merge may change everything in it")
    for name, snapshot in tuple(found.snapshots.items()):
        try:
            found.notes.append(_known(snapshot, base.get(name), commits))
        except Refused as refused:
            _left_out(found, refused)
            del found.snapshots[name]
    for name, who in found.people.items():
        if author and not who.author:
            found.notes.append(f"{printable(author)[:80]} is the account of no user of {name}")
    for name in sorted(before.keys() | after.keys()):
        then = after.get(name, StackEntries(name))
        if name in before and then.blobs == before[name].blobs:
            continue
        _stack(commits, base.get(name), then, seen.get(name), folder, found)
    files = [_file(old, new) for old, new in commits.changed(tree) if _other(old, new, before)]
    if files:
        found.notes.append("other files are not read: program, policies and workflow of this check are those of the base")
    return Effect(stacks=tuple(found.stacks), files=judgement.files(found.people, files))


def _stack(
    commits: Commits, before: CommittedStack | None, then: StackEntries, seen: StackEntries | None, folder: Path, found: _Found
) -> None:
    """One stack of which something differs."""
    who = found.people.get(then.name)
    if not then.exists:
        found.notes.append(f"stacks/{then.name}.yaml is deleted: machines stay as they are, until `swarm destroy`")
        found.stacks.append(StackEffect(stack=then.name, values=judgement.values(who, before, None, None)))
        return
    try:
        after = written(commits, then, folder / "merged")
        lines = written(commits, seen, folder / "head") if seen and seen.blobs != then.blobs else after
    except SwarmError as error:
        found.refused.append(str(error))
        found.stacks.append(StackEffect(stack=then.name))
        return
    values = judgement.values(who, before, after, lines)
    try:
        decided = after.decision(frozen=found.frozen)
        claimed = after.proven
        if not decided.stale and not claimed:
            decided = _proven(decided, found)
        one = Consequences(before, decided, datetime.date.today(), claimed)
        if decided.stale:
            found.notes.append(
                f"the lock of {then.name} is stale ({'; '.join(decided.stale[:3])}): this shows what `swarm up` would decide; "
                "commit what `swarm solve` writes, so that what is reviewed is what is applied"
            )
        found.refused += one.refusals()
        effect = one.effect().model_copy(update={"values": values})
        found.stacks.append(effect)
        found.consequences.append(one)
        _against(found.snapshots.get(then.name), one, found)
    except SwarmError as error:
        found.refused.append(str(error))
        found.stacks.append(StackEffect(stack=then.name, values=values))


def _read(commits: Commits, files: Sequence[bytes], found: _Found) -> None:
    """Snapshots by stack. Raises Refused for any that no signer of the base signed, or of no commit of the base."""
    entry = commits.entry(commits.base, last_known.SIGNERS) if files else None
    allowed = commits.read(entry) if entry else None
    for data in files:
        try:
            one = last_known.read(data, allowed)
            if not commits.has(one.commit):
                raise Refused(f"the snapshot is of {one.commit[:12]}, which is not in the base", hint="it is of another branch")
            if one.stack in found.snapshots:
                raise Refused(f"two snapshots are of the stack {one.stack}", hint="name one for each stack")
            found.snapshots[one.stack] = one
        except Refused as refused:
            _left_out(found, refused)


def _left_out(found: _Found, refused: Refused) -> None:
    """Raises it, unless it was merely offered."""
    if not found.offered:
        raise refused
    found.notes.append(f"nothing is known of the machines by what is published: {refused.message}")


def _known(snapshot: FleetSnapshot, base: CommittedStack | None, commits: Commits) -> str:
    """One line about a snapshot, which says its age. Raises Refused if it is of another fleet."""
    fleet = base.loaded.stack.fleet if base else ""
    if snapshot.fleet != fleet:
        what = f"the fleet of {snapshot.stack} is {fleet}" if fleet else f"the base has no stack {snapshot.stack}"
        raise Refused(f"the snapshot is of the fleet {snapshot.fleet}, and {what}")
    old = last_known.age(snapshot, datetime.datetime.now(datetime.UTC))
    behind = "" if snapshot.commit == commits.base else ", an earlier commit than the base"
    silent = len(last_known.silent(snapshot))
    return (
        f"machines of {snapshot.stack}: as last seen {old} ago, at {snapshot.commit[:12]}{behind}; "
        + pluralize(len(snapshot.nodes), "node")
        + (f", of which {silent} did not answer" if silent else "")
    )


def _against(snapshot: FleetSnapshot | None, one: Consequences, found: _Found) -> None:
    """What the machines, as they were last seen, have against it: apply would refuse it, and hold what is merged after it."""
    if snapshot is None:
        return
    steps = one.plan.steps
    rows = tuple(last_known.in_the_way(snapshot, steps))
    if rows:
        more = [f"… and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
        text = "\n".join(f"  {row}" for row in (*rows[:MOST_ROWS], *more))
        found.refused.append(
            f"the machines of {snapshot.stack} differ where this acts, and `swarm pr apply` would refuse it:\n{text}\n"
            "  hint: an operator runs `swarm up` on the base, then `swarm snapshot` again"
        )
    found.notes += last_known.notes(snapshot, steps, (each.workload for each in one.now.placement.waiting()))


def _proven(decided: Decision, found: _Found) -> Decision:
    """A valid lock with a proof of our own, as the repository keeps none; with none where the solver decides otherwise."""
    ours = again(decided, today=datetime.date.today())
    if digest_placement(ours.placement) == digest_placement(decided.placement):
        return replace(decided, placement=ours.placement, proof=ours.proof)
    waits = {one.workload for one in decided.placement.waiting()}
    passed = sorted(waits - {one.workload for one in ours.placement.waiting()})
    if passed:  # a proof in the repository would make this lock a stale one
        hint = "`swarm solve` on the branch, and commit the lock"
        found.refused.append(f"the lock of {decided.name} leaves {', '.join(passed[:3])} pending, and they fit\n  hint: {hint}")
    else:
        found.notes.append(
            f"the lock of {decided.name} is valid, and the solver would decide otherwise: `swarm solve` shows how"
        )
    return decided


def _conflict(tree: MergeConflict, base: str) -> str:
    if not tree.names:
        hint = f"`git merge {printable(base)[:80]}` on the branch, and commit"
        return f"git cannot merge it: both sides moved files of the same folder\n  hint: {hint}"
    names = ", ".join(map(printable, tree.names[:5])) + (f" and {len(tree.names) - 5} more" if len(tree.names) > 5 else "")
    only_locks = all((stack_of(name) or "") and not name.endswith(f"/{stack_of(name)}.yaml") for name in tree.names)
    how = f"`git merge {printable(base)[:80]}` on the branch"
    then = "`swarm solve`, which decides the lock again" if only_locks else "choose what stands, and `swarm solve`"
    return f"{names}: both sides changed it\n  hint: {how}, then {then}, and commit"


def _other(old: Entry | None, new: Entry | None, before: dict[str, StackEntries]) -> bool:
    """Is it no file of a stack that was there already? A new stack is one more file to which all others agree."""
    one = new or old
    assert one is not None
    stack = stack_of(one.name)
    return stack is None or stack not in before or not before[stack].exists


def _file(old: Entry | None, new: Entry | None) -> tuple[str, str]:
    one = new or old
    assert one is not None
    return printable(one.name), f"{new.mode} {new.blob}" if new else ""


__all__ = ["Approval", "Dismissed", "Need", "Verdict", "check"]
