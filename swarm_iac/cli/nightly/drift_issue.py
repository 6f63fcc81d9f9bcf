"""How does a forge show that machines differ? One issue, open and edited in place as long as they do, closed with a word after.

Its first line, which a forge does not show, keeps since when each value differs. It has nothing but names of nodes of the stack
file, digests and times in it, and what somebody else wrote there is read as such or not at all.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from swarm_iac.forge import Forge, Issue
from swarm_iac.model.base import Name
from swarm_iac.plan.show.markdown import shown
from swarm_iac.plan.show.section import Rows, Section
from swarm_iac.pluralize import pluralize
from swarm_iac.review.last_known import FleetSnapshot, NodeDifference, rows, silent

#: Node → digest of what differs → since when. [min since 1970]
Since = Mapping[str, Mapping[str, int]]
_MARKER = "<!-- swarm-drift"
_KNOWN = re.compile(r"^<!-- swarm-drift stack=([a-z0-9_-]+) since=(\{.{0,50000}\}) -->$")
_SINCE: TypeAdapter[dict[Name, dict[str, int]]] = TypeAdapter(dict[Name, dict[str, int]])
#: A forge takes 65,536 characters; so many rows at first, and fewer until it fits.
_MOST, _ROWS = 60_000, (200, 100, 50, 25, 12, 6, 3, 1, 0)
#: Since when is kept for so many values; of what is beyond, it is when it was last seen.
_KEPT = 1500


@dataclass(frozen=True)
class IssueShown:
    """What was done on the forge: `number` of the issue, None if there is none."""

    number: int | None
    deed: str
    since: Since


def show(forge: Forge, snapshot: FleetSnapshot, *, dry: bool = False) -> IssueShown:
    """Open, edit or close the issue of a stack. `dry`: write nothing. Raises Refused, Retryable.

    A node that does not answer is no drift, and no proof of its end: what it differed in stays.
    """
    ours = [one for one in forge.issues(forge.me()) if _stack(one) == snapshot.stack]
    first, more = (ours[0], ours[1:]) if ours else (None, [])
    since = merged(kept(first), snapshot)
    if not dry:
        for one in more:  # two jobs at once
            forge.close_issue(one, f"The same as #{ours[0].number}.")
    if not any(since.values()):
        if first and not dry:
            forge.close_issue(first, _word(snapshot))
        return IssueShown(first.number if first else None, "closed" if first else "none is needed", since)
    title, text = f"The machines of {snapshot.stack} differ from what was applied", body(snapshot, since)
    if first is None:
        return IssueShown(None if dry else forge.open_issue(title, text).number, "opened", since)
    same = first.body.replace("\r\n", "\n").strip() == text.strip()
    if not same and not dry:
        forge.edit_issue(first, text)
    return IssueShown(first.number, "as it was" if same else "edited", since)


def key(one: NodeDifference) -> str:
    """A digest of what differs, whatever it is at the moment."""
    return hashlib.sha256(f"{one.kind} {one.what}".encode()).hexdigest()[:10]


def merged(before: Since, snapshot: FleetSnapshot) -> dict[str, dict[str, int]]:
    """Since when everything differs that does now; of nodes that did not answer, as it was."""
    now = _minutes(snapshot.at)
    found: dict[str, dict[str, int]] = {}
    left = _KEPT
    for node, one in sorted(snapshot.nodes.items()):
        known = before.get(node, {})
        if not one.answered:
            now_there = dict(known)
        else:
            now_there = {key(each): min(known.get(key(each), now), now) for each in one.differences[:left]}
        left = max(0, left - len(now_there))
        if now_there:
            found[node] = now_there
    return found


def kept(issue: Issue | None) -> dict[str, dict[str, int]]:
    """What the issue keeps; nothing where somebody changed that line to something else."""
    found = _KNOWN.match(_first(issue)) if issue else None
    try:
        return _SINCE.validate_json(found[2]) if found else {}
    except ValidationError:
        return {}


def moment(minutes: int) -> str:
    """For people, in UTC."""
    try:
        return f"{datetime.datetime.fromtimestamp(minutes * 60, datetime.UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "unknown"


def body(snapshot: FleetSnapshot, since: Since) -> str:
    """The issue as Markdown, under _MOST characters: what machines say is text, and as short as it has to be."""
    for most in _ROWS:
        text = _written(snapshot, since, most)
        if len(text) <= _MOST:
            return text
    raise AssertionError("the hidden line alone is too long")


def _written(snapshot: FleetSnapshot, since: Since, most: int) -> str:
    table = Rows(("node", "what", "wanted", "found", "since (UTC)"))
    for node, one in rows(snapshot.nodes):
        table.add(node, one.what, one.wanted, one.found, moment(since.get(node, {}).get(key(one), _minutes(snapshot.at))))
    away = silent(snapshot)
    lines = [f"{node} did not answer{_before(since.get(node, {}))}." for node in away]
    held = len({node for node, _ in rows(snapshot.nodes)})
    count = f"{pluralize(len(table.cells), 'difference')} on {held} of {pluralize(len(snapshot.nodes), 'node')}"
    parts = [
        f"{_MARKER} stack={snapshot.stack} since={json.dumps(since, sort_keys=True, separators=(',', ':'))} -->",
        f"**{count}**, as of {snapshot.at:%Y-%m-%d %H:%M} UTC. Compared with {snapshot.commit[:12]}, which was applied "
        "last. No commit asked for this.",
    ]
    sections = [Section("What differs", rows=table)] if table.cells else []
    sections += [Section("Did not answer", "\n".join(lines))] if lines else []
    parts += [shown(section, most, "`swarm drift`") for section in sections]
    parts.append("`swarm plan` shows what `swarm up` would put right. This is written again every night, and closed after.")
    return "\n\n".join(parts) + "\n"


def _before(known: Mapping[str, int]) -> str:
    if not known:
        return ", so nothing is known about it"
    return f"; when it last did, {pluralize(len(known), 'value')} differed, the first since {moment(min(known.values()))}"


def _word(snapshot: FleetSnapshot) -> str:
    away = silent(snapshot)
    every = "every node that answered" if away else "every node"
    return f"{snapshot.at:%Y-%m-%d %H:%M} UTC: {every} of {snapshot.stack} is as {snapshot.commit[:12]} has it."


def _stack(issue: Issue) -> str:
    found = _KNOWN.match(_first(issue))
    if found:
        return found[1]
    # Somebody changed the line: it is still ours by its beginning.
    known = re.match(rf"{_MARKER} stack=([a-z0-9_-]+)\b", _first(issue))
    return known[1] if known else ""


def _first(issue: Issue | None) -> str:
    return issue.body.replace("\r\n", "\n").partition("\n")[0] if issue else ""


def _minutes(at: datetime.datetime) -> int:
    return int(at.timestamp()) // 60
