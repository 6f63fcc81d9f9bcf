"""Which steps can be done in the next run? Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from swarm_iac.model.step import Step, StepResult, Verb

_RANK = {verb: number for number, verb in enumerate(Verb)}


def ready(steps: Collection[Step], done: Mapping[str, StepResult]) -> list[Step]:
    """Of the steps that are left, those whose waits have ended well or end within the same run.

    `steps` stand in the plan's order. Within one run a node goes through its steps by verb, then in that order, so
    what waits for an earlier one of its own node can go along.
    """
    chosen: dict[str, Step] = {}
    left = {step.id for step in steps}

    def within(step: Step, before: str) -> bool:
        other = chosen.get(before)
        return other is not None and other.node == step.node and _RANK[other.verb] <= _RANK[step.verb]

    for step in steps:
        if all(
            within(step, before) or (before in done and done[before].ok) or _unknown(before, done, left)
            for before in step.after
        ):
            chosen[step.id] = step
    return list(chosen.values())


def barred(steps: Collection[Step], done: Mapping[str, StepResult]) -> dict[str, list[str]]:
    """Of the steps that are left, those that wait for one that failed → which."""
    out: dict[str, list[str]] = {}
    for step in steps:
        failed = [before for before in step.after if (before in done and not done[before].ok) or before in out]
        if failed:
            out[step.id] = failed
    return out


def _unknown(before: str, done: Mapping[str, StepResult], left: Collection[str]) -> bool:
    """A plan cut to a part may name steps that are not in it; what is not there has not to be waited for."""
    return before not in done and before not in left
