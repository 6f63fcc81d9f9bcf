"""Which steps are needed and left for a later run, and why?

What was not asked for; what a node needs that does not answer, or takes that is not what was declared; what a roll-out
needs that halted; what takes from a job that runs though it had ended; and, with each, whatever waits for it. A stop whose
start falls out falls out too: what runs goes on in its old place until the new one can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from swarm_iac.model.step import Deferred, Verb
from swarm_iac.plan import rollout_failures
from swarm_iac.plan.state.completion import runs_on
from swarm_iac.plan.state.mismatch import allowed
from swarm_iac.plan.step_graph.actions import Machine, gangs, homes
from swarm_iac.plan.step_graph.draft import Draft
from swarm_iac.plan.step_graph.graph import Graph, waiting_for

Cause = Literal["unreachable", "asleep", "mismatch", "runs", "halted", "part"]
NOT_ASKED = "not asked for"
#: What is told of those that wait.
_WAITS: dict[Cause, str] = {
    "unreachable": "waits for {}, which cannot be read",
    "asleep": "waits for {}, which is powered off",
    "mismatch": "waits for {}, not the hardware that is declared",
    "runs": "waits for {}, which runs still",
    "halted": "waits for the roll-out that halted on {}",
    "part": "waits for what was not asked for",
}


def leave(
    all_of: Mapping[str, Machine],
    graph: Graph,
    differ: Mapping[str, str],
    retry: bool = False,
    asked: Callable[[Draft], bool] = lambda draft: True,
) -> tuple[list[Deferred], list[str]]:
    """Take the steps out of the graph; what was left, and words about it.

    `differ`: nodes that are not what was declared → how. `retry`: roll-outs that halted go on. `asked`: whether a step
    belongs to what was asked for.
    """
    halts = [] if retry else rollout_failures.halts(all_of, graph)
    unreachable = {name: machine.seen.error for name, machine in all_of.items() if machine.seen.error}
    asleep = {name for name in unreachable if all_of[name].seen.asleep}
    words = [f"unreachable: {name}: {error.strip()}" for name, error in unreachable.items() if name not in asleep]
    words += [f"powered off: {name}: {unreachable[name]}" for name in sorted(asleep)]
    words += [
        f"hardware: {name}: {how}: no new work until `hardware` is corrected or the machine is repaired"
        for name, how in differ.items()
    ]
    still = {name: runs_on(machine.seen, machine.wanted) for name, machine in all_of.items() if machine.wanted.ended}
    words += [
        f"{one} runs on {name}, and it has ended by the lock file: nobody gets its place before it has"
        for name, ones in still.items()
        for one in ones
        if name not in unreachable
    ]
    own = _unable(all_of, graph, unreachable, differ, still)
    for found in halts:
        own = {one: (why, "halted", ", ".join(found.nodes)) for one, why in found.steps.items()} | own
    own |= {one: (NOT_ASKED, "part", "") for one, draft in graph.items() if one not in own and not asked(draft)}
    cause = _whole(all_of, graph, {one: (kind, which) for one, (_, kind, which) in own.items()})
    waits: dict[str, list[str]] = {}
    left = []
    for one, (kind, which) in sorted(cause.items()):
        draft = graph.pop(one)
        why = own[one][0] if one in own else _WAITS[kind].format(which)
        left.append(Deferred(step=draft.step(), why=why, cause=kind))
        if one not in own and draft.node != which and kind != "part":
            waits.setdefault(f"the roll-out on {which}" if kind == "halted" else which, []).append(one)
    words += [f"left out, waits for {name}: {', '.join(ids)}" for name, ids in sorted(waits.items())]
    return left, words + [found.words for found in halts] + rollout_failures.again(all_of, graph)


def _unable(
    all_of: Mapping[str, Machine],
    graph: Graph,
    unreachable: Mapping[str, str],
    differ: Mapping[str, str],
    still: Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[str, Cause, str]]:
    """Steps that their own node keeps from being done: why, what kind of reason that is, and the node."""
    found: dict[str, tuple[str, Cause, str]] = {}
    torn = {one.rpartition("-")[0]: f"{one} runs on {node}" for node, ones in still.items() for one in ones}
    for one, draft in graph.items():
        node = draft.node
        if node in unreachable and all_of[node].seen.asleep:
            found[one] = f"{node} {unreachable[node]}", "asleep", node
        elif node in unreachable:
            found[one] = f"{node}: cannot be read: {unreachable[node]}", "unreachable", node
        elif node in differ and not allowed(draft.verb, all_of[node].seen.ledger is not None):
            found[one] = f"{node}: not the hardware that the stack file declares: {differ[node]}", "mismatch", node
        elif draft.allocation in still.get(node, ()):
            found[one] = f"{draft.allocation} runs on {node}, and it has ended by the lock file", "runs", draft.allocation
        elif draft.verb is Verb.START and all_of[node].handover.get(draft.allocation) == "together":
            gang = draft.allocation.rpartition("-")[0]
            if gang in torn:  # it would run half old and half new
                found[one] = f"{torn[gang]}, and it has ended by the lock file", "runs", gang
    return found


def _whole(
    all_of: Mapping[str, Machine], graph: Graph, origin: Mapping[str, tuple[Cause, str]]
) -> dict[str, tuple[Cause, str]]:
    """As _spread; beside what was not asked for, and who waits for a job to be over, no allocation changes by half."""
    cause = _spread(all_of, graph, origin)
    while True:
        cut = {graph[one].allocation: why for one, why in sorted(cause.items()) if why[0] in ("part", "runs")}
        more = {one: cut[draft.allocation] for one, draft in graph.items() if one not in cause and draft.allocation in cut}
        more = {one: why for one, why in more.items() if graph[one].allocation}
        if not more:
            return cause
        cause = _spread(all_of, graph, {**cause, **more})


def _spread(
    all_of: Mapping[str, Machine], graph: Graph, origin: Mapping[str, tuple[Cause, str]]
) -> dict[str, tuple[Cause, str]]:
    """`origin`, and everything that waits for it, each with whose fault it is."""
    cause = dict(origin)
    if not cause:
        return cause
    waiting = waiting_for(graph)
    for stop, needed in _starts(all_of).items():
        for start in needed:
            waiting.setdefault(start, []).append(stop)
    left = sorted(cause)
    while left:
        one = left.pop()
        for each in waiting.get(one, ()):
            if each not in cause and each in graph:
                cause[each] = cause[one]
                left.append(each)
    return cause


def _starts(all_of: Mapping[str, Machine]) -> dict[str, list[str]]:
    """Of each stop of something that is to run on: the starts without which it must not be stopped."""
    _, new = homes(all_of)
    found = {
        f"{node}/{Verb.STOP}/{name}": [f"{new[name]}/{Verb.START}/{name}"]
        for node, machine in all_of.items()
        for name, action in machine.actions.items()
        if action.stops and name in new
    }
    for members in gangs(all_of).values():
        all_starts = [f"{node}/{Verb.START}/{name}" for node, name in members]
        for node, name in members:
            if name in new:
                found[f"{node}/{Verb.STOP}/{name}"] = all_starts
    return found
