"""In which variant does each workload run, and what does it ask for then?

A stack file declares variants; a placement records those that are not the first. The two together are the stack that is in
effect: an ordinary one, whose workloads have no variants, and from which everything else is derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm_iac.model.base import Value
from swarm_iac.model.growth import held
from swarm_iac.model.placement import Lighter, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Run, Workload

#: What only says which variants there are and when they change; in effect there is one.
DECLARED: dict[str, Any] = {"variants": {}, "lighter_for": None, "on_variant": None, "needs": None, "speed": {}}


def at(workload: Workload, name: str) -> Workload:
    """The workload in one of its variants. Raises KeyError for another name.

    For every key k of `each`, `network` and `run`:  value_k = that of the variant where it gives one, else the workload's.
    Variables of `env` are such keys. `replicas` or `gang` of a variant replaces both.
    """
    one = workload.variants[name]
    update: dict[str, Any] = dict(DECLARED)
    for section in ("each", "network"):
        update[section] = _over(getattr(workload, section), getattr(one, section))
    if workload.run is not None:
        update["run"] = _run(workload.run, one.run)
    elif one.run.command is not None:
        update["run"] = _run(Run(command=one.run.command), one.run)
    if one.gang is not None:
        update["gang"] = one.gang
    elif one.replicas is not None:
        update |= {"gang": None, "replicas": one.replicas}
    found = workload.model_copy(update=update)
    if one.gang is not None:
        found.model_fields_set.discard("replicas")  # the copy's own: its number comes from the gang now
    return found


def _over(base: Value, part: Value) -> Value:
    return base.model_copy(update={key: getattr(part, key) for key in part.model_fields_set})


def _run(base: Run, part: Value) -> Run:
    given = {key: getattr(part, key) for key in part.model_fields_set if getattr(part, key) is not None}
    if "env" in given:
        given["env"] = {**base.env, **given["env"]}
    return base.model_copy(update=given)


def given(workload: Workload) -> dict[str, Any]:
    """Its variants as data that validates to the same: the keys that each gives, also where one is the default of a key.

    A key with the default in place of the workload's own is not the same as none.
    """
    return {name: one.model_dump(mode="json", by_alias=True, exclude_unset=True) for name, one in workload.variants.items()}


def varied(stack: Stack) -> bool:
    """Has any workload variants?"""
    return any(one.variants for one in stack.workloads.values())


def choice(stack: Stack, placement: Placement) -> dict[str, str]:
    """The variant of each workload that has some: the recorded one, else the first.

    A name that the stack file has no longer counts as none.
    """
    recorded = {one.workload: one.variant for one in placement.lighter}
    return {
        name: recorded[name] if recorded.get(name, "") in one.variants else next(iter(one.variants))
        for name, one in stack.workloads.items()
        if one.variants
    }


def chosen(stack: Stack, choice: Mapping[str, str]) -> Stack:
    """The stack with these workloads in these variants."""
    if not choice:
        return stack
    ones = {name: at(one, choice[name]) if name in choice else one for name, one in stack.workloads.items()}
    return stack.model_copy(update={"workloads": ones})


def applied(stack: Stack, placement: Placement) -> Stack:
    """The stack as it is written, with each workload in the variant of the placement."""
    return chosen(stack, choice(stack, placement))


def in_effect(stack: Stack, placement: Placement) -> Stack:
    """The same, and what waits to grow asks for the size that it has."""
    return held(applied(stack, placement), placement)


def with_preferred(stack: Stack, placement: Placement) -> Placement:
    """The placement, with the variants that each workload prefers to its own. `stack`: as it is written."""
    if not placement.lighter:
        return placement
    return placement.model_copy(update={"lighter": tuple(_with_preferred(stack, one) for one in placement.lighter)})


def _with_preferred(stack: Stack, one: Lighter) -> Lighter:
    names = list(stack.workloads[one.workload].variants) if one.workload in stack.workloads else []
    above = names[: names.index(one.variant)] if one.variant in names else names  # what is gone is none's choice any more
    return one.model_copy(update={"instead_of": tuple(above)})


def changes(before: Placement, after: Placement) -> dict[str, tuple[str, str]]:
    """By workload that runs in both, the variants before and after, where they differ."""
    was, now = ({one.workload: one for one in each.lighter} for each in (before, after))
    ran = {one.workload for one in before.going()} & {one.workload for one in after.going()}
    found = {}
    for name in sorted(ran & (was.keys() | now.keys())):
        first = next((one.instead_of[0] for one in (now.get(name), was.get(name)) if one and one.instead_of), "")
        if not first:  # its own is the first now, or it has none any more
            continue
        pair = tuple(each[name].variant if name in each else first for each in (was, now))
        if pair[0] != pair[1]:
            found[name] = (pair[0], pair[1])
    return found


def changed(before: Placement, after: Placement, workload: str) -> str:
    """Which variant it changes to and from which, in words; empty where it changes none."""
    lighter = before.lighter or after.lighter
    was, now = changes(before, after).get(workload, ("", "")) if lighter else ("", "")
    return f"it runs in {now} in place of {was}" if now else ""


def written_path(stack: Stack, choice: Mapping[str, str], path: str) -> str:
    """Where a value of the stack in effect stands in the file: at the variant of the choice, if that gives it.

    `workloads.chat.each.gpus` is `workloads.chat.variants.int8.each.gpus` then. `stack`: as it is written.
    """
    parts = path.split(".")
    if len(parts) < 3 or parts[0] != "workloads" or parts[1] not in choice or parts[1] not in stack.workloads:
        return path
    if stack.workloads[parts[1]].needs:  # its variants are derived, and nothing of them is in the file
        return path
    one: object = stack.workloads[parts[1]].variants.get(choice[parts[1]])
    for key in parts[2:4]:
        if not isinstance(one, Value) or key not in one.model_fields_set:
            return path
        one = getattr(one, key)
    return ".".join((*parts[:2], "variants", choice[parts[1]], *parts[2:]))
