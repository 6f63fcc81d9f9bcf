"""Of a stack file that is refused: what runs on nodes that it has no more?

A merge that cuts the list of nodes in half, or an emptied file, is often wrong in form as well, and nobody should have
to guess from an error of form what it would have stopped.
"""

from __future__ import annotations

from swarm_iac.errors import Place, Problem, StackFileError
from swarm_iac.model.placement import Placement
from swarm_iac.pluralize import pluralize
from swarm_iac.stackfile.reading.compose import compose
from swarm_iac.stackfile.reading.ranges import expand
from swarm_iac.stackfile.reading.text import decode

_SHOWN = 6


def orphan_problem(raw: bytes, file: str, running: Placement) -> Problem | None:
    """One problem with the number of allocations that the lock has on such nodes; None when there are none."""
    names: set[str] = set()
    line = 1
    text = raw.decode(errors="replace")
    if any(each.strip() and not each.lstrip().startswith("#") for each in text.splitlines()):
        try:
            root = compose(decode(raw, file), file)
            nodes = (root.fields or {}).get("nodes")
            line = nodes[0] if nodes else 1
            names = {name for key in (nodes[2].fields or {} if nodes else {}) for name in expand(key)}
        except (StackFileError, ValueError):
            return None  # it cannot be told which nodes it has
    held = [one for one in running.going() if one.node not in names]
    if not held:
        return None
    gone = sorted({one.node for one in held})
    shown = ", ".join(gone[:_SHOWN]) + (f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else "")
    run = pluralize(len(held), "allocation runs", "allocations run")
    return Problem(
        Place(file, line, 1),
        "nodes",
        f"{run}, by the lock, on nodes that this file has no more: {shown}",
        f"`git checkout -- {file}` brings them back; a node leaves by `state: drain` first",
    )
