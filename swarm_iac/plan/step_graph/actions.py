"""What happens to each allocation on each node: does it come, go, restart, or change while it runs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from swarm_iac.model.state import AllocationState, Desired, Handover, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan.state.completion import keep_ends
from swarm_iac.plan.state.diff import diff, ended, restart_for, with_ended_as_running
from swarm_iac.plan.step_graph import hand_over_order
from swarm_iac.plan.step_graph.hand_over_order import Schedule, Waits

Kind = Literal["come", "go", "restart", "start", "end", "live", "stay"]
#: Those whose service keeps its healthy replicas while they change.
SERVES: tuple[Handover, ...] = ("healthy-first", "one-by-one")
#: For each node, when its allocations take and give.
Schedules = Mapping[str, Schedule]


@dataclass(frozen=True)
class Action:
    """What happens to one allocation on one node, and why."""

    kind: Kind
    why: str = ""

    @property
    def stops(self) -> bool:
        """Does it stop what runs there?"""
        return self.kind in ("go", "restart", "end")

    @property
    def starts(self) -> bool:
        """Does it start something there?"""
        return self.kind in ("come", "restart", "start")


@dataclass(frozen=True)
class Machine:
    """One node, found and desired. `waits`: by the step that takes, for each allocation, who must give before it."""

    seen: Observed
    old: NodeState
    new: NodeState
    wanted: Desired
    waits: Mapping[Verb, Waits] = field(default_factory=dict)
    split: Mapping[Verb, frozenset[str]] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.seen.node

    @property
    def handover(self) -> Mapping[str, Handover]:
        """How each allocation that is wanted here changes."""
        return self.wanted.handover

    @property
    def managed(self) -> bool:
        """Is it to be ours?"""
        return self.wanted.managed

    def up(self, name: str) -> bool:
        """Does it run here, and well (as far as anyone knows)?"""
        state = self.seen.state.allocations.get(name)
        return state is not None and state.unit.active and self.seen.health.get(name, "") in ("healthy", "")

    def fell(self, name: str) -> bool:
        """Is it to be started again, since it fell?"""
        wanted = self.new.allocations.get(name)
        fallen = self.seen.health.get(name, "") in ("failed", "stopped") and not ended(self.seen, name)
        return fallen and (wanted is None or wanted.unit.active)


def machines(
    observed: Mapping[str, Observed], desired: Mapping[str, Desired], schedules: Schedules | None = None
) -> dict[str, Machine]:
    """Every node that is known, with what happens to each allocation on it. `schedules`: see plan.order.sequencing."""
    found: dict[str, Machine] = {}
    for name in sorted(observed.keys() | desired.keys()):
        seen = observed.get(name, Observed(node=name))
        wanted = desired.get(name) or Desired(node=name, address="local", fleet=name, managed=False)
        found[name] = Machine(seen, with_ended_as_running(seen), wanted.state if wanted.managed else NodeState(), wanted)
    kept = keep_ends(observed, desired)
    found = {name: replace(each, new=kept.get(name, each.new)) for name, each in found.items()}
    came_from, goes_to = homes(found)
    schedules = schedules if schedules is not None else _late(found)
    found = {
        name: _with_actions(machine, schedules.get(name, Schedule()), came_from, goes_to) for name, machine in found.items()
    }
    return _with_gangs(found)


def homes(all_of: Mapping[str, Machine]) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The nodes on which each allocation is found (two, when a run was cut short), and the one where it is wanted."""
    old: dict[str, tuple[str, ...]] = {}
    for name, each in all_of.items():
        for allocation in each.old.allocations:
            old[allocation] = (*old.get(allocation, ()), name)
    new = {allocation: name for name, each in all_of.items() for allocation in each.new.allocations}
    return old, new


def keepers(all_of: Mapping[str, Machine]) -> dict[str, str]:
    """Of each replica of a service that moves: the node it leaves only when it is healthy in its new place.

    After a run that was cut short it may be up in two places: the one where fewer others want to come is kept.
    """
    old, new = homes(all_of)
    found = {}
    for name, there in new.items():
        if name in old and all_of[there].handover.get(name) in SERVES and not all_of[there].up(name):
            up = [node for node in old[name] if all_of[node].up(name)]
            if up:
                found[name] = min(up, key=lambda node: len(all_of[node].new.allocations.keys() - all_of[node].old.allocations))
    return found


def _late(all_of: Mapping[str, Machine]) -> Schedules:
    """Services that leave a node only when they are healthy elsewhere are asked last to give."""
    late: dict[str, dict[str, float]] = {}
    for name, node in keepers(all_of).items():
        late.setdefault(node, {})[name] = 1.0
    return {node: Schedule(gives=gives) for node, gives in late.items()}


