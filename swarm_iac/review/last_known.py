"""What were the machines like when the base branch last asked them? A file that a check without keys reads.

It says where each node differs from the lock of its commit, and not what a node is: who opens a pull request may read it. No
command line, no variable, no word of a node and no process of another is in it: a text is shown only where it is a setting of
the stack file's own language. A value that is left out still counts as different.

A snapshot adds reasons against a merge, and never takes one away: effect, rights and approvals are those of the base's lock.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints, ValidationError

from swarm_iac.errors import Refused
from swarm_iac.model.base import Name, Value
from swarm_iac.model.hardware import GPU_MEMORY
from swarm_iac.model.step import Step, Verb
from swarm_iac.printable import printable
from swarm_iac.review.signature import verified

#: Who may sign, in the base.
SIGNERS = "policies/allowed_signers"
#: The largest file that is read. [bytes]
MAX_BYTES = 8 << 20
#: A clock may be so far ahead of ours.
_AHEAD = datetime.timedelta(minutes=10)
#: Older than this, it is called old: it is written every night, and after each merge.
_OLD = datetime.timedelta(hours=36)
#: What stands for a value that is not published, and for none.
HIDDEN, ABSENT = "(not published)", "absent"
#: What runs, as whom, and with which variables: nothing of its values is published, even if it is a number.
_PRIVATE = re.compile(r"\.unit(?!\.(active|grace_s|time_limit_s|restart|gang)$)")
#: Paths whose texts may be published: settings that the stack file's own words set. Of all others, numbers only.
_PUBLIC = re.compile(
    r'settings\.[a-z_.]+(\["[a-z0-9_.]+"\])?|gpus\[[0-9]+\]\.[a-z_]+|interface|disk|agent'
    r'|allocations\["[a-z0-9-]+"\]\.(slice|bandwidth)\.[a-z_]+|allocations\["[a-z0-9-]+"\]\.gpus'
)
#: One word, or numbers: no sentence that a node might write there.
_PLAIN = re.compile(r"[A-Za-z0-9_.,/-]{0,40}|\[?[0-9., \t-]{0,80}\]?")
_MODEL = f"(?:{'|'.join(map(re.escape, GPU_MEMORY))})"
_COUNT = rf"[0-9.]{{1,9}}(?: x {_MODEL}| GB| CPUs| NUMA nodes| of memory){{0,2}}"
_PART = rf"(?:no GPU|{_COUNT}(?: and {_COUNT})*) found, {_COUNT}(?:\|{_MODEL})* declared"
#: How hardware differs, in our own words and models that we know: what a node calls itself is none of them.
_HARDWARE = re.compile(rf"as declared|{_PART}(?:, {_PART})*")
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,6})?|True|False")
_NOTHING = re.compile(r"absent|done|")
_PATH = re.compile(r'[A-Za-z0-9_.,/:\-]+(\[("[A-Za-z0-9_.,/:\-]{1,80}"|[0-9]{1,5})\][A-Za-z0-9_.]*)*')
Kind = Literal["value", "step", "halted", "hardware"]
Health = Literal["starting", "stopping", "stopped", "failed", "waiting", "unknown"]
_ENDS = tuple(f"{verb} " for verb in (Verb.STOP, Verb.RELEASE, Verb.RESTORE))


class NodeDifference(Value):
    """Something about a node that is not as the lock has it. `wanted` and `found` are texts for people."""

    what: str = Field(max_length=240, description="Path of a value, `VERB ALLOCATION` of a step, or `hardware`.")
    wanted: str = Field(default="", max_length=240)
    found: str = Field(default="", max_length=240)
    kind: Kind = "value"


class NodeReport(Value):
    """One node. Of one that did not answer nothing else is known."""

    answered: bool = True
    differences: tuple[NodeDifference, ...] = ()
    health: dict[Name, Health] = Field(default={}, description="Of each allocation that is neither healthy nor finished.")
    finished: tuple[Name, ...] = Field(default=(), description="Jobs that have finished, by allocation.")


class FleetSnapshot(Value):
    """All nodes of one stack at one moment. `commit`: whose lock they are compared with."""

    format: Literal[1] = 1
    stack: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    fleet: Name
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
    at: AwareDatetime
    nodes: dict[Name, NodeReport] = {}

    def text(self) -> bytes:
        """One line of JSON, to be signed."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True).encode() + b"\n"


