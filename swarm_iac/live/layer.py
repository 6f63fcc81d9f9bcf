"""What is granted above the lock, by whom, until when, and how is it known that it can be revoked? Which nodes are off?"""

from __future__ import annotations

import datetime
import math
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from swarm_iac.model.base import Name, Value
from swarm_iac.model.placement import Allocation
from swarm_iac.printable import printable

#: What one layer may have at most.
MOST = 20_000
#: Longest lease. [s]
LONGEST = 3600.0

Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False, description="[s since 1970]")]


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("has characters that are not printable")
    return value


#: Characters of a text in the layer.
_LONGEST_WORDS = 300
#: A text that steers no terminal.
Words = Annotated[str, Field(max_length=_LONGEST_WORDS), AfterValidator(_printable)]


def words(text: str) -> str:
    """Anybody's text as `Words` takes it: one line of printable characters, cut to its length."""
    line = " ".join(printable(text).split())
    return "".join(each if each.isprintable() else "?" for each in line)[:_LONGEST_WORDS]


class _Plain(Value):
    """A value of the file: of exactly these types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Grant(Value):
    """One replica above those that the lock has."""

    allocation: Allocation
    reason: Words = Field(description="Why it was granted, with the figures.")
    at: Moment

    @model_validator(mode="after")
    def _named(self) -> Grant:
        one = self.allocation
        if one.name != f"{one.workload}-{one.index}" or one.ended:
            raise ValueError(f"{one.name[:60]!r} is no running replica of {one.workload}")
        return self


class LastChange(_Plain):
    """The last change of a workload's number of replicas."""

    at: Moment
    direction: Literal["up", "down"]


class Carried(_Plain):
    """For one node and resource: what it has, what the lock holds of it, and what the live replicas hold. Base units."""

    resource: Words
    has: int = Field(ge=0)
    guaranteed: int = Field(ge=0)
    live: int = Field(ge=0)


class Certificate(_Plain):
    """Why every guarantee can be placed with no move of others: taking the live replicas away leaves the lock as it is.

    `lock`: digest of that placement. `nodes`: for each node with a live replica, guaranteed + live ≤ has, for each resource.
    `pending`: guaranteed workloads without a place, none of which would fit even if nothing was live.
    """

    lock: str = Field(pattern="^[0-9a-f]{12}$")
    nodes: dict[Name, list[Carried]] = {}
    pending: list[Name] = []


#: suspending, off, resuming: nobody is asked there, and that is no fault. failed: it did not answer after it was powered on.
PowerState = Literal["suspending", "off", "resuming", "failed"]
_ASLEEP = {"suspending": "is being powered off", "off": "is powered off", "resuming": "is being powered on"}


class NodePower(_Plain):
    """A node that is not simply on. `since`: of this state."""

    state: PowerState
    since: Moment
    reason: Words = ""

    def words(self) -> str:
        """For people: what it is, since when (UTC), and why."""
        when = f"{datetime.datetime.fromtimestamp(self.since, datetime.UTC):%Y-%m-%d %H:%M} UTC"
        what = _ASLEEP.get(self.state, "failed to power on")
        return f"{what} since {when}" + (f": {self.reason}" if self.reason else "")


class Version(_Plain):
    """Which layer the state has: its number, and the clone that wrote it. No clone writes one number twice."""

    number: int = Field(ge=1, le=1 << 53)
    writer: str = Field(pattern="^[0-9a-f]{32}$")


class Layer(Value):
    """All live replicas of one stack. `generation` grows with each writing; `unapplied`: nodes that do not have it yet.

    `stopping`: live replicas that were taken away since those nodes had it. `power`: nodes that are not simply on.
    `base`: what the state had when this was last taken from it, or put there. Of a file alone.
    """

    version: Literal[1] = 1
    fleet: Words = Field(default="", max_length=64)
    stack: Words = Field(default="", max_length=200)
    generation: int = Field(default=0, ge=0, le=1 << 53)
    unapplied: tuple[Name, ...] = Field(default=(), max_length=MOST)
    stopping: int = Field(default=0, ge=0, le=MOST)
    by: Words = ""
    at: Moment = 0.0
    lease: float = Field(default=600.0, gt=0, le=LONGEST, allow_inf_nan=False, description="Life of the grants, from `at`. [s]")
    grants: tuple[Grant, ...] = Field(default=(), max_length=MOST)
    changed: dict[Name, LastChange] = {}
    certificate: Certificate | None = None
    power: dict[Name, NodePower] = Field(default={}, max_length=MOST)
    base: Version | None = None

    @model_validator(mode="after")
    def _each_once(self) -> Layer:
        names = [one.allocation.name for one in self.grants]
        if len(set(names)) < len(names):
            raise ValueError("grants one replica twice")
        return self

    @property
    def until(self) -> float:
        """When its grants end, by the clock that wrote it. [s since 1970]"""
        return self.at + self.lease

    def left(self, now: float) -> float:
        """How long its grants are in force. [s] A clock that was set back never lengthens that."""
        return min(self.until - now, self.lease)

    def age(self, workload: str, now: float) -> float:
        """Since when the workload's number of replicas is as it is [s]; 0 where the clock was set back since."""
        change = self.changed.get(workload)
        return math.inf if change is None else max(0.0, now - change.at)

    @property
    def asleep(self) -> dict[str, str]:
        """Nodes that the autopilot powered off, or is about to, or powers on → what to tell of them."""
        return {name: one.words() for name, one in self.power.items() if one.state in _ASLEEP}

    @property
    def failed(self) -> dict[str, str]:
        """Nodes that did not answer after they were powered on → what to tell of them."""
        return {name: one.words() for name, one in self.power.items() if one.state not in _ASLEEP}

    def of(self, workload: str) -> tuple[Grant, ...]:
        """The grants of a workload, in the order of their numbers."""
        return tuple(sorted((g for g in self.grants if g.allocation.workload == workload), key=lambda g: g.allocation.index))
