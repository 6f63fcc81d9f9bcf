"""Which roll-outs halted, how far did they come, and what is to be done?

A value that failed on a node was put back there, and the node's ledger remembers it. As long as other nodes wait for the
same value, nobody gets it: what broke one node is not tried again unawares. It goes on when the stack file says
something else, or when a person says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from swarm_iac.model.state import NodeState, RolloutFailure
from swarm_iac.model.step import Change, Verb
from swarm_iac.plan.order.waves import failed
from swarm_iac.plan.state import format
from swarm_iac.plan.state.diff import diff
from swarm_iac.plan.step_graph.actions import Machine
from swarm_iac.plan.step_graph.draft import Draft
from swarm_iac.plan.step_graph.graph import Graph

RETRY = "swarm up --retry (for bare pulumi: SWARM_RETRY=1)"


@dataclass(frozen=True)
class Halt:
    """A roll-out that goes no further. `steps`: what is not done, with the reason; `nodes`: where it failed."""

    nodes: tuple[str, ...]
    steps: Mapping[str, str]
    words: str


def halts(all_of: Mapping[str, Machine], graph: Graph) -> list[Halt]:
    """Every roll-out of a value that failed on one of its nodes, or on one that became unreachable over it."""
    bad: dict[tuple[str, str], dict[str, RolloutFailure]] = {}
    for draft, found in _failed(all_of, graph):
        for change in draft.changes:
            if change.path in found:
                bad.setdefault((change.path, repr(change.new)), {})[draft.node] = found[change.path]
    groups: dict[tuple[str, ...], list[Draft]] = {}
    for draft in graph.values():
        if draft.rollout:
            groups.setdefault(draft.rollout, []).append(draft)
    return [
        _halt(all_of, drafts, where)
        for drafts in groups.values()
        if (where := {key: bad[key] for draft in drafts for key in map(_key, draft.changes) if key in bad})
    ]


def again(all_of: Mapping[str, Machine], graph: Graph) -> list[str]:
    """Words about every value in the plan that failed on its node before."""
    return [
        f"{draft.node}: {_told(draft.changes, found)} failed in {_first(found)} and is tried again"
        for draft, found in _failed(all_of, graph)
    ]


def _failed(all_of: Mapping[str, Machine], graph: Graph) -> list[tuple[Draft, dict[str, RolloutFailure]]]:
    settles = (draft for draft in graph.values() if draft.verb in (Verb.SETTINGS, Verb.GPUS))
    return [(draft, found) for draft in settles if (found := failed(all_of[draft.node], draft))]


def _key(change: Change) -> tuple[str, str]:
    return change.path, repr(change.new)


def _halt(
    all_of: Mapping[str, Machine], drafts: list[Draft], where: Mapping[tuple[str, str], Mapping[str, RolloutFailure]]
) -> Halt:
    nodes = tuple(sorted({node for found in where.values() for node in found}))
    changes = {_key(change): change for draft in drafts for change in draft.changes if _key(change) in where}
    what = _told(tuple(changes.values()), {path: None for path, _ in changes})
    waiting = sorted({draft.node for draft in drafts} - set(nodes))
    done = [
        node for node, machine in all_of.items() if node not in {*nodes, *waiting} and _has(machine, tuple(changes.values()))
    ]
    failures = [
        f"{node}, {_first({path: found[node] for (path, _), found in where.items() if node in found})}" for node in nodes
    ]
    steps = {
        draft.id: f"the roll-out of {what} halted on {failures[nodes.index(draft.node)]}" if draft.node in nodes
        else f"the roll-out of {what} halted on {', '.join(nodes)}"
        for draft in drafts
    }  # fmt: skip
    return Halt(
        nodes,
        steps,
        f"the roll-out of {what} halted on {'; '.join(failures)}\n"
        f"  untouched: {', '.join(waiting) or 'none'}; done before: {', '.join(done) or 'none'}\n"
        f"  to go on, change the value in the stack file; to try it again, on {nodes[0]} first: {RETRY}",
    )


def _first(found: Mapping[str, RolloutFailure]) -> str:
    one = next(iter(found.values()))
    return f"run {one.serial} ({one.why})"


def _told(changes: tuple[Change, ...], which: Mapping[str, object]) -> str:
    """`vm.swappiness = 20, gpu power = 650 W`: GPUs that get the same are named once."""
    parts = dict.fromkeys(
        f"{_short(change.path)} = {format.value(change.path, change.new)}" for change in changes if change.path in which
    )
    return ", ".join(parts)


def _short(path: str) -> str:
    card = re.fullmatch(r"gpus\[\d+\]\.(\w+)", path)
    if card:
        return f"gpu {card[1].rpartition('_')[0] or card[1]}"
    return format.setting(path)


def _has(machine: Machine, changes: tuple[Change, ...]) -> bool:
    """Are these values wanted there, and there already?"""
    if not machine.managed or machine.seen.error:
        return False
    wanted, found = (
        {each.path: each.new for each in diff(NodeState(), state.model_copy(update={"allocations": {}}))}
        for state in (machine.new, machine.old)
    )
    return any(wanted.get(each.path) == each.new == found.get(each.path) for each in changes)
