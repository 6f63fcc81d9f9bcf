"""What can still be checked in a file whose shape is wrong?

So that a wrong unit in one workload does not hide an unknown user in another: what is wrong is cut out, and the names
of what was cut are kept, because nothing may be said about them.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError

from swarm_iac.stackfile.reading.shape import StackFile

#: An entry of these sections goes as a whole: without one of its values it would mean something else.
_WHOLE = ("teams", "hardware", "nodes", "limits")
_ROUNDS = 4


def salvage(data: dict[str, Any]) -> tuple[StackFile | None, frozenset[tuple[str, str]]]:
    """What is left without the values that are wrong, and the (section, name) of every entry that lost something."""
    left = copy.deepcopy(data)
    touched: set[tuple[str, str]] = set()
    for _ in range(_ROUNDS):
        try:
            return StackFile.model_validate(left), frozenset(touched)
        except ValidationError as error:
            for one in error.errors(include_url=False, include_input=False):
                loc = tuple(step for step in one["loc"] if step != "[key]")
                touched.add((str(loc[0]), str(loc[1]) if len(loc) > 1 else ""))
                _cut(left, loc, missing=one["type"] == "missing")
    return None, frozenset(touched)


def _cut(data: dict[str, Any], loc: tuple[int | str, ...], *, missing: bool) -> None:
    """Delete the value at `loc`; the whole entry where a value is missing or the section asks for it."""
    if loc == ("fleet",):
        data["fleet"] = "unnamed"
        return
    steps = loc[:2] if missing or loc[0] in _WHOLE else loc
    owner: Any = data
    for step in steps[:-1]:
        inner = owner.get(step) if isinstance(owner, dict) else None
        if not isinstance(inner, dict):
            break
        owner = inner
    else:
        owner.pop(steps[-1], None)
        return
    # A part of a union, or an item of a list: the nearest mapping loses the key that leads there.
    owner.pop(step, None)
