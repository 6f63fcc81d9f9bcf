"""How is lent memory returned before a change that has no safe order beside it?

A temporary placement needs memory that is free now, and all that is free may be lent. So every borrower returns it first, and
is lent at the end what is left then. Nothing is stopped for it: a step that takes memory waits for those that return it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from swarm_iac.model.state import Desired, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan.state import lending
from swarm_iac.plan.state.diff import diff, within
from swarm_iac.plan.step_graph.draft import Draft
from swarm_iac.plan.step_graph.graph import Graph

#: Ends the id of a step that returns lent memory.
TAIL = "recall"


def recalled(observed: Mapping[str, Observed], nodes: Collection[str]) -> dict[str, Observed]:
    """The fleet once nobody on these nodes has more memory than is guaranteed to it."""
    found = dict(observed)
    for node, seen in observed.items():
        if node not in nodes:
            continue
        ones = {name: lending.without(state) for name, state in seen.state.allocations.items()}
        if ones != seen.state.allocations:
            found[node] = seen.model_copy(update={"state": seen.state.model_copy(update={"allocations": ones})})
    return found


def steps(observed: Mapping[str, Observed], less: Mapping[str, Observed]) -> Graph:
    """The steps from the one to the other."""
    graph: Graph = {}
    for node, seen in observed.items():
        state = less[node].state
        for name, old in seen.state.allocations.items():
            new = state.allocations[name]
            if new != old:
                want = {"interface": state.interface, "interface_bps": state.interface_bps, "disk": state.disk}
                want |= {"allocations": {name: new.model_dump(mode="json")}}
                why = "returns what it was lent, so that others can change"
                draft = Draft(node, Verb.SLICE, name, diff(old, new, within(name)), want, why, TAIL)
                graph[draft.id] = draft
    return graph


def stands(graph: Graph, desired: Mapping[str, Desired]) -> set[str]:
    """The nodes on which something gets a place that is not wanted there at last."""
    wanted = {node: each.state.allocations.keys() for node, each in desired.items()}
    return {
        draft.node
        for draft in graph.values()
        if draft.verb is Verb.SLICE and draft.allocation not in wanted.get(draft.node, ())
    }


def join(rest: Graph, ahead: Graph) -> Graph:
    """The steps that return it, before anything takes memory on the same node, and before the same allocation changes."""
    for draft in rest.values():
        takes = draft.verb is Verb.SLICE
        draft.after |= {
            one.id for one in ahead.values() if one.node == draft.node and (takes or one.allocation == draft.allocation)
        }
    for draft in ahead.values():
        prepare = f"{draft.node}/{Verb.PREPARE}"
        if prepare in rest:
            draft.after.add(prepare)
    return ahead | rest
