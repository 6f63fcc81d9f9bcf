"""Which allocations that a node names did this fleet place there, and what becomes of the others?

A node that someone else owns now can name any. Of its gang, its service or its job, on other nodes, what counts is only
what was placed there: asked for there, applied there, or under way there in a run that was killed. What else a node names
is released on that node, which only its own steps wait for.
"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.state import AllocationState, Observed
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.state.diff import diff, within

#: Why such a step is taken; it is how it is told from others.
UNPLACED = "named by the node, and not placed there by this fleet"
#: Node → allocation → what the node says of it.
Claims = Mapping[str, Mapping[str, AllocationState]]
_SHOWN = 8
_TAKES = (Verb.GPUS, Verb.STORAGE, Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC, Verb.START, Verb.RESTORE)


def believed(seen: Observed, placed: frozenset[str]) -> tuple[Observed, dict[str, AllocationState]]:
    """The node with what was placed there, and what else it names. Itself where there is nothing else."""
    claims = {name: state for name, state in seen.state.allocations.items() if name not in placed}
    if not claims:
        return seen, {}
    allocations = {name: state for name, state in seen.state.allocations.items() if name in placed}
    state = seen.state.model_copy(update={"allocations": allocations})
    health = {name: how for name, how in seen.health.items() if name in allocations}
    return seen.model_copy(update={"state": state, "health": health}), claims


def released(plan: Plan, claims: Claims) -> Plan:
    """The plan with what each node names beyond what was placed there, released on that node first."""
    found: list[Step] = []
    words: list[str] = []
    for node, names in sorted(claims.items()):
        for name, state in sorted(names.items()):
            stop = Step(id=f"{node}/{Verb.STOP}/{name}", node=node, verb=Verb.STOP, allocation=name, why=UNPLACED)
            found.append(stop)
            found.append(
                Step(
                    id=f"{node}/{Verb.RELEASE}/{name}", node=node, verb=Verb.RELEASE, allocation=name, why=UNPLACED,
                    changes=diff(state, None, within(name)), after=(stop.id,),
                )
            )  # fmt: skip
        if names:
            more = len(names) - _SHOWN
            listed = ", ".join(sorted(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            words.append(f"{node}: {listed}: {UNPLACED}: released there, and counted nowhere else")
    if not found:
        return plan
    before: dict[str, list[str]] = {}
    for step in found:
        if step.verb is Verb.RELEASE:
            before.setdefault(step.node, []).append(step.id)
    first = {step.node: (step.id,) for step in plan.steps if step.verb is Verb.PREPARE}
    own = [step.model_copy(update={"after": (*step.after, *first.get(step.node, ()))}) for step in found]
    rest = [
        step.model_copy(update={"after": (*step.after, *before[step.node])}) if step.node in before and step.verb in _TAKES
        else step for step in plan.steps
    ]  # fmt: skip
    prepares = [step for step in rest if step.verb is Verb.PREPARE]
    others = [step for step in rest if step.verb is not Verb.PREPARE]
    return plan.model_copy(update={"steps": (*prepares, *own, *others), "warnings": (*plan.warnings, *words)})
