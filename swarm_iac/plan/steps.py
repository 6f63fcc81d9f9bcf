"""Which steps lead from what the nodes are to what they should be, and what waits for what?"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.acts import Machine, gangs, homes
from swarm_iac.plan.diff import ended
from swarm_iac.plan.graph import Graph, waiting_for
from swarm_iac.plan.hardware import allowed, unlike
from swarm_iac.plan.parking import Fits
from swarm_iac.plan.safe import safe

_RANK = {verb: number for number, verb in enumerate(Verb)}


def anywhere(workload: str, node: str) -> bool:
    """Any workload may stand on any node."""
    return True


def steps(
    observed: Mapping[str, Observed],
    desired: Mapping[str, Desired],
    agent: str = "",
    budget: Solve | None = None,
    fits: Fits = anywhere,
) -> Plan:
    """The plan for all nodes. `agent` is the digest of the node program that should be installed; "": any.

    A desired node that was not observed counts as blank. An observed node that is not desired is restored. The steps of
    a node that did not answer are left out, and with them whatever waits for them; warnings name both. Pass such nodes
    too, with their last known state: what they hold decides who may not start elsewhere. On a node whose hardware is not
    what is declared, only what gives something up is left in.
    Where no order of the wanted changes is safe, at most `budget.moves` replicas of services stand elsewhere for a while,
    on nodes that `fits` them. Raises Refused when no order is safe even so.
    """
    all_of, graph = safe(observed, desired, agent, budget or Solve(), fits)
    warnings = _without_what_cannot(all_of, graph, unlike(observed, desired)) + _ended(all_of)
    return Plan(steps=_sorted(graph), warnings=tuple(warnings))


def _sorted(graph: Graph) -> tuple[Step, ...]:
    """Every step after those it waits for; among those that are free, by node, verb and name."""
    left = {one: len(draft.after) for one, draft in graph.items()}
    waiting = waiting_for(graph)

    def key(one: str) -> tuple[str, int, str]:
        return graph[one].node, _RANK[graph[one].verb], one

    ready = [key(one) for one, count in left.items() if not count]
    heapq.heapify(ready)
    found: list[Step] = []
    while ready:
        one = heapq.heappop(ready)[2]
        found.append(graph[one].step())
        for each in waiting.get(one, ()):
            left[each] -= 1
            if not left[each]:
                heapq.heappush(ready, key(each))
    assert len(found) == len(graph), "steps wait for each other"
    return tuple(found)


def _without_what_cannot(all_of: Mapping[str, Machine], graph: Graph, differ: Mapping[str, str]) -> list[str]:
    """Take out the steps of nodes that did not answer or are not what was declared, and all that waits; say so.

    A stop whose start falls out falls out too: what runs goes on in its old place until the new one can be reached.
    """
    dark = {name: machine.seen.error for name, machine in all_of.items() if machine.seen.error}
    if not dark and not differ:
        return []
    starts = _starts(all_of)
    waiting = waiting_for(graph)
    for stop, needed in starts.items():
        for start in needed:
            waiting.setdefault(start, []).append(stop)
    ours = {name for name, machine in all_of.items() if machine.seen.ledger is not None}
    cause = {
        one: draft.node for one, draft in graph.items()
        if draft.node in dark or (draft.node in differ and not allowed(draft.verb, draft.node in ours))
    }  # fmt: skip
    left = sorted(cause)
    while left:
        one = left.pop()
        for each in waiting.get(one, ()):
            if each not in cause and each in graph:
                cause[each] = cause[one]
                left.append(each)
    warnings = [f"unreachable: {name}: {error.strip()}" for name, error in dark.items()]
    warnings += [
        f"hardware: {name}: {words}: nothing new is given out there until `hardware` says it or the machine is mended"
        for name, words in differ.items()
    ]
    waits: dict[str, list[str]] = {}
    for one in sorted(cause):
        if graph[one].node != cause[one]:
            waits.setdefault(cause[one], []).append(one)
        del graph[one]
    return warnings + [f"left out, waits for {name}: {', '.join(ids)}" for name, ids in sorted(waits.items())]


def _starts(all_of: Mapping[str, Machine]) -> dict[str, list[str]]:
    """Of each stop of something that is to run on: the starts without which it must not be stopped."""
    _, new = homes(all_of)
    found = {
        f"{node}/{Verb.STOP}/{name}": [f"{new[name]}/{Verb.START}/{name}"]
        for node, machine in all_of.items()
        for name, act in machine.acts.items()
        if act.stops and name in new
    }
    for members in gangs(all_of).values():
        all_starts = [f"{node}/{Verb.START}/{name}" for node, name in members]
        for node, name in members:
            if name in new:
                found[f"{node}/{Verb.STOP}/{name}"] = all_starts
    return found


def _ended(all_of: Mapping[str, Machine]) -> list[str]:
    """Jobs that failed and stay so: nothing is done about them, and nobody should take that for success."""
    return [
        f"{name} on {node} failed and is not started again; change it, or remove it and add it anew"
        for node, machine in all_of.items()
        for name, act in machine.acts.items()
        if act.kind in ("stay", "live") and machine.seen.health.get(name) == "failed" and ended(machine.seen, name)
    ]
