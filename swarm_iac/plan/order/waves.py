"""On how many nodes do settings change at once? On one, the canary; then, if that went well, on a few at a time.

A roll-out is a set of nodes that get the same new value somewhere. Its canary is the node where it failed before, if it
did, else the one with the least work. A node that holds nothing of ours yet has nothing to lose, and one that does not
answer must not hold up the others: neither takes part. A step that fails keeps all that wait for it from running, so the
first failure halts the roll-out; plan.halt keeps it so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial

from swarm_iac.model.state import RolloutFailure
from swarm_iac.model.step import Verb
from swarm_iac.plan.step_graph.actions import Machine
from swarm_iac.plan.step_graph.draft import Draft
from swarm_iac.plan.step_graph.graph import Graph


def order(all_of: Mapping[str, Machine], graph: Graph, at_once: int, first: frozenset[str]) -> None:
    """Add the waits. `first`: steps that lower limits so that others may rise; they roll out by themselves, ahead."""
    by_node: dict[str, list[str]] = {}
    for one, draft in sorted(graph.items()):
        machine = all_of[draft.node]
        settles = draft.verb is Verb.SETTINGS or (draft.verb is Verb.GPUS and draft.tail in ("", "lower"))
        if settles and machine.managed and machine.seen.ledger is not None and not machine.seen.error:
            by_node.setdefault(draft.node, []).append(one)
    for ahead in (True, False):
        steps = {node: [one for one in mine if (one in first) is ahead] for node, mine in by_node.items()}
        for nodes in _rollouts(graph, {node: mine for node, mine in steps.items() if mine}):
            ranked = sorted(nodes, key=partial(_rank, all_of, graph, steps))
            for one in (one for node in ranked for one in steps[node] if len(ranked) > 1):
                graph[one].rollout = tuple(ranked)
                if graph[one].verb is Verb.GPUS:  # a node whose settings failed has had enough
                    graph[one].after |= {each for each in steps[graph[one].node] if graph[each].verb is Verb.SETTINGS}
            for before, after in itertools.pairwise(_batches(ranked, at_once)):
                waited = {one for node in before for one in steps[node]}
                for node in after:
                    for one in steps[node]:
                        graph[one].after |= waited


def failed(machine: Machine, draft: Draft) -> dict[str, RolloutFailure]:
    """Values of this step that were tried on this node before, and put back → what is known of that; by path."""
    known = machine.seen.rollout_failures
    values = ((change.path, change.new) for change in draft.changes)
    return {path: known[path] for path, value in values if path in known and known[path].value == value}


def _rank(all_of: Mapping[str, Machine], graph: Graph, steps: Mapping[str, list[str]], node: str) -> tuple[bool, int, str]:
    machine = all_of[node]
    before = any(failed(machine, graph[one]) for one in steps[node])
    return not before, sum(map(machine.up, machine.old.allocations)), node


def _rollouts(graph: Graph, steps: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Nodes that belong together, since a chain of equal changes links them."""
    sharing: dict[tuple[str, str], list[str]] = {}
    for node, mine in steps.items():
        for one in mine:
            for change in graph[one].changes:
                sharing.setdefault((change.path, repr(change.new)), []).append(node)
    linked: dict[str, set[str]] = {node: set() for node in steps}
    for nodes in sharing.values():
        for node in nodes:
            linked[node].add(nodes[0])
            linked[nodes[0]].add(node)
    seen: set[str] = set()
    for node in steps:
        if node not in seen:
            group, left = {node}, [node]
            while left:
                fresh = linked[left.pop()] - group
                group |= fresh
                left += fresh
            seen |= group
            yield sorted(group)


def _batches(nodes: list[str], at_once: int) -> Iterator[list[str]]:
    yield nodes[:1]
    for start in range(1, len(nodes), at_once):
        yield nodes[start : start + at_once]
