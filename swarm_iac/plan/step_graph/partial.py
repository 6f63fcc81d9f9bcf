"""What is wanted when only a part is asked for?

What was chosen becomes as it is wanted, the rest stays as it was found, and the plan is made between the two: so every law
holds for the part as for the whole. What was chosen and does not fit beside the rest as it is now stays as well, and says
why. A gang is chosen whole, and what moves is chosen with both of its places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import AllocationState, Desired, GpuState, Handover, NodeState, Observed
from swarm_iac.model.step import Deferred, Plan
from swarm_iac.plan.state import cpulist, lending
from swarm_iac.plan.step_graph.capacity_beside import clashes, within_power
from swarm_iac.plan.step_graph.hand_over_order import hold
from swarm_iac.pluralize import pluralize


@dataclass(frozen=True)
class Only:
    """Which part: nodes, and workloads under the names they run as. `said`: as a person said it."""

    nodes: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()
    text: str = ""


@dataclass(frozen=True)
class Part:
    """What is wanted now. `names`: allocations that may change, of which `narrowed` only make way for others; `left`: those
    that were chosen and stay → why."""

    desired: dict[str, Desired]
    names: frozenset[str]
    narrowed: frozenset[str] = frozenset()
    left: dict[str, str] = field(default_factory=dict)


def only(text: str, nodes: Iterable[str], stack: Stack | None) -> Only | None:
    """Read `NODE|TEAM[,…]`; None for nothing. Raises Refused for a name that is neither. Of two that are the same, the node."""
    words = [word for word in text.replace(",", " ").split() if word]
    known, teams = set(nodes), {} if stack is None else stack.teams
    unknown = [word for word in words if word not in known and word not in teams]
    if unknown:
        raise Refused(
            f"--only {unknown[0]}: no node and no team of that name",
            hint=f"teams: {', '.join(sorted(teams)) or 'none'}; nodes: {', '.join(sorted(known)[:12])}",
        )
    chosen = {word for word in words if word not in known}
    inside = (one for name, one in teams.items() if stack is not None and chosen.intersection(stack.line_of(name)))
    users = {user for team in inside for user in team.users}
    found = {} if stack is None else stack.workloads
    workloads = {each.renamed_from or name for name, each in found.items() if each.user in users}
    return Only(frozenset(known & set(words)), frozenset(workloads), ", ".join(words)) if words else None


def part(observed: Mapping[str, Observed], desired: Mapping[str, Desired], asked: Only) -> Part:
    """What every node is to be when only this part changes."""
    kinds = dict(_kinds(observed, desired))
    chosen = _chosen(observed, desired, asked, kinds)
    stays = _stays(observed, desired)
    left: dict[str, str] = {}
    while True:
        moving = chosen.keys() - left.keys()
        mixed = {
            name: _mixed(name, observed, desired, asked, moving, kinds, stays) for name in observed.keys() | desired.keys()
        }
        within_power(observed, mixed)
        mixed = {name: _lent_what_is_free(each, observed, moving) for name, each in mixed.items()}
        found = {chosen[name]: why for name, why in clashes(observed, mixed, moving)}
        if not found:
            narrowed = _narrowed(observed, mixed, moving)
            return Part(mixed, frozenset(moving) | narrowed, narrowed, left)
        left |= {one: found[together] for one, together in chosen.items() if together in found}


def with_rest(now: Plan, whole: Plan, chosen: Part, asked: Only) -> Plan:
    """The plan of a part, naming what is left of the plan for all."""
    known = {step.id for step in now.steps} | {left.step.id for left in now.deferred}
    rest = [step for step in (*whole.steps, *(left.step for left in whole.deferred)) if step.id not in known]
    left = [Deferred(step=step, why=chosen.left.get(step.allocation, "not asked for"), cause="part") for step in rest]
    words = [f"--only {asked.text}: {name} stays as it is: {why}" for name, why in sorted(chosen.left.items())]
    nodes = sorted({one.step.node for one in (*now.deferred, *left) if one.cause == "part"})
    if nodes:
        count = sum(one.cause == "part" for one in (*now.deferred, *left))
        words.append(f"--only {asked.text}: {pluralize(count, 'step is', 'steps are')} left for later, on {', '.join(nodes)}")
    return Plan(steps=now.steps, warnings=(*now.warnings, *words), deferred=(*now.deferred, *left))


def _states(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> Iterator[tuple[str, str, AllocationState]]:
    for node, seen in observed.items():
        yield from ((node, name, state) for name, state in seen.state.allocations.items())
    for node, each in desired.items():
        yield from ((node, name, state) for name, state in each.state.allocations.items())


def _kinds(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> Iterator[tuple[str, Handover]]:
    """How each allocation changes; one that is not wanted any more, as its siblings do."""
    known = {name: kind for each in desired.values() for name, kind in each.handover.items()}
    by_workload = {state.workload: known[name] for _, name, state in _states({}, desired) if name in known}
    for _, name, state in _states(observed, {}):
        if name in known or state.workload in by_workload:
            yield name, known.get(name) or by_workload[state.workload]
    yield from known.items()


def _chosen(
    observed: Mapping[str, Observed], desired: Mapping[str, Desired], asked: Only, kinds: Mapping[str, Handover]
) -> dict[str, str]:
    """Each allocation that is chosen → what it changes with: its gang, or itself."""
    whole = {
        name: state.workload if kinds.get(name) == "together" else f"/{name}"
        for _, name, state in _states(observed, desired)
    }  # fmt: skip
    named = {
        whole[name] for node, name, state in _states(observed, desired)
        if node in asked.nodes or state.workload in asked.workloads
    }  # fmt: skip
    return {name: together for name, together in whole.items() if together in named}


def _mixed(
    name: str,
    observed: Mapping[str, Observed],
    desired: Mapping[str, Desired],
    asked: Only,
    moving: set[str],
    kinds: Mapping[str, Handover],
    stays: Mapping[str, str],
) -> Desired:
    """One node: what moves as it is wanted, the rest as it was found."""
    old = observed[name].state if name in observed else NodeState()
    wanted = desired.get(name) or Desired(node=name, address="local", fleet=name, managed=False)
    if not wanted.managed and name in asked.nodes and not old.allocations.keys() - moving:
        return wanted
    new = wanted.state
    ones = {one: state for one, state in old.allocations.items() if one not in moving and stays[one] == name}
    mine = {one: state for one, state in new.allocations.items() if one in moving}
    if mine:  # what the rest was lent, and is to give back, is not in the way of those that come
        ones = {one: _given_back(state, new.allocations.get(one)) for one, state in ones.items()}
    base = new if name in asked.nodes and wanted.managed else _as_found(old, new, mine, moving)
    state = base.model_copy(update={"allocations": _cores(ones, mine)})
    handover = {one: kinds[one] for one in state.allocations if one in kinds}
    return wanted.model_copy(update={"managed": True, "state": state, "handover": handover})


def _stays(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> dict[str, str]:
    """Where each allocation stands. Of one that a run was cut short in moving, the place that runs is the one that counts."""
    places: dict[str, list[str]] = {}
    for node, name, _ in _states(observed, {}):
        places.setdefault(name, []).append(node)

    def rank(name: str, node: str) -> tuple[bool, bool]:
        wanted = node in desired and name in desired[node].state.allocations
        return not observed[node].state.allocations[name].unit.active, not wanted

    return {name: min(nodes, key=partial(rank, name)) for name, nodes in places.items()}


def _as_found(old: NodeState, new: NodeState, mine: Mapping[str, AllocationState], moving: set[str]) -> NodeState:
    """The node itself as it was found, with what those that come need: a disk, an interface, and their own cards' settings."""
    cards = {gpu for state in mine.values() for gpu in state.cards}
    cards |= {gpu for one, state in old.allocations.items() if one in moving for gpu in state.cards}
    gpus = {
        gpu: (new if gpu in cards else old).gpus.get(gpu, GpuState()) for gpu in old.gpus.keys() | (new.gpus.keys() & cards)
    }
    wire = new if mine and not old.interface else old
    return old.model_copy(
        update={
            "gpus": {gpu: state for gpu, state in gpus.items() if state != GpuState() or gpu in old.gpus},
            "disk": old.disk or (new.disk if mine else ""),
            "interface": wire.interface,
            "interface_bps": wire.interface_bps,
        }
    )


