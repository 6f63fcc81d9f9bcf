"""In which order can the replicas of services change, so that each finds its place and none is missed?

Searched only when the plain order fails. Everything that may stop gives its place at once and takes its new one last, so
what is left is a puzzle of services: each move takes before it gives, each restart needs a spare replica, and what is
counted (memory, disk, bandwidth) must never be exceeded on the way. Depth first; what cannot get in another's way is done
without a second thought; `EFFORT` positions are tried before giving up, so the answer is the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.state import AllocationState, SliceState
from swarm_iac.plan.step_graph import hand_over_order
from swarm_iac.plan.step_graph.actions import Machine, Schedules, keepers, services
from swarm_iac.plan.step_graph.hand_over_order import Hold, Schedule, capacity, fits, hold

#: Positions that are looked at.
EFFORT = 3000
_Kind = Literal["go", "up", "live", "come", "down"]
#: First what frees capacity, last what makes a replica be missed.
_ORDER: tuple[_Kind, ...] = ("go", "up", "live", "come", "down")


@dataclass(frozen=True)
class _Op:
    """One move of the puzzle: what `name` takes on `node`, and where it leaves."""

    kind: _Kind
    service: str
    name: str
    node: str
    takes: Hold | None = None
    leaves: str = ""
    gains: int = 0
    after: int | None = None


@dataclass(frozen=True)
class _Position:
    """Who holds what on each node, how many replicas are up, and which moves were made, in order."""

    held: Mapping[str, Mapping[str, Hold]]
    up: Mapping[str, int]
    done: tuple[int, ...] = ()
    left: frozenset[int] = field(default_factory=frozenset)


def schedules(all_of: Mapping[str, Machine], availability: Mapping[str, int]) -> Schedules | None:
    """When everything takes and gives; None when no such order was found."""
    ops, start = _puzzle(all_of)
    limits = {node: _limits(machine) for node, machine in all_of.items()}
    end = _solve(ops, start, limits, availability)
    return None if end is None else _told(all_of, ops, end.done)


def _puzzle(all_of: Mapping[str, Machine]) -> tuple[list[_Op], _Position]:
    kept_at = keepers(all_of)
    serving = {(node, name): workload for workload, replicas in services(all_of).items() for node, name in replicas}
    held: dict[str, dict[str, Hold]] = {node: {} for node in all_of}
    ops: list[_Op] = []
    up = {workload: 0 for workload in serving.values()}
    for node, machine in all_of.items():
        for name, action in machine.actions.items():
            before, after = machine.old.allocations.get(name), machine.new.allocations.get(name)
            service = serving.get((node, name), "")
            up[service] = up.get(service, 0) + machine.up(name)
            if before and (action.kind == "stay" or (service and action.stops and machine.up(name))):
                held[node][name] = hold(before)
            elif before and after:
                held[node][name] = _keeps(before, after)
            if service:
                ops += _ops(machine, name, service, len(ops), kept_at.get(name))
    return ops, _Position(held, up, left=frozenset(range(len(ops))))


def _keeps(before: AllocationState, after: AllocationState) -> Hold:
    """What it holds until it takes. A slice that a run was cut short in making holds nothing yet."""
    kept = hold(hand_over_order.kept(before, after))
    return kept if before.slice != SliceState() else kept.without_slice()


def _ops(machine: Machine, name: str, service: str, at: int, kept: str | None) -> Iterator[_Op]:
    """What has to be done about one replica on one node. It leaves `kept` only when it is up here."""
    action, up = machine.actions[name], int(machine.up(name))
    new = machine.new.allocations.get(name)
    op = _Op("live", service, name, machine.name, hold(new))
    if new is None:
        if up and kept != machine.name:
            yield replace(op, kind="go", takes=None, leaves=machine.name, gains=-1)
        return
    runs = int(new.unit.active)
    if action.kind == "restart":
        less = hold(hand_over_order.kept(machine.old.allocations[name], new))
        yield replace(op, kind="down", takes=less, gains=-up)
        yield replace(op, kind="up", gains=runs, after=at)
        at += 1
    elif action.kind != "stay" or not up:
        kinds: dict[str, _Kind] = {"come": "come", "start": "up"}
        yield replace(op, kind=kinds.get(action.kind, "live"), gains=runs - up)
    if kept:
        yield replace(op, kind="go", node=kept, takes=None, leaves=kept, gains=-1, after=at)


def _limits(machine: Machine) -> dict[str, int]:
    has = capacity(machine.seen, machine.old, machine.new, machine.wanted.hardware)
    found = {}
    for row, how in COUNTED:
        sums = [sum(map(how.amount, state.allocations.values())) for state in (machine.old, machine.new)]
        found[row.name] = max(has[row.name], *sums)
    return found


def _solve(
    ops: list[_Op], start: _Position, limits: Mapping[str, Mapping[str, int]], availability: Mapping[str, int]
) -> _Position | None:
    """A position in which every move was made."""
    if not start.left:
        return start
    seen: set[frozenset[int]] = set()
    path = [_further(start, ops, limits, availability)]
    while path and len(seen) < EFFORT:
        position = next(path[-1], None)
        if position is None:
            path.pop()
        elif not position.left:
            return position
        elif position.left not in seen:
            seen.add(position.left)
            path.append(_further(position, ops, limits, availability))
    return None


def _further(
    position: _Position, ops: list[_Op], limits: Mapping[str, Mapping[str, int]], availability: Mapping[str, int]
) -> Iterator[_Position]:
    """Every position that one more move leads to, the likeliest first; after a move that hinders nobody, no other."""
    for number in sorted(position.left, key=lambda each: (_ORDER.index(ops[each].kind), each)):
        op = ops[number]
        if op.after is not None and op.after in position.left:
            continue
        if op.gains < 0 and position.up[op.service] + op.gains < availability.get(op.service, 0):
            continue
        others = (each for name, each in position.held[op.node].items() if name != op.name)
        if op.takes is not None and not fits(op.takes, others, limits[op.node]):
            continue
        yield _made(position, number, op)
        if op.kind not in ("down", "go") and op.gains >= 0 and _in_nobodys_way(position, ops, op, limits[op.node]):
            return


def _in_nobodys_way(position: _Position, ops: list[_Op], op: _Op, limits: Mapping[str, int]) -> bool:
    """Would all that is still to come to the node fit as it is? GPUs and cores of a final place are wanted by nobody else."""
    coming = ((ops[each].name, ops[each].takes) for each in position.left if ops[each].node == op.node)
    final = {**position.held[op.node], **{name: takes for name, takes in coming if takes is not None}}
    return all(sum(each.amount(row.name) for each in final.values()) <= limits[row.name] for row, _ in COUNTED)


def _made(position: _Position, number: int, op: _Op) -> _Position:
    held = dict(position.held)
    if op.takes is not None:
        held[op.node] = {**held[op.node], op.name: op.takes}
    if op.leaves:
        held[op.leaves] = {name: each for name, each in held[op.leaves].items() if name != op.name}
    up = {**position.up, op.service: position.up[op.service] + op.gains}
    return replace(position, held=held, up=up, done=(*position.done, number), left=position.left - {number})


def _told(all_of: Mapping[str, Machine], ops: list[_Op], done: tuple[int, ...]) -> Schedules:
    """What may stop gives first and takes last; services in the order that was found."""
    takes: dict[str, dict[str, float]] = {node: dict.fromkeys(each.new.allocations, math.inf) for node, each in all_of.items()}
    gives: dict[str, dict[str, float]] = {node: dict.fromkeys(each.old.allocations, -1.0) for node, each in all_of.items()}
    for turn, number in enumerate(done):
        op = ops[number]
        if op.kind == "down":
            gives[op.node][op.name] = turn
        elif op.takes is not None:
            takes[op.node][op.name] = turn
        if op.leaves:
            gives[op.leaves][op.name] = turn
    return {node: Schedule(takes[node], gives[node]) for node in all_of}
