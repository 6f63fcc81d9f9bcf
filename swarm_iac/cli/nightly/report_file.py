"""What does only the controller know of a fleet, and how does Prometheus get it? A text file with drift and the lock's state.

A node exporter's textfile collector reads it. Nothing here runs all the time, so the values are those of the last run, with its
time beside them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path

from swarm_iac.cli.nightly.applied import surveyed
from swarm_iac.decision import decide
from swarm_iac.errors import StaleLock

FAMILIES = {
    "swarm_node_differences": "Values of the node that differ from what was applied last; absent for one that did not answer.",
    "swarm_node_unreachable": "1 if the node did not answer ssh.",
    "swarm_lock_behind": "1 if the lock is older than the stack file: what is asked for there has no placement.",
    "swarm_report_timestamp_seconds": "When these values were taken.",
}
Row = tuple[str, dict[str, str], float]


def report(root: Path, stack: str, say: Callable[[str], None]) -> str:
    """The file's text. Asks every machine, and changes none. Raises what `surveyed` raises: then the file before stays."""
    survey = surveyed(root, stack, say)
    rows: list[Row] = []
    for node, one in survey.snapshot.nodes.items():
        at = {"stack": stack, "node": node}
        rows.append(("swarm_node_unreachable", at, int(node in survey.silent)))
        if node not in survey.silent:
            rows.append(("swarm_node_differences", at, len(one.differences)))
    rows.append(("swarm_lock_behind", {"stack": stack}, int(behind(root, stack))))
    rows.append(("swarm_report_timestamp_seconds", {"stack": stack}, int(survey.snapshot.at.timestamp())))
    return "".join(f"{line}\n" for line in _lines(rows))


def behind(root: Path, stack: str) -> bool:
    """Is the lock in this work tree no answer to its stack file? Nothing is solved for it."""
    try:
        decide(root, stack, today=datetime.date.today(), frozen=True, write=False)
    except StaleLock:
        return True
    return False


def _lines(rows: list[Row]) -> Iterator[str]:
    for name, text in FAMILIES.items():
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} gauge"
        for each, labels, value in rows:
            if each == name:
                # Names of stacks and nodes have no character that would need an escape.
                inside = ",".join(f'{key}="{one}"' for key, one in labels.items())
                yield f"{name}{{{inside}}} {int(value)}"
