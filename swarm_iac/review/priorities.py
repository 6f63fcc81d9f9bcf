"""Which workloads come before others more than they did? By a higher priority, for which nothing has to stop yet."""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.stack import Stack

_ORDER = ("low", "normal", "high")
#: What a workload has that says nothing.
_PLAIN = "normal"


def raised(before: Stack | None, after: Stack) -> Iterator[tuple[str, str, str]]:
    """Workload, priority before and after, of each that has a higher one; a new workload counts as one that had the default.

    Another name (`renamed_from`) keeps what its own user had, and takes over nothing of another user's.
    """
    known = before.workloads if before else {}
    for name, one in after.workloads.items():
        former = known.get(name) or known.get(one.renamed_from or "")
        was = former.priority if former and former.user == one.user else _PLAIN
        if _ORDER.index(one.priority) > _ORDER.index(was):
            yield name, was, one.priority
