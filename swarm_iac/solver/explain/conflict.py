"""Which rules keep a workload out?

Of all rules that speak about it, the smallest set that together forbids its next replica (or its whole
gang) with everything else left where it stands. Rules are taken away one by one; what cannot go is the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import replace
from functools import cached_property
from typing import Literal

from swarm_iac.model.placement import Allocation, Placement, Reason
from swarm_iac.solver.explain.counting import (
    CLUSTER_RULES,
    EVERY,
    NODE_RULES,
    NUMA_RULE,
    RACK_RULES,
    USER_RULES,
    Ruled,
    keeping_out,
    reach,
)
from swarm_iac.solver.explain.messages import budget_spent, devices_taken, forbids, over_limit
from swarm_iac.solver.repair.fewest_moves import moves_of
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import BUDGETS, MACHINE
from swarm_iac.solver.snapshot.snapshot import Ask, Scene
from swarm_iac.solver.snapshot.suitability import FIT, suits
from swarm_iac.solver.snapshot.tasks import Settled, settle

_MODEL = "gpu_model_matches"
GANG = "gang_is_whole_or_absent"
#: What is taken away first is named least: the order of suspicion, most telling last.
ORDER = (
    GANG,
    *CLUSTER_RULES, *reversed(RACK_RULES), *reversed(NODE_RULES[len(MACHINE):]), *USER_RULES,
    NUMA_RULE, "within_keeps_together", "spread_keeps_apart",
    *reversed(NODE_RULES[:len(MACHINE)]), *(name for name, _ in FIT),
)  # fmt: skip
assert set(ORDER) == EVERY | {GANG}
#: Rules that count pieces which another rule counts in another way, with that one.
_RULES = {row.name: NODE_RULES[i] for i, row in enumerate(MACHINE)}
_PARTS = {_RULES[row.name]: _RULES[row.part_of] for row in MACHINE if row.part_of}
_TWINS = _PARTS | {whole: part for part, whole in _PARTS.items()}


def room_of(scene: Scene, placement: Placement) -> Room:
    """What is free beside a placement."""
    room = Room(scene)
    if room.single is not None:
        on: dict[str, list[Allocation]] = {}
        for a in placement.going():
            if a.workload in scene.asks and a.node in scene.bins:
                on.setdefault(a.node, []).append(a)
        room.seats = {node: tuple(ones) for node, ones in on.items()}
    for a in placement.going():
        if a.workload in scene.asks and a.node in scene.bins:
            room.take(scene.asks[a.workload], scene.bins[a.node], 1, a.cards)
    return room


def conflict(room: Room, ask: Ask) -> tuple[str, ...]:
    """The smallest set of rules that forbids one more replica (all of a gang); empty when nothing does."""
    return _conflict(_forbid(room, ask), _rules(ask))


def _conflict(forbid: Callable[[Set[str]], bool], rules: Set[str]) -> tuple[str, ...]:
    on = set(rules)
    if not forbid(on):
        return ()
    for rule in ORDER:
        if rule in on and forbid(on - {rule}):
            on.discard(rule)
    return tuple(rule for rule in reversed(ORDER) if rule in on)


def besides(room: Room, ask: Ask, core: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each rule of a conflict: which others, outside of it, have to go with it for a place to be there."""
    if not ask.gang:
        nodes = keeping_out(room, ask)
        fewest = {rule: min((out for out in nodes if out.isdisjoint(set(core) - {rule})), key=_telling) for rule in core}
        return {rule: tuple(one for one in reversed(ORDER) if one in out and one != rule) for rule, out in fewest.items()}
    forbid, every = _forbid(room, ask), _rules(ask)
    found = {}
    for rule in core:
        on = set(core if forbid(every - {rule}) else every) - {rule}
        for other in ORDER:
            if other in every and other not in on and other != rule and not forbid(on | {other}):
                on.add(other)
        found[rule] = tuple(other for other in reversed(ORDER) if other in every - on and other != rule)
    return found


