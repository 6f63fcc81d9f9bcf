"""Why is a workload where it is, or nowhere?

Not placed: of all rules that speak about it, the smallest set that together forbids its next replica (or its whole
gang) with everything else left where it stands. Rules are taken away one by one; what cannot go is the answer.
"""

from __future__ import annotations

from dataclasses import replace

from swarm_iac.model.placement import Placement, Reason
from swarm_iac.model.stack import Stack
from swarm_iac.solver.counting import CLUSTER_RULES, EVERY, NODE_RULES, RACK_RULES, USER_RULES, reach
from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import FIT
from swarm_iac.solver.scene import Ask, Scene, scene_of
from swarm_iac.solver.solution import Explanation
from swarm_iac.solver.wording import fits_here, forbids

GANG = "gang_is_whole_or_absent"
#: What is taken away first is named least: the order of suspicion, most telling last.
ORDER = (
    GANG,
    *CLUSTER_RULES, *reversed(RACK_RULES), *reversed(NODE_RULES[7:]), *USER_RULES,
    "within_keeps_together", "spread_keeps_apart",
    *reversed(NODE_RULES[:7]), *(name for name, _ in FIT),
)  # fmt: skip
assert set(ORDER) == EVERY | {GANG}


def why(stack: Stack, placement: Placement, workload: str) -> Explanation:
    """The reasons about one workload. Raises KeyError for an unknown one."""
    scene = scene_of(stack, placement)
    ask = scene.asks[workload]
    room = room_of(scene, placement)
    mine = [a for a in placement.allocations if a.workload == workload]
    missing = max(0, ask.wanted - len(mine))
    if missing:
        listed = next((one.reasons for one in placement.unplaced if one.workload == workload), ())
        return Explanation(workload=workload, placed=len(mine), missing=missing, reasons=reasons(room, ask) or listed)
    return Explanation(workload=workload, placed=len(mine), missing=0, reasons=fits_here(scene, room, ask))


def room_of(scene: Scene, placement: Placement) -> Room:
    """What is free beside a placement."""
    room = Room(scene)
    for a in placement.allocations:
        if a.workload in scene.asks and a.node in scene.bins:
            room.take(scene.asks[a.workload], scene.bins[a.node], 1)
    return room


def conflict(room: Room, ask: Ask) -> tuple[str, ...]:
    """The smallest set of rules that forbids one more replica (all of a gang); empty when nothing does."""
    on = set(ORDER) if ask.gang else set(ORDER) - {GANG}
    if not _forbidden(room, ask, on):
        return ()
    for rule in ORDER:
        if rule in on and _forbidden(room, ask, on - {rule}):
            on.discard(rule)
    return tuple(rule for rule in reversed(ORDER) if rule in on)


def _forbidden(room: Room, ask: Ask, on: set[str]) -> bool:
    goal = ask.members - room.counts[ask.name].total() if GANG in on else 1
    return reach(room, ask, on) < goal


def reasons(room: Room, ask: Ask) -> tuple[Reason, ...]:
    """One reason for each rule of the smallest conflict, with figures and its path in the stack file."""
    return Causes(room).of(ask)


class Causes:
    """The reasons of many workloads beside one placement; conflicts of equal workloads are found once."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.known: dict[Ask, tuple[str, ...]] = {}

    def of(self, ask: Ask) -> tuple[Reason, ...]:
        """`reasons` for one workload."""
        if self.room.counts[ask.name]:
            return _told(self.room, ask, conflict(self.room, ask))
        alike = replace(ask, name="")
        if alike not in self.known:
            self.known[alike] = conflict(self.room, ask)
        return _told(self.room, ask, self.known[alike])


def _told(room: Room, ask: Ask, rules: tuple[str, ...]) -> tuple[Reason, ...]:
    if ask.members < ask.wanted and room.counts[ask.name].total() >= ask.members:
        text = f"an exception for {ask.user} has ended: what runs may stay, and nothing may be added"
        return (Reason(rule="user_stays_under_limits", text=text, path="limits.except"),)
    if not rules:
        text = "room was left, and the solver's effort ended before it was used"
        return (Reason(rule="effort", text=text, path="solve.effort"),)
    return tuple(forbids(room, ask, rule, frozenset(rules)) for rule in rules)
