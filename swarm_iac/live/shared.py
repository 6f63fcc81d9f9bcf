"""What has the state of the live layer, for all clones, and who may replace it? With the leader: the autopilot that decides.

The engine's lock lets one run at a time write the state, on every backend. A writer names the version that its layer was made
from. Where the state has another one by then, or another leader's lease runs, it is refused, and nothing is done to a machine:
compare-and-swap, so a clock that is wrong delays, and never lets two decide about the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from swarm_iac.errors import Refused
from swarm_iac.live.layer import LONGEST, Layer, Moment, Version, Words
from swarm_iac.model.base import Value
from swarm_iac.printable import printable

#: The resource of the state that has it.
TYPE = "swarm:index:Live"
#: Characters of its layer.
MOST_TEXT = 16_000_000
#: Writings of it. What a file may count to is more, so that nobody who takes such a number cannot count on.
MOST_WRITINGS = 1 << 52
_BASE: TypeAdapter[Version | None] = TypeAdapter(Version | None)


class Leader(Value):
    """The autopilot that decides until its lease ends. `id`: its clone; `who`: for people; `at`: when it renewed that.

    `watched`: for how long it saw another leader not renew its lease, by a clock that is never set, before it took over. [s]
    """

    id: str = Field(pattern="^[0-9a-f]{32}$")
    who: Words = Field(default="", max_length=160)
    at: Moment
    lease: float = Field(gt=0, le=LONGEST, allow_inf_nan=False, description="[s]")
    watched: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def left(self, now: float) -> float:
        """How long it leads. [s] A clock that was set back never lengthens that."""
        return min(self.at + self.lease - now, self.lease)

    def __str__(self) -> str:
        return f"{self.who}, until {datetime.datetime.fromtimestamp(self.at + self.lease, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


_LEADER: TypeAdapter[Leader | None] = TypeAdapter(Leader | None)


@dataclass(frozen=True)
class Shared:
    """What the state has. `base`: the version before it."""

    version: Version
    layer: Layer
    leader: Leader | None = None
    base: Version | None = None

    def inputs(self) -> dict[str, str]:
        """As inputs of the resource, each a text."""
        return {
            "version": self.version.model_dump_json(),
            "base": _BASE.dump_json(self.base).decode(),
            "leader": _LEADER.dump_json(self.leader).decode(),
            "layer": self.layer.model_copy(update={"base": None}).model_dump_json(exclude_defaults=True),
        }


def of_inputs(inputs: Mapping[str, Any]) -> Shared:
    """Raises Refused for what are no such inputs."""
    try:
        text = str(inputs["layer"])
        if len(text) > MOST_TEXT:
            raise ValueError(f"has more than {MOST_TEXT:,} characters")
        found = Shared(
            Version.model_validate_json(str(inputs["version"])),
            Layer.model_validate_json(text),
            _LEADER.validate_json(str(inputs["leader"])),
            _BASE.validate_json(str(inputs["base"])),
        )
        if max(found.version.number, found.layer.generation) > MOST_WRITINGS:
            raise ValueError(f"was written more than {MOST_WRITINGS:,} times, it says")
        return found
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(printable(str(step), 60) for step in first["loc"])
        raise no_layer(f"{where or error.title}: {printable(str(first['msg']), 200)}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise no_layer(printable(str(error), 200)) from None


def no_layer(why: str) -> Refused:
    """The error about what the state has."""
    hint = f"`pulumi state delete` the resource {TYPE}; live replicas are then granted again if the load is there"
    return Refused(f"the state's live layer is none: {why}", hint=hint)


def superseded(there: Shared | None, mine: Layer, me: str) -> bool:
    """Has another clone, or a later writing of this one, replaced what `mine` was made from?

    A state that was put back to an earlier version replaces nothing.
    """
    if there is None:
        return False
    if there.version.writer == me:
        return there.layer.generation > mine.generation
    return _later(there.version, mine.base)


def successor(there: Shared | None, mine: Layer, me: str, leader: Leader | None) -> Shared:
    """What replaces it in the state."""
    known = there.version if there else None
    number = 1 + max((one.number for one in (known, mine.base) if one), default=0)
    return Shared(Version(number=number, writer=me), mine, leader, base=known)


def refusal(there: Shared | None, fresh: Shared, now: float) -> str:
    """Why `fresh` may not replace what is `there` at `now` [s since 1970]; empty if it may."""
    if there is None or there.version == fresh.version:
        return ""
    if there.version != fresh.base:
        return f"the live layer was replaced meanwhile: version {there.version.number}, and this was made from another"
    leads, mine = there.leader, fresh.leader
    if leads is None or leads.id == fresh.version.writer or (mine and mine.id == leads.id):
        return ""
    if leads.left(now) > 0 and (mine is None or mine.watched < leads.lease):
        return f"another autopilot leads: {leads}"
    return ""


def _later(one: Version, than: Version | None) -> bool:
    return than is None or one.number > than.number or (one.number == than.number and one.writer != than.writer)
