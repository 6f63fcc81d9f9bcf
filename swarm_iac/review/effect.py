"""What does a change do, and to whom? A value that can be stored, compared and approved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from swarm_iac.model.base import Value

#: Hours of a month: 365 days of 24 hours, by twelve.
MONTH = 730

Becomes = Literal["stopped", "moved", "restarted", "changed", "started"]
#: How much is taken from the user of an allocation; the former are worse than the latter.
HARM = {"stopped": 3, "moved": 2, "restarted": 1, "changed": 0, "started": 0}


class Amount(Value):
    """One resource of an allocation before and after, in base units."""

    resource: str
    old: int
    new: int
    text: str = Field(description="Both for people: `4 → 2 GPUs`.")


class AllocationEffect(Value):
    """What becomes of one allocation."""

    name: str = Field(description="As it runs on its node.")
    user: str = Field(description="Whose it is before the change; of a new one, after it.")
    team: str = Field(default="", description="Team of that user in the base; empty: none.")
    becomes: Becomes
    before: str = Field(default="", description="Node before; empty: none.")
    after: str = Field(default="", description="Node after; empty: none.")
    why: str = ""
    amounts: tuple[Amount, ...] = Field(default=(), description="What changes; of a started one, all that it holds.")

    @property
    def shrinks(self) -> tuple[Amount, ...]:
        """Resources that it loses while it runs on."""
        return () if self.becomes in ("stopped", "started") else tuple(one for one in self.amounts if one.new < one.old)

    @property
    def harms(self) -> bool:
        """Is its user worse off than before?"""
        return HARM[self.becomes] > 0 or bool(self.shrinks)


def loss(one: AllocationEffect) -> str:
    """What an allocation loses, in words: `pretrain-0 of ada stops (gpu-01): preempted by big`."""
    where = {
        "moved": moves(one),
        "stopped": f"stops ({one.before})",
        "restarted": f"restarts ({one.after})",
    }
    words = [where.get(one.becomes, ""), ", ".join(each.text for each in one.shrinks)]
    return f"{one.name} of {one.user} {', '.join(filter(None, words))}{f': {one.why}' if one.why else ''}"


def moves(one: AllocationEffect) -> str:
    """Where a moved allocation goes: to another node, or to another machine under the same name."""
    same = one.before == one.after
    return f"moves with the address of {one.after}" if same else f"moves {one.before} → {one.after}"


class NodeEffect(Value):
    """What becomes of one node."""

    name: str
    becomes: Literal["added", "removed", "configured", "ready", "cordon", "drain", "lost", "readdressed"]
    old: str = Field(default="", description="Of a readdressed one, where its name led.")
    new: str = Field(default="", description="Of a readdressed one, where its name leads.")


class RaisedPriority(Value):
    """A workload with a higher priority than before; a new one counts as one that had the default."""

    workload: str
    user: str
    old: str
    new: str


class ChangedValue(Value):
    """One value of the stack file. `by`: users of whom one has to approve; empty: the author may change it."""

    path: str
    old: str = Field(default="", description="As JSON; empty: it was not there.")
    new: str = Field(default="", description="As JSON; empty: it is not there any more.")
    place: str = Field(default="", description="Where it is: file and line of the head, or of the base for what is removed.")
    by: tuple[str, ...] = ()


class Cost(Value):
    """What the GPUs of a team cost per month, in ten-thousandths of the currency; team "": of users without a team."""

    team: str
    before: int
    after: int


class NearLimit(Value):
    """A limit that is used for the greater part after the change."""

    subject: str
    resource: str
    used: str
    ceiling: str
    percent: int


class PendingWorkload(Value):
    """A workload that is pending after the change."""

    workload: str
    user: str
    missing: int
    why: str
    fix: str = Field(default="", description="The cheapest tested fix, as typed for `swarm what-if`.")
    new: bool = Field(default=True, description="Was it not pending before the change?")


class StackEffect(Value):
    """What the change does in one stack."""

    stack: str
    allocations: tuple[AllocationEffect, ...] = ()
    nodes: tuple[NodeEffect, ...] = ()
    values: tuple[ChangedValue, ...] = ()
    costs: tuple[Cost, ...] = ()
    currency: str = ""
    near: tuple[NearLimit, ...] = ()
    pending: tuple[PendingWorkload, ...] = ()
    priorities: tuple[RaisedPriority, ...] = ()

    def of(self, *becomes: Becomes) -> tuple[AllocationEffect, ...]:
        """The allocations that become one of these."""
        return tuple(one for one in self.allocations if one.becomes in becomes)

    @property
    def shrunk(self) -> tuple[AllocationEffect, ...]:
        """Allocations that run on with less."""
        return tuple(one for one in self.allocations if one.shrinks)


class ChangedFile(Value):
    """A file that is no stack file, lock or proof. `blob`: its content afterwards; empty where it is deleted."""

    name: str
    blob: str = ""
    by: tuple[str, ...] = Field(default=(), description="Users of whom one has to approve; empty: anyone may.")


class Effect(Value):
    """What merging does: in each stack that it changes, and to other files."""

    stacks: tuple[StackEffect, ...] = ()
    files: tuple[ChangedFile, ...] = ()

    @property
    def digest(self) -> str:
        """Of the whole effect; two equal effects have the same."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def harmed(self) -> Iterator[tuple[str, AllocationEffect]]:
        """Stack and allocation of everyone who is worse off."""
        for stack in self.stacks:
            yield from ((stack.stack, one) for one in stack.allocations if one.harms)

    def affected(self) -> tuple[str, ...]:
        """Users who are worse off, sorted."""
        return tuple(sorted({one.user for _, one in self.harmed()}))

    def as_json(self) -> dict[str, Any]:
        """What a forge stores beside an approval."""
        return self.model_dump(mode="json")
