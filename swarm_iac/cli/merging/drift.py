"""Does the plan on the machines do what was approved, and nothing else?

A row is one value of one node: `gpu-01: allocations["pretrain-0"].slice.memory_max: 285 MB → 570 MB`. What was approved is the
plan on the assumption that the machines are as the base branch says. For every row of the plan on the machines as they are:

    it was approved, with the same old value     it is applied
    it was approved, with another old value      refused: the machine drifted where the plan acts
    it was not approved, on a node of the plan   refused, too
    it was not approved, on another node         left for `swarm up`: the run is restricted to the nodes of the plan

Fewer rows than approved are always fine. Where a run of this merge was killed, its own half-done work is no drift: a row
that leads to the approved value is applied whatever the old value is, and so is every row of an allocation that starts,
stops or restarts by what was approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from swarm_iac.model.step import Change, Step, Verb
from swarm_iac.printable import printable

#: Steps that end something, and those after which an allocation is begun again.
_ENDS = (Verb.STOP, Verb.RELEASE, Verb.RESTORE)
_LOOSE = (Verb.STOP, Verb.RELEASE, Verb.START)


@dataclass(frozen=True)
class Comparison:
    """`drifted`: rows where the plan acts that were not approved so. `left`: nodes on which only unapproved rows are."""

    drifted: tuple[str, ...]
    nodes: tuple[str, ...]
    left: tuple[str, ...]


def compare(approved: Iterable[Step], found: Iterable[Step], *, resumed: bool = False) -> Comparison:
    """What was approved, and what would be done. `resumed`: a run of this merge was killed before."""
    known = tuple(approved)
    nodes = {step.node for step in known}
    rows = {(step.node, change.path): change for step in known for change in step.changes}
    steps = {(step.node, step.verb, step.allocation) for step in known}
    loose = {(step.node, step.allocation) for step in known if step.verb in _LOOSE and step.allocation} if resumed else set()
    drifted: list[str] = []
    left: set[str] = set()
    for step in found:
        if step.node not in nodes:
            left.add(step.node)
        elif (step.node, step.allocation) not in loose:
            if step.verb in _ENDS and (step.node, step.verb, step.allocation) not in steps:
                drifted.append(f"{step.node}: {step.verb} {step.allocation or 'everything'}: not part of what was approved")
            drifted += [
                _row(step.node, each, why)
                for each in step.changes
                if (why := _why(each, rows.get((step.node, each.path)), resumed))
            ]
    return Comparison(tuple(dict.fromkeys(drifted)), tuple(sorted(nodes)), tuple(sorted(left)))


def _why(change: Change, approved: Change | None, resumed: bool) -> str:
    """Why this row is not what was approved; empty if it is."""
    if approved is None:
        return "not part of what was approved"
    if _plain(approved.new) != _plain(change.new):
        return f"{_value(approved.new)} was approved"
    if _plain(approved.old) != _plain(change.old) and not resumed:
        return f"it was {_value(approved.old)} when it was approved"
    return ""


def _row(node: str, change: Change, why: str) -> str:
    return f"{node}: {printable(change.path, 120)}: {_value(change.old)} → {_value(change.new)}: {why}"


def _value(value: Any) -> str:
    return "absent" if value is None else printable(str(value), 80)


def _plain(value: Any) -> Any:
    """Absent in any form, and a sequence as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] or None
    return None if value == "" else value


def lines(rows: Iterable[str], most: int = 10) -> Iterator[str]:
    """The first rows, and how many more there are."""
    every = tuple(rows)
    yield from every[:most]
    if len(every) > most:
        yield f"… and {len(every) - most} more"
