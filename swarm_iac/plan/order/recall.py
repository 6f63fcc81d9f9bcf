"""How is lent memory returned before a change that has no safe order beside it, and lent again after it?

A temporary placement needs memory that is free now, and all that is free may be lent; who comes may wait for a loan of its own.
So every borrower returns it first, the change is planned as if nothing were lent, and at the end it is lent as is wanted.
Nothing is stopped for it, and no change is refused that would not be refused without any loans.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from swarm_iac.model.state import Desired, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan.state import lending
from swarm_iac.plan.state.diff import diff, within
from swarm_iac.plan.step_graph.draft import Draft, keeping_the_rest
from swarm_iac.plan.step_graph.graph import Graph

#: Ends the id of a step that returns lent memory, and of one that lends it at the end.
RECALL, LEND = "recall", "lend"
_WHY = {RECALL: "returns what it was lent, so that others can change", LEND: "is lent what is free now"}


def unlent(observed: Mapping[str, Observed], nodes: Collection[str]) -> dict[str, Observed]:
    """The fleet once nobody on these nodes has more memory than is guaranteed to it."""
    return {
        name: seen.model_copy(update={"state": _without(seen.state)}) if name in nodes else seen
        for name, seen in observed.items()
    }


def unlent_wish(desired: Mapping[str, Desired], nodes: Collection[str]) -> dict[str, Desired]:
    """The same of what is wanted."""
    return {
        name: each.model_copy(update={"state": _without(each.state)}) if name in nodes else each
        for name, each in desired.items()
    }


def _without(state: NodeState) -> NodeState:
    ones = {name: lending.without(one) for name, one in state.allocations.items()}
    return state if ones == state.allocations else state.model_copy(update={"allocations": ones})


def _loans(state: NodeState) -> dict[str, int | None]:
    return {name: one.slice.memory_max for name, one in state.allocations.items() if one != lending.without(one)}


def stands(graph: Graph, desired: Mapping[str, Desired]) -> set[tuple[str, str]]:
    """Nodes, and what gets a place there that is not wanted there at last."""
    wanted = {node: each.state.allocations.keys() for node, each in desired.items()}
    return {
        (draft.node, draft.allocation)
        for draft in graph.values()
        if draft.verb is Verb.SLICE and draft.allocation not in wanted.get(draft.node, ())
    }


def join(rest: Graph, before: Mapping[str, Observed], after: Mapping[str, Desired], nodes: Collection[str]) -> Graph:
    """The steps that return it, before anything takes memory on the same node and before the same allocation changes; those
    that lend it, after all that."""
    ahead: Graph = {}
    behind: Graph = {}
    busy = {draft.node for draft in rest.values() if draft.verb in (Verb.SLICE, Verb.RELEASE)}
    for node in nodes:
        old = before[node].state if node in before else NodeState()
        new = after[node].state if node in after and after[node].managed else NodeState()
        if node in busy or _loans(old) != _loans(new):
            ahead |= _steps(node, old, _without(old), RECALL)
            behind |= _steps(node, _without(new), new, LEND)
    for draft in rest.values():
        takes = draft.verb is Verb.SLICE
        draft.after |= {
            one.id for one in ahead.values() if one.node == draft.node and (takes or one.allocation == draft.allocation)
        }
    held = [one for one in (*ahead.values(), *rest.values()) if one.verb in (Verb.SLICE, Verb.RELEASE)]
    for draft in behind.values():
        draft.after |= {one.id for one in held if one.node == draft.node}
        draft.after |= {one.id for one in rest.values() if (one.node, one.allocation) == (draft.node, draft.allocation)}
    for draft in (*ahead.values(), *behind.values()):
        prepare = f"{draft.node}/{Verb.PREPARE}"
        if prepare in rest:
            draft.after.add(prepare)
    return ahead | rest | behind


def _steps(node: str, old: NodeState, new: NodeState, tail: str) -> Graph:
    graph: Graph = {}
    for name, state in new.allocations.items():
        if state != old.allocations[name]:
            want = {"interface": new.interface, "interface_bps": new.interface_bps, "disk": new.disk}
            want |= {"allocations": {name: state.model_dump(mode="json")}}
            changes = diff(old.allocations[name], state, within(name))
            draft = Draft(node, Verb.SLICE, name, changes, want, _WHY[tail], tail)
            graph[draft.id] = keeping_the_rest(draft) if tail == RECALL else draft
    return graph
