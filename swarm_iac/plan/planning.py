"""Which steps lead from what the nodes are to what they should be, and what waits for what?"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.deferred import leave
from swarm_iac.plan.order.safe_order import safe
from swarm_iac.plan.order.temporary_placement import Around, Fits
from swarm_iac.plan.state.diff import ended
from swarm_iac.plan.state.mismatch import mismatches
from swarm_iac.plan.state.runtimes import limit_reached
from swarm_iac.plan.step_graph.actions import Machine
from swarm_iac.plan.step_graph.draft import Draft, keeping_the_rest
from swarm_iac.plan.step_graph.graph import Graph, waiting_for
from swarm_iac.plan.step_graph.partial import Only, part, with_rest

_RANK = {verb: number for number, verb in enumerate(Verb)}


def anywhere(workload: str, node: str, around: Around, cards: tuple[int, ...]) -> bool:
    """Any workload may stand on any node."""
    return True


def steps(
    observed: Mapping[str, Observed],
    desired: Mapping[str, Desired],
    agent: str = "",
    budget: Solve | None = None,
    fits: Fits = anywhere,
    retry: bool = False,
    only: Only | None = None,
) -> Plan:
    """The plan for all nodes. `agent` is the digest of the node program that should be installed; "": any.

    A desired node that was not observed counts as blank. An observed node that is not desired is restored. The steps of
    a node that did not answer are left out, and with them whatever waits for them; warnings name both. Pass such nodes
    too, with their last known state: what they hold decides who may not start elsewhere. On a node whose hardware is not
    what is declared, only what gives something up is left in.
    Where no order of the wanted changes is safe, at most `budget.moves` replicas of services stand elsewhere for a while,
    on nodes that `fits` them. A roll-out that halted goes on only with `retry`. With `only`, that part
    changes and the rest stays as it was found. Raises Refused when no order is safe.
    """
    if only is None:
        all_of, graph = safe(observed, desired, agent, budget or Solve(), fits)
        left, warnings = leave(all_of, graph, mismatches(observed, desired), retry)
        return Plan(steps=_sorted(graph), warnings=(*warnings, *_ended(all_of)), deferred=tuple(left))
    chosen = part(observed, desired, only)
    all_of, graph = safe(observed, chosen.desired, agent, budget or Solve(), fits)
    for one, draft in graph.items():
        if draft.verb is Verb.SLICE and draft.allocation in chosen.narrowed:
            graph[one] = keeping_the_rest(draft)
    touched = {draft.node for draft in graph.values() if draft.allocation in chosen.names}

    def asked(draft: Draft) -> bool:
        return draft.allocation in chosen.names if draft.allocation else draft.node in only.nodes | touched

    left, warnings = leave(all_of, graph, mismatches(observed, desired), retry, asked)
    now = Plan(steps=_sorted(graph), warnings=(*warnings, *_ended(all_of)), deferred=tuple(left))
    try:
        whole = steps(observed, desired, agent, budget, fits, retry)
    except Refused:
        whole = Plan()  # perhaps the very reason why only a part was asked for
    return with_rest(now, whole, chosen, only)


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


def _ended(all_of: Mapping[str, Machine]) -> list[str]:
    """Jobs that failed and stay so: nothing is done about them, and nobody should take that for success."""
    return [
        f"{name} on {node} {limit_reached(machine.seen, name) or 'failed'} and is not started again; change it, or remove it "
        "and add it again"
        for node, machine in all_of.items()
        for name, action in machine.actions.items()
        if action.kind in ("stay", "live") and machine.seen.health.get(name) == "failed" and ended(machine.seen, name)
    ]
