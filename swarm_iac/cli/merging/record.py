"""Which merge was applied last, and is one under way? Recorded where Pulumi keeps the state, as a tag of the stack.

There it survives the runner, is shared by all runners and operators, needs no forge, and is not in the repository, where a
pull request could write it. One value holds both facts, so no moment leaves half of it:

    COMMIT begun                     it is being applied, or its runner was killed: the next run resumes it
    COMMIT begun after OTHER         the same, together with what was skipped after OTHER
    COMMIT applied                   everything up to it is applied
    COMMIT applied skipping OTHER    the same; what follows up to OTHER is left to the next merge
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.cli import engine
from swarm_iac.errors import Refused, Retryable
from swarm_iac.printable import printable

TAG = "swarm:merge"
_NAME = "([0-9a-f]{40}(?:[0-9a-f]{24})?)"
_VALUE = re.compile(f"{_NAME} (?:begun(?: after {_NAME})?|applied(?: skipping {_NAME})?)")
Say = Callable[[str], None]


@dataclass(frozen=True)
class MergeRecord:
    """The last merge of which anything was applied. `whole`: all of it was.

    `other`: of one that is whole, up to where what follows is skipped; else, after which commit it is judged and applied.
    """

    commit: str
    whole: bool
    other: str = ""

    @property
    def skipped(self) -> str:
        """The last commit that is left to the next merge; empty if none is."""
        return self.other if self.whole else ""

    @property
    def after(self) -> str:
        """What one that was begun is judged and applied on; empty for what was before it."""
        return "" if self.whole else self.other

    def __str__(self) -> str:
        word, more = ("applied", "skipping") if self.whole else ("begun", "after")
        return f"{self.commit} {word}{f' {more} {self.other}' if self.other else ''}"


def read(root: Path, stack: str, say: Say) -> MergeRecord | None:
    """The record of a stack; None if no merge was ever applied. Raises Refused for a tag that we did not write."""
    done = engine.pulumi(root, stack, ["stack", "tag", "ls", "--json"], say, capture=True)
    if done.returncode:
        raise Retryable(f"the state cannot be read: {printable(done.stderr.strip(), 300)}", after=30)
    return parsed(done.stdout)


def parsed(text: str) -> MergeRecord | None:
    """The record in the stack's tags, as Pulumi prints them."""
    import json

    value = (json.loads(text) or {}).get(TAG)
    if value is None:
        return None
    found = _VALUE.fullmatch(str(value))
    if not found:
        raise Refused(f"the tag {TAG} of the stack is {printable(str(value), 60)!r}", hint="pulumi stack tag rm swarm:merge")
    return MergeRecord(found[1], " applied" in str(value), found[2] or found[3] or "")


def write(root: Path, stack: str, record: MergeRecord, say: Say) -> None:
    """MergeRecord it. Raises Retryable if the state cannot be written: then nothing may be begun."""
    done = engine.pulumi(root, stack, ["stack", "tag", "set", TAG, str(record)], say, capture=True)
    if done.returncode:
        raise Retryable(f"the state cannot be written: {printable(done.stderr.strip(), 300)}", after=30)
