"""Are the variants of a workload a choice, and is each of them a workload that could run?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from swarm_iac.errors import Problem
from swarm_iac.model.service.variants import at, varied
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Workload
from swarm_iac.stackfile.reading.source import Source

#: More variants than that no choice has.
MOST = 8
#: By workload, the variant that it is looked at in.
Forms = dict[str, str]


def variant_problems(path: str, workload: Workload) -> Iterator[tuple[str, str, str]]:
    """Path, what is wrong with the choice itself, and a hint."""
    ones = workload.variants
    for key in ("lighter_for", "on_variant"):
        if getattr(workload, key) is not None and not ones and not workload.needs:
            yield f"{path}.{key}", f"`{key}` has no use without variants", "list `variants`, or delete the key"
    if len(ones) > MOST:
        yield f"{path}.variants", f"{len(ones)} variants are more than {MOST}", "leave those out that never run"
    if len(ones) == 1:
        yield f"{path}.variants", f"{next(iter(ones))} is the only variant, so there is no choice", "add a lighter one"
    least = workload.lighter_for
    if (ones or workload.needs) and least is not None and PRIORITIES[least] > PRIORITIES[workload.priority]:
        text = f"{least} is above its own priority, {workload.priority}"
        yield f"{path}.lighter_for", text, "name its own priority or a lower one, or delete the key"
    before = ""
    for name, one in ones.items():
        here = f"{path}.variants.{name}"
        if before and one.worth > ones[before].worth:
            text = f"{name} is worth {one.worth}, more than {before} before it ({ones[before].worth})"
            yield f"{here}.worth", text, "list the variants in order of preference, the best first"
        if one.gang is not None and one.replicas is not None:
            yield f"{here}.replicas", "a gang has no replicas", "keep `gang` when all run or none, else `replicas`"
        if workload.run is None and one.run.command is None and one.run.model_fields_set:
            hint = "add `command`, or say what the workload has to `run`"
            yield f"{here}.run", f"nothing is started in {name}, so nothing of it can be changed", hint
        before = name


def forms(stack: Stack) -> Iterator[tuple[Stack, Forms]]:
    """The stack in the first variant of each workload, then those with a second in that, and so on."""
    if not varied(stack):
        yield stack, {}
        return
    for i in range(max(len(one.variants) for one in stack.workloads.values())):
        chosen = {name: list(one.variants)[i] for name, one in stack.workloads.items() if i < len(one.variants)}
        ones = {name: at(one, chosen[name]) if name in chosen else one for name, one in stack.workloads.items()}
        yield stack.model_copy(update={"workloads": {name: ones[name] for name in (chosen if i else ones)}}), chosen


def in_variants(tried: Iterable[tuple[Iterable[Problem], Forms]], stack: Stack, source: Source) -> list[Problem]:
    """The problems of a stack in several choices of variants, at the keys of a variant where it has them.

    What stands at a key of the workload itself is said once, with the variants in which it is one, if not in all of them.
    """
    found: dict[tuple[str, str], Problem] = {}
    where: dict[tuple[str, str], list[str]] = {}
    for problems, chosen in tried:
        for one in problems:
            told, name = _in_variant(one, chosen, source)
            found.setdefault((told.path, told.message), told)
            if name:
                where.setdefault((told.path, told.message), []).append(name)
    for key, names in where.items():
        one = found[key]
        if len({*names}) < len(stack.workloads[one.path.split(".")[1]].variants):
            some = f"variant{'s' if len(names) > 1 else ''} {', '.join(names)}"
            found[key] = replace(one, message=f"{one.message} (in {some})")
    return list(found.values())


def _in_variant(one: Problem, chosen: Forms, source: Source) -> tuple[Problem, str]:
    """The problem where it stands, and the variant that it is one of the workload's own in."""
    section, _, rest = one.path.partition(".")
    name, _, key = rest.partition(".")
    if section != "workloads" or name not in chosen:
        return one, ""
    path = f"workloads.{name}.variants.{chosen[name]}.{key}"
    steps = source.document.split(path)
    place, found = source.document.find(steps)
    return (replace(one, path=path, place=place), "") if found == len(steps) else (one, chosen[name])
