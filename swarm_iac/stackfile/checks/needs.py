"""Does a workload that says what it needs say how fast it is, and in one unit?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.service.needs import MOST, models_of, replicas_for
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload

#: So many models may have a speed.
MODELS = 16
#: What `needs` decides by itself.
_INSTEAD = ("replicas", "gang", "scale", "variants")


def needs_problems(stack: Stack, path: str, workload: Workload) -> Iterator[tuple[str, str, str]]:
    """Path, what is wrong, and a hint."""
    needs, speed = workload.needs, workload.speed
    if needs is None:
        if speed:
            yield f"{path}.speed", "speeds have no use without `needs`", "add `needs`, such as 100 kTok/s, or delete the key"
        return
    for key in _INSTEAD:
        if key in workload.model_fields_set and getattr(workload, key):
            text = f"`needs` decides how many replicas there are, and on which GPUs, so `{key}` has no use"
            yield f"{path}.{key}", text, f"delete `needs` or `{key}`"
    if len(speed) > MODELS:
        yield f"{path}.speed", f"{len(speed)} models are more than {MODELS}", "leave those out that no node has"
    if not speed:
        yield (
            f"{path}.needs",
            "nobody knows how fast it is",
            "add `speed: {H100: 25 kTok/s}`, for each model it may run on",
        )
    if not workload.each.gpus.count:
        yield f"{path}.needs", "it has no GPUs, and its speed is given by GPU model", "ask for `gpus`, or use `replicas`"
    yield from _speeds(path, workload, needs)
    there = {stack.hardware[node.hardware].gpus.model for node in stack.nodes.values() if node.hardware in stack.hardware}
    if speed and stack.nodes and workload.each.gpus.count and not there & speed.keys():
        yield f"{path}.speed", f"no node has a GPU {' or '.join(sorted(speed))}", "add the speed on a model that nodes have"
    elif stack.nodes and speed and not models_of(stack, workload) and all(one.unit == needs.unit for one in speed.values()):
        yield f"{path}.speed", "on no model that nodes have it may run", "add the speed on one, or allow it in `each.gpus`"


def _speeds(path: str, workload: Workload, needs: Rate) -> Iterator[tuple[str, str, str]]:
    for model, one in workload.speed.items():
        if one.unit != needs.unit:
            words = [f"in {each.unit}/s" if each.unit else "a number alone" for each in (one, needs)]
            yield f"{path}.speed.{model}", f"{one} is {words[0]}, and `needs` is {words[1]}", "write both in one unit"
        elif not workload.each.gpus.allows(model):
            text = f"it does not run on {model}: it asks for {workload.each.gpus}"
            yield f"{path}.speed.{model}", text, "delete the entry, or allow the model"
        elif (count := replicas_for(needs, one)) > MOST:
            text = f"{needs} would take {count:,} replicas on {model}, more than {MOST:,}"
            yield f"{path}.speed.{model}", text, "check the units of `needs` and `speed`"
