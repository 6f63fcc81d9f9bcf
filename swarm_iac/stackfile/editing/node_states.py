"""How is the state of nodes written into a stack file, with nothing else touched?

As an entry of its own below those that make it: `gpu-07: {state: drain, reason: fan}`. An entry that is there is changed,
else one line is added, and a node that is ready again loses the words that nobody needs any more.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator
from pathlib import Path

from swarm_iac.errors import Problem, StackFileError, SwarmError
from swarm_iac.model.base import FORMER
from swarm_iac.model.deadline import format_moment
from swarm_iac.model.stack import Node, NodeState, Stack
from swarm_iac.stackfile.editing import splice
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.reading.messages import nearest
from swarm_iac.stackfile.reading.ranges import expand, refusal
from swarm_iac.stackfile.reading.source import Loaded
from swarm_iac.stackfile.reading.text import decode

#: What is said of a state; the last is read and no longer written.
_KEYS = ("state", "drain_by", "reason", FORMER["reason"])
_LAST_DIGITS = re.compile(r"([0-9]+)(?=[^0-9]*$)")


def set_node_state(
    raw: bytes,
    file: str,
    pattern: str,
    state: NodeState,
    today: datetime.date,
    *,
    by: datetime.datetime | None = None,
    reason: str | None = None,
    policies: Path | None = None,
) -> bytes:
    """The file with a node, or a range of nodes, in `state`.

    `by`: only with drain. `reason`: None keeps the reason of a node that was not ready. Raises StackFileError for a wrong
    file, node or reason, SwarmError where the file's form defies this.
    """
    text = decode(raw, file)
    before = loads(text, file, policies=policies, today=today)
    names = _names(before, pattern)
    told_by = format_moment(by) if by else ""
    reasons = {name: _reason(before.stack.nodes[name], state, reason) for name in names}
    wanted = before.stack.model_copy(
        update={
            "nodes": before.stack.nodes | {name: _as(before.stack.nodes[name], state, told_by, reasons[name]) for name in names}
        }
    )
    if wanted == before.stack:
        return raw
    words = splice.scalar(reasons[names[0]]) if reasons[names[0]] else ""
    values = dict(zip(_KEYS, (state, told_by, words, ""), strict=True))
    with contextlib.suppress(LookupError):  # `nodes:` itself stands elsewhere
        for fresh in _ways(text, pattern, names, values):
            if _read(fresh, file, policies, today) == wanted:
                mark = b"\xef\xbb\xbf"
                return (mark if raw.startswith(mark) else b"") + fresh.encode()
    if len(names) > 1:  # their entries differ: one by one
        for name in names:
            raw = set_node_state(raw, file, name, state, today, by=by, reason=reason, policies=policies)
        return raw
    raise SwarmError(
        f"{file}:{before.source.place(f'nodes.{pattern}').line}: what is said of {pattern} cannot be changed from here",
        hint=f"write it by hand: {pattern}: {_entry(values)}",
    )


def _names(loaded: Loaded, pattern: str) -> tuple[str, ...]:
    known = loaded.stack.nodes
    try:
        names = expand(pattern)
    except ValueError as error:
        raise SwarmError(refusal(pattern, error)) from None
    for name in names:
        if name not in known:
            message = f"there is no node {name!r}"
            raise StackFileError((Problem(loaded.source.place("nodes"), "nodes", message, nearest(name, known)),))
    return names


def _reason(node: Node, state: NodeState, reason: str | None) -> str:
    return "" if state == "ready" else node.reason if reason is None else reason


def _as(node: Node, state: NodeState, by: str, reason: str) -> Node:
    moment = datetime.datetime.fromisoformat(by) if by else None
    return node.model_copy(update={"state": state, "drain_by": moment, "reason": reason})


def _ways(text: str, pattern: str, names: tuple[str, ...], values: dict[str, str]) -> Iterator[str]:
    """Texts that could say it, the shortest first; the caller reads each and takes the first that does."""
    entries = splice.keys(text, ("nodes",))
    for key in reversed([each for each in entries if set(expand(each)) == set(names)]):
        try:
            has = splice.keys(text, ("nodes", key))
            if values["state"] == "ready":
                yield _set(text, key, has, dict.fromkeys(_KEYS, ""))
            yield _set(text, key, has, values)
        except LookupError:
            continue  # it stands elsewhere, under an anchor that others use as well
    # One name has more than one spelling, where an entry below those that bear it is needed.
    forms = (r"\1", r"[\1]", r"[\1-\1]") if len(names) == 1 else ()
    for key in [_LAST_DIGITS.sub(form, names[0], count=1) for form in forms] or [pattern]:
        if key not in entries:
            yield splice.put(text, ("nodes",), key, _entry(values))


def _set(text: str, key: str, has: tuple[str, ...], values: dict[str, str]) -> str:
    """One entry with these values; an empty one is taken away, and the entry with its last."""
    if not any(values.values()) and not set(has) - set(_KEYS):
        return splice.drop(text, ("nodes",), key)
    for name, value in values.items():
        if value:
            text = splice.put(text, ("nodes", key), name, value)
    for name, value in values.items():
        if not value and name in has:
            text = splice.drop(text, ("nodes", key), name)
    return text


def _entry(values: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items() if value) + "}"


def _read(text: str, file: str, policies: Path | None, today: datetime.date) -> Stack | None:
    try:
        return loads(text, file, policies=policies, today=today).stack
    except StackFileError:
        return None
