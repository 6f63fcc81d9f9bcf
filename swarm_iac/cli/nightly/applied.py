"""What are the machines compared with? The commit that was applied last, without what anyone has not committed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from swarm_iac.cli import engine_lock
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.machines.survey import Survey, survey
from swarm_iac.cli.merge_lock import alone
from swarm_iac.cli.merging import published, record, repository
from swarm_iac.errors import Refused, Retryable
from swarm_iac.live import checkpoint
from swarm_iac.review import last_known

Say = Callable[[str], None]


def surveyed(root: Path, stack: str, say: Say) -> Survey:
    """Compare the machines with the merge that was applied last; where none is recorded, with HEAD.

    Raises Retryable while a merge is being applied, here or elsewhere, or the stack is being changed by hand as far as that can
    be seen here: then nobody knows what is meant to be on a machine.
    """
    with alone(root, wait=False):
        commit = _unchanging(root, stack, say)
        with repository.work_tree(root, commit) as tree:
            found = survey(root, tree, stack, commit)
        if _unchanging(root, stack, lambda _: None) != commit:
            raise Retryable("a merge was applied meanwhile", after=60, hint="run it again")
        return found


def _unchanging(root: Path, stack: str, say: Say) -> str:
    """The commit that was applied last. Raises Retryable while the stack is being changed."""
    if state := checkpoint.state_folder(root):
        engine_lock.refuse_held(state, stack)
    return _commit(root, stack, say)


def _commit(root: Path, stack: str, say: Say) -> str:
    """The commit that was applied last; HEAD where none is recorded. Raises Retryable while one is being applied."""
    commit = repository.commit(root, "HEAD")
    known = None if deciding.never_applied(root, stack) else record.read(root, stack, say)
    if known and not known.whole:
        raise Retryable(
            f"{known.commit[:12]} is being applied, or its run was killed", after=600, hint="swarm pr apply resumes it"
        )
    if known and known.commit != commit:
        commit = repository.commit(root, known.commit)
        say(f"compared with {commit[:12]}, which was applied last, and not with HEAD")
    return commit


def current(root: Path, remote: str, stack: str, say: Say) -> bool:
    """Is what is published of what was applied last, signed, and less than a day old?"""
    commit = _commit(root, stack, say)
    found = published.of(root, remote, stack, commit)
    if found is None:
        return False
    try:
        one = last_known.read(found, published.signers(root, commit))
    except Refused:
        return False
    age = datetime.datetime.now(datetime.UTC) - one.at
    fresh = datetime.timedelta() <= age < datetime.timedelta(days=1)
    return fresh and (one.stack, one.commit) == (stack, commit)
