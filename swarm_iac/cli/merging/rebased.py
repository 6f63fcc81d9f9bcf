"""On which commit of the branch was a pull request put? A rebase makes several commits, of which a forge names the last alone.

    merged by a merge commit, or squashed    the parent of the commit
    rebased, n commits                       the n-th before it, if merging the head there gives the files of the last commit
    fast-forward: the commit is the head     that on which our account judged the head, if all after it belong to no other

Whatever does not fit is taken as one commit: the others then belong to no pull request, and are refused as pushes. So nobody's
push is applied as a part of what somebody else was allowed.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from swarm_iac import git
from swarm_iac.cli.merging import repository
from swarm_iac.errors import SwarmError
from swarm_iac.forge import Forge, PullRequest, Status
from swarm_iac.review.commits import opened

#: The end of a status' description: the tip of the base branch, by its first digits.
JUDGED_ON = re.compile(r" on ([0-9a-f]{16})$")
#: A pull request of more commits is none of a fleet. [commits]
MOST = 200


def start(root: Path, remote: str, forge: Forge, pull: PullRequest, commit: str, status: Status) -> str:
    """The commit before the first one of a pull request. `commit`: by which it was merged; `status`: ours for its head."""
    first = repository.parent(root, commit)
    if repository.parents(root, commit) != 1:
        return first
    chain = _forwarded(root, commit, status) if pull.head == commit else _rebased(root, remote, forge, pull, commit)
    if not 1 < len(chain) <= MOST or any(forge.merged_as(one) for one in chain[:-1]):
        return first
    return repository.parent(root, chain[0])


def _forwarded(root: Path, commit: str, status: Status) -> tuple[str, ...]:
    """The commits of a head that became the branch as it is, oldest first; empty where that is not known."""
    found = JUDGED_ON.search(status.description)
    base = git.named(root, found[1]) if found else ""
    if not found or not base.startswith(found[1]):  # a tag or branch of that name
        return ()
    with contextlib.suppress(SwarmError):
        return repository.between(root, base, commit)
    return ()


def _rebased(root: Path, remote: str, forge: Forge, pull: PullRequest, commit: str) -> tuple[str, ...]:
    """The commits that a rebase made, oldest first; empty where they are not what the pull request had."""
    with contextlib.suppress(SwarmError):
        if not git.named(root, pull.head):
            repository.fetched(root, remote, forge.ref(pull))
        if repository.comes_after(root, commit, pull.head):
            return ()
        many = repository.count(root, commit, pull.head)
        if many > MOST:
            return ()
        chain = repository.last(root, commit, many)
        with opened(root, repository.parent(root, chain[0]), pull.head) as commits:
            return chain if commits.merged() == repository.tree(root, commit) else ()
    return ()
