"""How is the state of a node written into a stack file, with nothing else touched?

As an entry of its own below those that make it: `gpu-07: {state: drain, why: fan}`. An entry that is there is changed,
else one line is added, and a node that is ready again loses the words that nobody needs any more.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Iterator
from pathlib import Path

from swarm_iac.errors import Problem, StackFileError, SwarmError
from swarm_iac.model.deadline import told
from swarm_iac.model.stack import NodeState, Stack
from swarm_iac.stackfile import splice
from swarm_iac.stackfile.load import loads
from swarm_iac.stackfile.ranges import expand
from swarm_iac.stackfile.text import decode
from swarm_iac.stackfile.wording import nearest

_KEYS = ("state", "drain_by", "why")
_LAST_DIGITS = re.compile(r"([0-9]+)(?=[^0-9]*$)")


def restate(
    raw: bytes,
    file: str,
    node: str,
    state: NodeState,
    today: datetime.date,
    *,
    by: datetime.datetime | None = None,
    why: str | None = None,
    policies: Path | None = None,
) -> bytes:
    """The file with `node` in `state`. `by`: only with drain; `why`: None keeps the reason of a node that was not ready.

    Raises StackFileError for a wrong file, node or reason, SwarmError where the file's form defies this.
    """
    text = decode(raw, file)
    before = loads(text, file, policies=policies, today=today)
    if node not in before.stack.nodes:
        hint = nearest(node, before.stack.nodes)
        raise StackFileError((Problem(before.source.place("nodes"), "nodes", f"there is no node {node!r}", hint),))
    one = before.stack.nodes[node]
    kept = "" if state == "ready" else one.why if why is None else why
    values = {"state": state, "drain_by": told(by) if by else "", "why": splice.scalar(kept) if kept else ""}
    wanted = _with(before.stack, node, state, values["drain_by"], kept)
    if wanted == before.stack:
        return raw
    with contextlib.suppress(LookupError):  # `nodes:` itself stands elsewhere
        for fresh in _ways(text, node, values):
            if _read(fresh, file, policies, today) == wanted:
                mark = b"\xef\xbb\xbf"
                return (mark if raw.startswith(mark) else b"") + fresh.encode()
    raise SwarmError(
        f"{file}:{before.source.place(f'nodes.{node}').line}: what is said of {node} cannot be changed from here",
        hint=f"write it by hand: {node}: {_entry(values)}",
    )


def _with(stack: Stack, node: str, state: NodeState, by: str, why: str) -> Stack:
    moment = datetime.datetime.fromisoformat(by) if by else None
    one = stack.nodes[node].model_copy(update={"state": state, "drain_by": moment, "why": why})
    return stack.model_copy(update={"nodes": {**stack.nodes, node: one}})


def _ways(text: str, node: str, values: dict[str, str]) -> Iterator[str]:
    """Texts that could say it, the shortest first; whoever asks reads each and takes the first that does."""
    entries = splice.keys(text, ("nodes",))
    for key in reversed([each for each in entries if expand(each) == (node,)]):
        try:
            has = splice.keys(text, ("nodes", key))
            if values["state"] == "ready":
                yield _set(text, key, has, dict.fromkeys(_KEYS, ""))
            yield _set(text, key, has, values)
        except LookupError:
            continue  # it stands elsewhere, under an anchor that others use as well
    for form in (r"\1", r"[\1]", r"[\1-\1]"):  # one name, where an entry below those that bear it is needed
        key = _LAST_DIGITS.sub(form, node, count=1)
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