def _rest(room: Room, ask: Ask, gone: Set[str]) -> tuple[str, ...]:
    """With the rules `gone` given up: the fewest others that have to go with them for a place to be there."""
    if ask.gang:
        forbid, on = _forbid(room, ask), set[str]()
        for other in ORDER:
            if other in _rules(ask) - gone and not forbid(on | {other}):
                on.add(other)
        out = _rules(ask) - on
    else:
        out = min((each - gone for each in keeping_out(room, ask)), key=_telling)
    found = tuple(one for one in reversed(ORDER) if one in out and one not in gone)
    return tuple(one for one in found if not _same(one, found))


def _same(rule: str, others: tuple[str, ...]) -> bool:
    """Is it told by another one already? A machine with more vCPUs has more cores, and an uplink goes both ways."""
    twin = _TWINS.get(rule)
    if any(_one_key(rule, other) for other in others[: others.index(rule)]):
        return True
    return twin in others and (rule in _PARTS or others[0] == twin)


def _one_key(rule: str, other: str) -> bool:
    """Do both come from one key of the stack file, as out and in do from an uplink?"""
    one, two = BUDGETS.get(rule), BUDGETS.get(other)
    return one is not None and two is not None and one.key != "" and (one.level, one.key) == (two.level, two.key)


def _telling(rules: Set[str]) -> tuple[int, list[int]]:
    """Few rules first, and then the most telling."""
    return len(rules), sorted(-ORDER.index(rule) for rule in rules)


def _rules(ask: Ask) -> frozenset[str]:
    return EVERY | {GANG} if ask.gang else EVERY


def _forbid(room: Room, ask: Ask) -> Callable[[Set[str]], bool]:
    """Which sets of rules leave no place? For one replica, nodes are looked at once; a gang is counted for each set."""
    if ask.gang:
        ruled = Ruled(room, ask)
        return lambda on: ruled.reach(on) < missing(room, ask, on)
    nodes = keeping_out(room, ask)
    return lambda on: all(not on.isdisjoint(rules) for rules in nodes)


def forbidden(room: Room, ask: Ask, on: Set[str]) -> bool:
    """Do the rules `on` leave no place for one more replica (for all of a gang)?"""
    return reach(room, ask, on) < missing(room, ask, on)


def missing(room: Room, ask: Ask, on: Set[str]) -> int:
    """How many replicas need a place under the rules `on`: one more, or all of a gang."""
    return ask.members - room.counts[ask.name].total() if GANG in on else 1