def published(one: NodeDifference) -> NodeDifference:
    """The same difference with nothing in it that not everyone may read who can open a pull request."""
    what = one.what.partition(".unit.env")[0] + (".unit.env" if ".unit.env" in one.what else "")
    if not _PATH.fullmatch(what.replace(" ", "/")):
        what = "something else"
    plain = _NOTHING if _PRIVATE.search(what) else _PLAIN if _PUBLIC.fullmatch(what) else _NUMBER
    plain = _HARDWARE if one.kind == "hardware" else plain
    wanted, found = (text if plain.fullmatch(text) or _NOTHING.fullmatch(text) else HIDDEN for text in (one.wanted, one.found))
    return one.model_copy(update={"what": what, "wanted": wanted, "found": found})


def shown(value: Any) -> str:
    """A value of a step as a text."""
    return ABSENT if value is None else printable(str(value), 200)


def read(data: bytes, allowed: bytes | None) -> FleetSnapshot:
    """A published file. `allowed`: the signers that the base allows. Raises Refused for any that is not theirs."""
    if allowed is None:
        raise Refused(
            f"the base has no {SIGNERS}, so no snapshot can be verified", hint="docs/pull-requests.md says how it is made"
        )
    if len(data) > MAX_BYTES:
        raise Refused(f"the snapshot has more than {MAX_BYTES >> 20} MiB")
    try:
        text = verified(data, allowed)
    except Refused as refused:
        raise Refused(f"the snapshot is refused: {refused.message}", hint=refused.hint) from None
    try:
        return FleetSnapshot.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(f"the snapshot is none that this version reads: {printable(where, 80)}: {first['msg']}") from None


def age(snapshot: FleetSnapshot, now: datetime.datetime) -> str:
    """How old it is, for people. Raises Refused for one of the future."""
    since = now - snapshot.at
    if since < -_AHEAD:
        raise Refused(f"the snapshot is of {snapshot.at:%Y-%m-%d %H:%M} UTC, which is to come", hint="compare the clocks")
    minutes = max(0, int(since.total_seconds()) // 60)
    text = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} days"
    return f"{text}{', which is old' if since > _OLD else ''}"


def in_the_way(snapshot: FleetSnapshot, steps: Iterable[Step]) -> Iterator[str]:
    """What `swarm pr apply` would refuse as long as the machines are so: they differ on a node where the plan acts.

    A value that the plan leads to anyway is none. What is not of the declared hardware, or halted, is deferred and not refused.
    """
    known = tuple(steps)
    leads = {(step.node, change.path): shown(change.new) for step in known for change in step.changes}
    for node in dict.fromkeys(step.node for step in known):
        for one in snapshot.nodes.get(node, NodeReport()).differences:
            if one.kind == "value" and leads.get((node, one.what)) != one.found:
                yield f"{node}: {one.what} is {one.found} and should be {one.wanted}"
            elif one.kind == "step" and one.what.startswith(_ENDS):
                yield f"{node}: {one.what} would be needed"


def notes(snapshot: FleetSnapshot, steps: Iterable[Step], pending: Iterable[str]) -> Iterator[str]:
    """What is worth knowing about the nodes where the plan acts, and about what is `pending`."""
    acts = dict.fromkeys(step.node for step in steps)
    silent = [node for node in acts if not snapshot.nodes.get(node, NodeReport()).answered]
    if silent:
        yield f"{_some(silent)} did not answer then: what changes there waits until it does"
    unknown = [node for node in acts if node not in snapshot.nodes]
    if unknown:
        yield f"{_some(unknown)}: not in the snapshot, so nothing is known about it"
    odd = [node for node in acts for one in snapshot.nodes.get(node, NodeReport()).differences if one.kind == "hardware"]
    if odd:
        yield f"{_some(odd)}: not the declared hardware, so it gets nothing new"
    ill = [
        f"{name} ({how}, {node})" for node in acts for name, how in snapshot.nodes.get(node, NodeReport()).health.items()
    ]  # fmt: skip
    if ill:
        yield f"not healthy then: {_some(ill)}"
    over = [name for report in snapshot.nodes.values() for name in report.finished]
    waits = tuple(pending)
    if over and waits:
        where = "`swarm solve`, where machines can be asked, decides again"
        yield f"{_some(over)} finished since, and {_some(waits)} waits: {where}"


def silent(snapshot: FleetSnapshot) -> tuple[str, ...]:
    """Nodes that did not answer."""
    return tuple(name for name, one in sorted(snapshot.nodes.items()) if not one.answered)


def rows(nodes: Mapping[str, NodeReport]) -> Iterator[tuple[str, NodeDifference]]:
    """Every difference with its node."""
    for name, one in sorted(nodes.items()):
        yield from ((name, each) for each in one.differences)


def _some(names: Iterable[str], most: int = 5) -> str:
    every = tuple(dict.fromkeys(names))
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
