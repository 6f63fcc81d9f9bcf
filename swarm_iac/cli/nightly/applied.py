"""What are the machines compared with? The commit that was applied last, without what anyone has not committed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.machines.survey import Survey, survey
from swarm_iac.cli.merging import published, record, repository
from swarm_iac.cli.merging.applying import alone
from swarm_iac.errors import Retryable
from swarm_iac.review.last_known import FleetSnapshot

Say = Callable[[str], None]


def surveyed(root: Path, stack: str, say: Say) -> Survey:
    """Compare the machines with the merge that was applied last; where none is recorded, with HEAD.

    Raises Retryable while a merge is being applied: then nobody knows what is meant to be on a machine.
    """
    with alone(root, wait=False):
        commit = _commit(root, stack, say)
        with repository.work_tree(root, commit) as tree:
            return survey(root, tree, stack, commit)


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
    """Is what is published of what was applied last, and less than a day old? Who uses it checks its signature."""
    found = published.of(root, remote, stack)
    if found is None:
        return False
    try:
        one = FleetSnapshot.model_validate_json(found.partition(b"\n")[0])
    except ValidationError:
        return False
    age = datetime.datetime.now(datetime.UTC) - one.at
    fresh = datetime.timedelta() <= age < datetime.timedelta(days=1)
    return fresh and one.commit == _commit(root, stack, say)