def _cores(ones: Mapping[str, AllocationState], mine: Mapping[str, AllocationState]) -> dict[str, AllocationState]:
    """Allocations that share cores yield those that newcomers pin, and those that come and share stay off pinned ones."""
    taken = {cpu for state in mine.values() if (held := hold(state)).pinned for cpu in held.cpus}
    pinned = taken | {cpu for state in ones.values() if (held := hold(state)).pinned for cpu in held.cpus}
    return {one: _without(state, taken) for one, state in ones.items()} | {
        one: _without(state, pinned) for one, state in mine.items()
    }


def _given_back(found: AllocationState, wanted: AllocationState | None) -> AllocationState:
    """As it was found, with no more lent memory than is wanted; none where it is to leave."""
    return lending.without(found, 0 if wanted is None else wanted.slice.memory_max or 0)


def _lent_what_is_free(mixed: Desired, observed: Mapping[str, Observed], moving: set[str]) -> Desired:
    """The same; where what is lent to those that change does not fit beside the rest, with what they have of it, or nothing."""
    node, ones = mixed.node, mixed.state.allocations
    if not any(ones[one] != lending.without(ones[one]) for one in moving & ones.keys()):
        return mixed
    before = observed[node].state.allocations if node in observed else {}
    for keeps in (before, {}):
        if not any(clashes(observed, {node: mixed}, moving)):
            break
        less = {
            one: lending.without(state, keeps[one].slice.memory_max or 0 if one in keeps else 0) if one in moving else state
            for one, state in ones.items()
        }
        mixed = mixed.model_copy(update={"state": mixed.state.model_copy(update={"allocations": less})})
    return mixed


def _without(state: AllocationState, pinned: set[int]) -> AllocationState:
    held = hold(state)
    rest = held.cpus - pinned
    if held.pinned or not rest or rest == held.cpus:
        return state
    return state.model_copy(update={"slice": state.slice.model_copy(update={"cpus": cpulist.write(rest)})})


def _narrowed(observed: Mapping[str, Observed], mixed: Mapping[str, Desired], moving: Iterable[str]) -> frozenset[str]:
    moving = set(moving)
    return frozenset(
        one for node, each in mixed.items() for one, state in each.state.allocations.items()
        if one not in moving and node in observed and state != observed[node].state.allocations.get(one)
    )  # fmt: skip
