"""Whose power limit falls before whose rises, so that a rack, and a node, stays within its budget?

For every rack r, at every moment:  Σ_{g ∈ r} limit_g ≤ power_r   [W], and so for every node with a budget of its own. As in
limits, a GPU without a managed limit counts 0.
A limit is set while work goes on, so one that falls for others waits for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.step import Verb
from swarm_iac.plan.step_graph.actions import Machine
from swarm_iac.plan.step_graph.draft import rise
from swarm_iac.plan.step_graph.graph import Graph
from swarm_iac.plan.step_graph.hand_over_order import Schedule, counted


def order(all_of: Mapping[str, Machine], graph: Graph) -> frozenset[str]:
    """Add the waits. Gives the steps that others wait for."""
    racks: dict[str, list[Machine]] = {}
    for machine in all_of.values():
        if machine.wanted.rack:
            racks.setdefault(machine.wanted.rack, []).append(machine)
    found: set[str] = set()
    for inside in racks.values():
        found |= _order(inside, graph, min(machine.wanted.rack_power_w for machine in inside))
    for machine in all_of.values():
        if machine.wanted.power_w:
            found |= _order([machine], graph, machine.wanted.power_w)
    return frozenset(found)


def _order(inside: list[Machine], graph: Graph, power: int) -> set[str]:
    """Steps that rise wait for the first that fall. What no step changes is the part that stays."""
    changes = _changes(inside, graph)
    still = sum(gpu.power_w or 0 for machine in inside for gpu in machine.old.gpus.values())
    before = {one: -watts if watts < 0 else 0 for one, watts in changes.items()}
    after = {one: max(0, watts) for one, watts in changes.items()}
    rest = still - sum(before.values())
    budget = power - rest
    asked: set[str] = set()
    for one, givers in counted(before, after, budget, Schedule(), {}).items():
        graph[one].after |= givers
        asked |= givers
    for one in asked:
        if graph[one].verb is Verb.GPUS:
            graph[one].after &= {each for each in graph[one].after if graph[each].verb is Verb.PREPARE}
    return asked


def _changes(inside: list[Machine], graph: Graph) -> dict[str, int]:
    """By how much each step changes what the rack's GPUs may draw. [W]"""
    machines = {machine.name: machine for machine in inside}
    found: dict[str, int] = {}
    for draft in graph.values():
        machine = machines.get(draft.node)
        if machine is not None and draft.verb is Verb.GPUS:
            found[draft.id] = sum(rise(machine, int(gpu)) for gpu in draft.want["gpus"])
        elif machine is not None and draft.verb is Verb.RESTORE:
            found[draft.id] = -sum(gpu.power_w or 0 for gpu in machine.old.gpus.values())
    return found
