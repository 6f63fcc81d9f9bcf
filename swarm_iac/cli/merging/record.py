"""Which merge was applied last, and is one under way? Recorded where Pulumi keeps the state, as a tag of the stack.

There it survives the runner, is shared by all runners and operators, needs no forge, and is not in the repository, where a
pull request could write it. One value holds both facts, so no moment leaves half of it:

    COMMIT begun      it is being applied, or its runner was killed: the next run resumes it
    COMMIT applied    everything up to it is applied
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
_VALUE = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?) (begun|applied)")
Say = Callable[[str], None]


@dataclass(frozen=True)
class MergeRecord:
    """The last merge of which anything was applied. `whole`: all of it was."""

    commit: str
    whole: bool

    def __str__(self) -> str:
        return f"{self.commit} {'applied' if self.whole else 'begun'}"


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
    return MergeRecord(found[1], found[2] == "applied")


def write(root: Path, stack: str, record: MergeRecord, say: Say) -> None:
    """MergeRecord it. Raises Retryable if the state cannot be written: then nothing may be begun."""
    done = engine.pulumi(root, stack, ["stack", "tag", "set", TAG, str(record)], say, capture=True)
    if done.returncode:
        raise Retryable(f"the state cannot be written: {printable(done.stderr.strip(), 300)}", after=30)