class Causes:
    """The reasons of many workloads beside one placement; conflicts of equal workloads are found once."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.known: dict[Ask, tuple[Room, tuple[str, ...]]] = {}
        self.told: dict[Ask, tuple[str, tuple[Reason, ...]]] = {}
        self.rooms: dict[int, Room] = {}

    def of(self, ask: Ask) -> tuple[Reason, ...]:
        """One reason for each rule of the smallest conflict, with figures and its path in the stack file."""
        alike = ask if self.room.counts[ask.name] else replace(ask, name="")
        if alike not in self.known:
            room = self.seen(ask)
            self.known[alike] = room, conflict(room, ask)
        room, rules = self.known[alike]
        if alike in self.told and self.told[alike][1]:
            return _renamed(*self.told[alike], ask.name)
        self.told[alike] = ask.name, _told(room, ask, rules, lower=room is not self.room)
        return self.told[alike][1] or self._unspent(ask)

    def _unspent(self, ask: Ask) -> tuple[Reason, ...]:
        """Room was left. One that ran may have it only by a move, and those are counted."""
        scene = self.room.scene
        ran = sum(allocation.workload == ask.name for allocation in self.settled.stay.values())
        counts = Counter({(n, node): k for n, each in self.room.counts.items() for node, k in each.items()})
        spent = moves_of(scene, self.settled, counts)
        if self.room.counts[ask.name].total() < ran and spent + 1 > scene.stack.solve.moves:
            return (budget_spent(scene, spent),)
        if nodes := self._only_anew(ask):
            return (devices_taken(ask, nodes),)
        text = "room was left, and the solver's effort ended before it was used"
        return (Reason(rule="effort", text=text, path="solve.effort"),)

    def _only_anew(self, ask: Ask) -> set[str]:
        """The nodes with room for it, where it ran on each, and its devices stand in the way of others within a NUMA node."""
        ran = {allocation.node for allocation in self.settled.stay.values() if allocation.workload == ask.name}
        if not ran or ask.gang or self.room.single is None:
            return set()
        open_ = {b.name for b in self.room.scene.bins.values() if suits(ask, b) and self.room.most(ask, b) > 0}
        return open_ if open_ <= ran else set()

    @cached_property
    def settled(self) -> Settled:
        """Where everything stood that may stay."""
        return settle(self.room.scene)

    def seen(self, ask: Ask) -> Room:
        """The room without what a lower priority holds, since that would be stopped for it and is no obstacle.

        Where that alone would be enough, the effort ended too early to see it, and the room is told as it is.
        """
        if ask.priority not in self.rooms:
            lower = {name for name, other in self.room.scene.asks.items() if other.priority < ask.priority}
            held = {name for name in lower if self.room.counts[name]}
            self.rooms[ask.priority] = without(self.room, held) if held else self.room
        room = self.rooms[ask.priority]
        return room if forbidden(room, ask, EVERY | {GANG} if ask.gang else EVERY) else self.room


def _renamed(name: str, reasons: tuple[Reason, ...], other: str) -> tuple[Reason, ...]:
    """The reasons of one workload, as those of another that is like it."""
    own, its = f"workloads.{name}", f"workloads.{other}"
    return tuple(
        one.model_copy(update={"path": its + one.path[len(own) :]})
        if one.path == own or one.path.startswith(f"{own}.")
        else one
        for one in reasons
    )


def without(room: Room, workloads: set[str]) -> Room:
    """The same room, as if these workloads had no allocations."""
    other = room.copy()
    for name in sorted(workloads):
        for node, count in list(other.counts[name].items()):
            other.take(other.scene.asks[name], other.scene.bins[node], -count)
    return other


def _told(room: Room, ask: Ask, rules: tuple[str, ...], *, lower: bool) -> tuple[Reason, ...]:
    """Nothing when no rule keeps it out."""
    if ask.members < ask.wanted and room.counts[ask.name].total() >= ask.members:
        over = [one for one in room.scene.over if one.of(ask)]
        whole = replace(ask, members=ask.wanted)
        rest = _rest(room, whole, {(USER_RULES if one.user else CLUSTER_RULES)[one.resource] for one in over})
        core = _rules(whole) - set(rest)
        told_over = [over_limit(room.scene, one) for one in over]
        return (
            *told_over[:1],
            *(one.model_copy(update={"besides": "one"}) for one in told_over[1:]),
            *(_besides(_beside(room, whole, rule, core, lower=lower), "one") for rule in rest),
        )
    return told(room, ask, rules, lower=lower)


def told(room: Room, ask: Ask, rules: tuple[str, ...], *, lower: bool) -> tuple[Reason, ...]:
    """A conflict in words, each rule with what has to go with it. `lower`: the room leaves out what a lower priority holds."""
    found: list[Reason] = []
    also = {
        rule: tuple(o for o in others if not _same(o, (rule, *others))) for rule, others in besides(room, ask, rules).items()
    }
    every = {one for one in EVERY if all(one in others for others in also.values())} if len(rules) > 1 else set()
    for rule in rules:
        found.append(forbids(room, ask, rule, frozenset(rules), lower=lower))
        core = _rules(ask) - set(also[rule]) - {rule}
        found += [_besides(_beside(room, ask, o, core, lower=lower), "one") for o in also[rule] if o not in every]
    core = _rules(ask) - every - frozenset(rules)
    shared = [one for one in reversed(ORDER) if one in every]
    return (*found, *(_besides(_beside(room, ask, one, core, lower=lower), "each") for one in shared))


def _beside(room: Room, ask: Ask, rule: str, core: frozenset[str], *, lower: bool) -> Reason:
    """What is in the way once the rules outside of `core` are given up; without its model it asks for any GPUs."""
    any_model = rule != _MODEL and _MODEL not in core
    return forbids(room, replace(ask, model=None) if any_model else ask, rule, core | {rule}, lower=lower)


def _besides(reason: Reason, of: Literal["one", "each"]) -> Reason:
    head = "besides" if of == "one" else "besides each of these"
    return reason.model_copy(update={"text": f"{head}, {reason.text}", "besides": of})