def _with_actions(
    machine: Machine, schedule: Schedule, came_from: Mapping[str, tuple[str, ...]], goes_to: Mapping[str, str]
) -> Machine:
    old, new = machine.old.allocations, machine.new.allocations
    if old == new:
        # Nobody takes and nobody gives. In a large fleet nearly every node is so in every plan.
        nobody: dict[Verb, frozenset[str]] = {verb: frozenset() for verb in hand_over_order.SPLIT}
        return replace(machine, split=nobody, actions={name: Action("stay") for name in sorted(new)})
    has = hand_over_order.capacity(machine.seen, machine.old, machine.new, machine.wanted.hardware)
    waits = hand_over_order.waits(old, new, has, schedule)
    split = hand_over_order.split(waits, old)
    actions: dict[str, Action] = {}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            where = goes_to.get(name)
            actions[name] = Action("go", f"moves to {where}" if where else "no longer wanted here")
        elif name not in old:
            actions[name] = Action("come", f"moves from {', '.join(came_from[name])}" if name in came_from else "new")
        else:
            actions[name] = _change(machine, name, old[name], new[name], name in split[Verb.SLICE])
    return replace(machine, waits=waits, split=split, actions=actions)


def _change(machine: Machine, name: str, old: AllocationState, new: AllocationState, split: bool) -> Action:
    reasons = restart_for(old, new) if new.unit.active else ()
    over = ended(machine.seen, name) and old.unit == new.unit and old.workload == new.workload
    if reasons and not over:
        return Action("restart", f"restarts for: {', '.join(reasons)}")
    if split and not over and hand_over_order.no_core_in_common(old, new):
        return Action("restart", "restarts for: it has no core to stay on while cores change hands")
    health = machine.seen.health.get(name, "")
    if new.unit.active and not old.unit.active:
        return Action(
            "start", "waited for a run since its node booted" if health == "waiting" else f"was {health or 'stopped'}"
        )
    if old.unit.active and not new.unit.active:
        by_lock = name in machine.wanted.ended
        return Action("end", "it has ended by the lock file" if by_lock else gang_failed(new.workload))
    if diff(old, new):
        return Action("live", "finished" if over else "changes while it runs")
    return Action("stay")


def gang_failed(workload: str) -> str:
    """Why a member stops of which another one failed."""
    return f"its gang {workload} failed"


def gangs(all_of: Mapping[str, Machine]) -> dict[str, list[tuple[str, str]]]:
    """Of each gang: node and allocation of all its members, found or wanted."""
    return _members(all_of, ("together",))


def services(all_of: Mapping[str, Machine]) -> dict[str, list[tuple[str, str]]]:
    """Of each service that is wanted: node and allocation of all its replicas, found or wanted."""
    return _members(all_of, SERVES)


def _members(all_of: Mapping[str, Machine], handovers: tuple[Handover, ...]) -> dict[str, list[tuple[str, str]]]:
    workloads = {
        state.workload for each in all_of.values() for name, state in each.new.allocations.items()
        if each.handover.get(name) in handovers and name not in each.wanted.ended
    }  # fmt: skip
    found: dict[str, list[tuple[str, str]]] = {}
    for node, name, state in _states(all_of):
        if state.workload in workloads and name not in all_of[node].wanted.ended:
            found.setdefault(state.workload, []).append((node, name))
    return found


def _states(all_of: Mapping[str, Machine]) -> Iterator[tuple[str, str, AllocationState]]:
    for node, each in all_of.items():
        for name in each.actions:
            yield node, name, each.new.allocations.get(name) or each.old.allocations[name]


def _with_gangs(all_of: dict[str, Machine]) -> dict[str, Machine]:
    """When one member comes, goes, restarts or fell, those that would stay restart too: a gang starts whole.

    A finished job is not run again for that.
    """
    forced: dict[str, dict[str, Action]] = {}
    for workload, members in gangs(all_of).items():
        kinds = {all_of[node].actions[name].kind for node, name in members}
        fell = any(all_of[node].fell(name) for node, name in members)
        if (fell or kinds & {"come", "go", "restart", "start"}) and kinds & {"stay", "live"}:
            for node, name in members:
                if all_of[node].actions[name].kind in ("stay", "live") and not ended(all_of[node].seen, name):
                    forced.setdefault(node, {})[name] = Action("restart", f"its gang {workload} starts whole")
    return all_of | {
        node: replace(all_of[node], actions={**all_of[node].actions, **actions}) for node, actions in forced.items()
    }
