"""How is a goal shown to a person? `37.5 of 40 GPUs placed, priority normal`; proofs and --json keep names and units.

One table of words for all that shows goals: terminal, page, and the comment on a pull request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from swarm_iac.model.device import WHOLE
from swarm_iac.model.gpus.worth import weights
from swarm_iac.model.placement import Goal
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES

#: Of one, and of several. What counts by priority has that before its name: `normal_placed_gpus`.
WORDS = {
    "guaranteed": ("guaranteed GPU still held", "guaranteed GPUs still held"),
    "stay_without_gpus": ("replica without GPUs still placed", "replicas without GPUs still placed"),
    "share_stay": ("due GPU still held by what could stay", "due GPUs still held by what could stay"),
    "share_kept": ("due GPU still held by what ran", "due GPUs still held by what ran"),
    "share": ("GPU held of what teams are due", "GPUs held of what teams are due"),
    "stay_gpus": ("GPU still held by what could stay", "GPUs still held by what could stay"),
    "stay_replicas": ("replica still placed that could stay", "replicas still placed that could stay"),
    "running_gpus": ("GPU still held by what ran", "GPUs still held by what ran"),
    "running_replicas": ("replica still placed that ran", "replicas still placed that ran"),
    "placed_gpus": ("GPU placed", "GPUs placed"),
    "placed_replicas": ("replica placed", "replicas placed"),
    "kept": ("% of the fleet (all resources added) still held by what ran",) * 2,
    "moves": ("move of a running replica", "moves of running replicas"),
    "shifts": ("replica that restarts anyway and leaves its node", "replicas that restart anyway and leave their nodes"),
    "near": ("rack or site beyond the first of a workload", "racks or sites beyond the first of each workload"),
    "alone": ("replica without one that it is to be with near it", "replicas without one that they are to be with near them"),
    "beside": ("workload beside another one of `prefer_apart`", "workloads beside another one of `prefer_apart`"),
    "preferred": ("preferred label lacking", "preferred labels lacking"),
    "overqualification": ("step of larger GPUs than needed", "steps of larger GPUs than needed"),
    "within_numa": ("new replica not split over NUMA nodes needlessly", "new replicas not split over NUMA nodes needlessly"),
    "split": ("replica split over NUMA nodes", "replicas split over NUMA nodes"),
    "nodes": ("node in use", "nodes in use"),
}
#: The same, as `swarm rebalance` compares them.
WORDS |= {"gpus": WORDS["placed_gpus"], "replicas": WORDS["placed_replicas"]}
#: Those of teams that share GPUs, which count a priority with those above it, and GPUs by what models are worth.
_OF_TEAMS = ("guaranteed", "share_stay", "share_kept", "share")
_NAME = re.compile(rf"(?:({'|'.join(PRIORITIES)})_)?(.+?)(?:_(\d{{1,3}}))?")
#: `kept` counts in these parts of a percent.
_OF_PERCENT = 100


@dataclass(frozen=True)
class GoalText:
    """One goal in a person's words and units. `best`: what no placement exceeds."""

    one: str
    several: str
    priority: str
    reached: str
    best: str

    @property
    def words(self) -> str:
        """What is counted, for as many as `best`."""
        return (self.one if self.best == "1" else self.several) + _of_priority(self.priority)

    def __str__(self) -> str:
        if self.reached == self.best:
            return f"{self.best} {self.words}"
        if Decimal(self.reached) < Decimal(self.best):
            return f"{self.reached} of {self.best} {self.words}"
        return f"{self.reached} {self.several}{_of_priority(self.priority)} (at best {self.best})"


def goal_texts(goals: Iterable[Goal], stack: Stack) -> tuple[GoalText, ...]:
    """The goals of a placement of this stack, in the variants that are in effect. A name that is not known stays as it is."""
    parts = any(one.each.gpus.count and not one.each.gpus.whole for one in stack.workloads.values())
    models = {name: stack.hardware_of(name).gpus.model for name in stack.nodes if stack.hardware_of(name).gpus.count}
    counted = weights(stack.worth, models)
    dominant = stack.solve.share_by == "dominant_resource"
    per_due = (WHOLE if parts or dominant else 1) * counted.one
    by = ", by dominant resource" if dominant else ", by worth" if counted.nodes else ""
    return tuple(_text(goal, per_due, by) for goal in goals)


def figure(name: str, value: int) -> GoalText:
    """So much of what does not depend on the stack: GPUs, replicas, moves, nodes."""
    return _text(Goal(name=name, value=value, bound=value), 1, "")


def _text(goal: Goal, per_due: int, by: str) -> GoalText:
    """`per_due`: so much of a goal about teams is one GPU."""
    milli = goal.name.endswith("_gpu_milli")
    level, name, depth = _parts(goal.name.removesuffix("_gpu_milli") + "_gpus" if milli else goal.name)
    one, several = WORDS.get(name, (goal.name, goal.name))
    per, more = WHOLE if milli and name in WORDS else _OF_PERCENT if name == "kept" else 1, ""
    if name in _OF_TEAMS:
        per, more = per_due, by
        more += f", of teams inside {'another' if depth == 2 else f'{depth - 1} others'}" if depth > 1 else ""
        level += "" if level in ("", "high") else " or higher"
    return GoalText(one + more, several + more, level, _number(goal.value, per), _number(goal.bound, per))


def _of_priority(priority: str) -> str:
    return f", priority {priority}" if priority else ""


def _parts(name: str) -> tuple[str, str, int]:
    """`normal_share_2` as priority, name and depth of teams."""
    found = _NAME.fullmatch(name)
    if found is None or found[2] not in WORDS:
        return "", name, 1
    return found[1] or "", found[2], int(found[3] or 1)


def _number(value: int, per: int) -> str:
    return f"{(Decimal(value) / per).normalize():f}"
