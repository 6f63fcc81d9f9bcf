"""What is one change to one node, and what does it wait for?"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from swarm_iac.model.base import Name, Value


class Verb(StrEnum):
    """Kinds of step, in the order in which one node runs those that are ready together."""

    PREPARE = "prepare"  # install the node program and the boot unit, open the ledger
    STOP = "stop"  # ask a unit to end, wait out its grace
    RELEASE = "release"  # give an allocation's slice, directories, devices and bandwidth back
    SETTINGS = "settings"  # sysctl, huge pages, governor
    GPUS = "gpus"  # persistence, clock, power
    STORAGE = "storage"  # the disk itself: make the file system when blank, mount
    TELEMETRY = "telemetry"  # what measures the node; before what it measures, so that names are known
    SLICE = "slice"  # cgroup, devices
    DIRECTORIES = "directories"  # scratch and cache with quota
    TRAFFIC = "traffic"  # bandwidth classes
    START = "start"  # write and start the unit
    HEALTH = "health"  # wait until it is healthy
    RESTORE = "restore"  # put the originals back, remove the node program and the ledger


class Change(Value):
    """One value: where it stands in NodeState, what it was, what it becomes. None: absent."""

    path: str
    old: Any = None
    new: Any = None


class Step(Value):
    """One change to one node. `want` is what the node's program is given: always a NodeState with only what concerns it.

    verb                          id                want
    PREPARE, RESTORE              NODE/VERB         {}
    STOP, RELEASE                 NODE/VERB/ALLOC   {}; RELEASE gives everything of ALLOC back, its directories too
    SETTINGS                      NODE/settings     {settings}: whole; what the ledger holds beyond it is restored
    GPUS                          NODE/gpus[/ALLOC] {gpus: {index: …}}: only these GPUs; a null in it is restored
    STORAGE                       NODE/storage      {disk}; empty: restored
    TRAFFIC                       NODE/traffic      {interface, interface_bps}; empty: restored
    TELEMETRY                     NODE/telemetry    {telemetry}; null: restored
    SLICE, DIRECTORIES, TRAFFIC,  NODE/VERB/ALLOC   {interface, interface_bps, disk, allocations: {ALLOC: whole state}};
    START, HEALTH                                   each verb takes its own part: slice and gpus; scratch and cache; …
    SLICE, TRAFFIC                NODE/VERB/ALLOC/give   the same, with what it keeps while others take what it gives
    GPUS                          NODE/gpus[/ALLOC]/lower  as GPUS: power limits that fall before others in the rack rise
    """

    id: str = Field(description="NODE/VERB, NODE/VERB/ALLOCATION or longer, as listed above.")
    node: Name
    verb: Verb
    allocation: str = Field(default="", description="The allocation it is about; empty: the node itself.")
    changes: tuple[Change, ...] = ()
    want: dict[str, Any] = Field(default={}, description="Argument of the step: a part of NodeState as JSON.")
    after: tuple[str, ...] = Field(default=(), description="Ids of the steps that must have succeeded.")
    why: str = ""
    rollout: tuple[str, ...] = Field(default=(), description="Nodes that get the same change one after the other; or none.")


class Deferred(Value):
    """A step that would be needed and is not in the plan, and why."""

    step: Step
    why: str
    cause: Literal["unreachable", "asleep", "mismatch", "runs", "halted", "part"] = Field(
        description="A node does not answer, or is not what was declared; a job runs that had ended; a roll-out halted; or it "
        "was not asked for."
    )


class Plan(Value):
    """Steps in an order that respects `after`, and what stands beside them."""

    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    deferred: tuple[Deferred, ...] = Field(default=(), description="What is left for a later run.")

    def waves(self) -> tuple[tuple[Step, ...], ...]:
        """Steps in groups: a step's wave is one above what it waits for on other nodes, or of a later verb on its own.

        Within one node and wave the order of Verb, then of `steps`, settles what waits for what, so a wave is one run.
        """
        rank = {verb: number for number, verb in enumerate(Verb)}
        level: dict[str, int] = {}
        known = {step.id: step for step in self.steps}
        for step in self.steps:
            level[step.id] = max(
                (
                    level[before] + (known[before].node != step.node or rank[known[before].verb] > rank[step.verb])
                    for before in step.after
                    if before in level
                ),
                default=0,
            )
        groups: list[list[Step]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for step in self.steps:
            groups[level[step.id]].append(step)
        return tuple(tuple(group) for group in groups)


class StepResult(Value):
    """What became of one step."""

    id: str
    ok: bool
    changed: bool = False
    message: str = Field(default="", description="The node's own words.")
    skipped: bool = Field(default=False, description="Not run, because something it waits for failed.")
    pending: bool = Field(default=False, description="Begun and not ended: it wants to be asked again.")
    began: float = Field(default=0, description="When it was first asked. [s since 1970, by this machine's clock]")
    seconds: float = Field(default=0, description="From then until its end.")
