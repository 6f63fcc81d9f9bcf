"""What happens to each allocation on each node: does it come, go, restart, or change while it runs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from swarm_iac.model.state import AllocationState, Desired, Handover, NodeState, Observed
from swarm_iac.plan import resources
from swarm_iac.plan.diff import diff, restart_for, settled

Kind = Literal["come", "go", "restart", "start", "live", "stay"]


@dataclass(frozen=True)
class Act:
    """What happens to one allocation on one node, and why."""

    kind: Kind
    why: str = ""

    @property
    def stops(self) -> bool:
        """Does it stop what runs there?"""
        return self.kind in ("go", "restart")

    @property
    def starts(self) -> bool:
        """Does it start something there?"""
        return self.kind in ("come", "restart", "start")


@dataclass(frozen=True)
class Machine:
    """One node, as found and as wanted. `waits`: for each allocation, who must give before it takes."""

    seen: Observed
    old: NodeState
    new: NodeState
    handover: Mapping[str, Handover]
    managed: bool
    waits: Mapping[str, set[str]] = field(default_factory=dict)
    acts: Mapping[str, Act] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.seen.node

    @property
    def split(self) -> frozenset[str]:
        """Allocations that stay and must give before they take, since others wait for them while they wait for others."""
        asked = {giver for givers in self.waits.values() for giver in givers}
        return frozenset(name for name in self.waits if name in asked and name in self.old.allocations)


def machines(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> dict[str, Machine]:
    """Every node that is known, with what happens to each allocation on it."""
    found: dict[str, Machine] = {}
    for name in sorted(observed.keys() | desired.keys()):
        seen, wanted = observed.get(name, Observed(node=name)), desired.get(name)
        managed = wanted is not None and wanted.managed
        new = wanted.state if wanted is not None and managed else NodeState()
        found[name] = Machine(seen, settled(seen), new, wanted.handover if wanted else {}, managed)
    late = _late(found)
    came_from, goes_to = homes(found)
    found = {name: _with_acts(machine, late[name], came_from, goes_to) for name, machine in found.items()}
    return _with_gangs(found)


def homes(all_of: Mapping[str, Machine]) -> tuple[dict[str, str], dict[str, str]]:
    """The node of each allocation, found and wanted."""
    old = {allocation: name for name, each in all_of.items() for allocation in each.old.allocations}
    new = {allocation: name for name, each in all_of.items() for allocation in each.new.allocations}
    return old, new


def _late(all_of: Mapping[str, Machine]) -> dict[str, frozenset[str]]:
    """On each node, services that leave it only when they are healthy elsewhere."""
    _, new = homes(all_of)
    return {
        name: frozenset(
            one for one in each.old.allocations
            if new.get(one, name) != name and all_of[new[one]].handover.get(one) == "healthy-first"
        )
        for name, each in all_of.items()
    }  # fmt: skip


def _with_acts(machine: Machine, late: frozenset[str], came_from: Mapping[str, str], goes_to: Mapping[str, str]) -> Machine:
    old, new = machine.old.allocations, machine.new.allocations
    waits = resources.waits(old, new, machine.seen.facts.memory, late)
    ready = replace(machine, waits=waits)
    split = ready.split
    acts: dict[str, Act] = {}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            where = goes_to.get(name)
            acts[name] = Act("go", f"moves to {where}" if where else "no longer wanted here")
        elif name not in old:
            where = came_from.get(name)
            acts[name] = Act("come", f"moves from {where}" if where else "new")
        else:
            acts[name] = _change(machine, name, old[name], new[name], name in split)
    return replace(ready, acts=acts)


def _change(machine: Machine, name: str, old: AllocationState, new: AllocationState, split: bool) -> Act:
    reasons = restart_for(old, new)
    if reasons:
        return Act("restart", f"restarts for: {', '.join(reasons)}")
    if split and resources.no_core_in_common(old, new):
        return Act("restart", "restarts for: it has no core to stay on while cores change hands")
    health = machine.seen.health.get(name, "")
    if new.unit.active and not old.unit.active:
        return Act("start", f"was {health or 'stopped'}")
    if diff(old, new):
        return Act("live", "changes while it runs")
    return Act("stay")


def gangs(all_of: Mapping[str, Machine]) -> dict[str, list[tuple[str, str]]]:
    """Of each gang: node and allocation of all its members, found or wanted."""
    workloads = {
        state.workload for each in all_of.values() for name, state in each.new.allocations.items()
        if each.handover.get(name) == "together"
    }  # fmt: skip
    found: dict[str, list[tuple[str, str]]] = {}
    for node, name, state in _states(all_of):
        if state.workload in workloads:
            found.setdefault(state.workload, []).append((node, name))
    return found


def _states(all_of: Mapping[str, Machine]) -> Iterator[tuple[str, str, AllocationState]]:
    for node, each in all_of.items():
        for name in each.acts:
            yield node, name, each.new.allocations.get(name) or each.old.allocations[name]


def _with_gangs(all_of: dict[str, Machine]) -> dict[str, Machine]:
    """When one member comes, goes or restarts, those that would stay restart too: a gang starts whole."""
    forced: dict[str, dict[str, Act]] = {}
    for workload, members in gangs(all_of).items():
        kinds = {all_of[node].acts[name].kind for node, name in members}
        if kinds & {"come", "go", "restart", "start"} and kinds & {"stay", "live"}:
            for node, name in members:
                if all_of[node].acts[name].kind in ("stay", "live"):
                    forced.setdefault(node, {})[name] = Act("restart", f"its gang {workload} starts whole")
    return all_of | {node: replace(all_of[node], acts={**all_of[node].acts, **acts}) for node, acts in forced.items()}
