"""On which GPU model, and in how many replicas, does a workload do as much as it needs? Each way is a variant of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from swarm_iac.model.placement import Placement
from swarm_iac.model.service.speed import Rate
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Each, Replicas, Variant, Workload

#: So many numbers of replicas on several models are variants; of more the rest is left out, never the highest.
MIXED = 8
#: More replicas than that no workload has.
MOST = 100_000


def replicas_for(needs: Rate, speed: Rate) -> int:
    """n = ⌈needs / speed⌉, in whole numbers."""
    return -(-needs.amount // speed.amount)


def derived(stack: Stack) -> Stack:
    """The stack in which each workload with `needs` has a variant for each way to meet it, the cheapest first."""
    if not any(one.needs for one in stack.workloads.values()):
        return stack
    ones = {
        name: one.model_copy(update={"variants": dict(_ways(stack, one))}) if one.needs else one
        for name, one in stack.workloads.items()
    }
    return stack.model_copy(update={"workloads": ones})


def written(stack: Stack) -> Stack:
    """The stack as its file has it, without what `derived` added."""
    if not any(one.needs for one in stack.workloads.values()):
        return stack
    return stack.model_copy(update={"workloads": {name: _written(one) for name, one in stack.workloads.items()}})


def _written(workload: Workload) -> Workload:
    if not workload.needs:
        return workload
    found = workload.model_copy(update={"variants": {}})
    found.model_fields_set.discard("variants")
    return found


def models_of(stack: Stack, workload: Workload) -> dict[str, Rate]:
    """The models that it has a speed on, may run on, and that some node has."""
    there = {stack.hardware[node.hardware].gpus.model for node in stack.nodes.values() if node.hardware in stack.hardware}
    return {
        model: speed
        for model, speed in workload.speed.items()
        if model in there and workload.each.gpus.allows(model) and workload.needs and speed.unit == workload.needs.unit
    }


def _ways(stack: Stack, workload: Workload) -> Iterator[tuple[str, Variant]]:
    """One model alone, by price · GPUs · n (without prices of all: GPUs · n); then n on any of them, the fewest first.

    n_m = ⌈needs / speed_m⌉; of several models min_m n_m ≤ n ≤ max_m n_m: with the most, any of them will do. Which of them
    n replicas come to is for the solver, and whether that is enough is seen then: the fewest that are enough is taken.
    """
    assert workload.needs is not None
    needs = workload.needs
    counts = {model: replicas_for(needs, speed) for model, speed in models_of(stack, workload).items()}
    counts = {model: count for model, count in counts.items() if count <= MOST}
    priced = all(model in stack.prices for model in counts)

    def cost(model: str) -> tuple[int, int, str]:
        price = stack.prices[model].amount if priced else 1
        return price * counts[model], counts[model], model

    names: set[str] = set()
    for model in sorted(counts, key=cost):
        yield _name(model, names), _variant(workload, model, counts[model])
    if len(counts) > 1:
        numbers = range(min(counts.values()), max(counts.values()) + 1)
        kept = [*numbers[: MIXED - 1], numbers[-1]] if len(numbers) > MIXED else list(numbers)
        for count in kept:
            yield _name(f"mixed {count}", names), _variant(workload, "|".join(sorted(counts)), count)


def _name(text: str, taken: set[str]) -> str:
    """The model as a name of a variant; another one where two are alike as such."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"on-{plain}"
    while plain in taken:
        plain += "-2"
    taken.add(plain)
    return plain


def _variant(workload: Workload, model: str, count: int) -> Variant:
    gpus = workload.each.gpus.model_copy(update={"model": model})
    return Variant(replicas=Replicas(least=count, most=count), each=Each(gpus=gpus))


def reached(stack: Stack, workload: str, placement: Placement, speeds: Mapping[str, Rate]) -> int:
    """Σ_n speed_model(n) · replicas on n, in the millionths of a Rate. A model without a speed counts nothing."""
    found = 0
    for one in placement.allocations:
        if one.workload == workload and one.node in stack.nodes:
            speed = speeds.get(stack.hardware_of(one.node).gpus.model or "")
            found += speed.amount if speed else 0
    return found
