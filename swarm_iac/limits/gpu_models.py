"""How many GPUs of each model does somebody hold, and how many of them are no more than before?"""

from __future__ import annotations

from collections.abc import Iterable

from swarm_iac.limits.index import PlacementIndex
from swarm_iac.model.placement import Allocation
from swarm_iac.model.stack import Stack


def limited_models(stack: Stack) -> tuple[str, ...]:
    """The GPU models that any limit names, in the order of their names."""
    limits = stack.limits
    every = [limits.user, limits.team, limits.cluster, *limits.exceptions, *(team.limits for team in stack.teams.values())]
    return tuple(sorted({model for one in every for model in one.gpus_by_model}))


def model_of(stack: Stack, node: str) -> str | None:
    """The model of the GPUs of a node; None where it has none, or the stack does not know the node."""
    if node not in stack.nodes:
        return None
    gpus = stack.hardware[stack.nodes[node].hardware].gpus
    return gpus.model if gpus.count else None


def held_of(stack: Stack, ones: Iterable[Allocation]) -> dict[str, int]:
    """Thousandths of GPUs by model, of what these hold."""
    found: dict[str, int] = {}
    for one in ones:
        model = model_of(stack, one.node)
        if one.gpus and model is not None:
            found[model] = found.get(model, 0) + sum(device.part for device in one.gpus)
    return found


def before(placed: PlacementIndex, ones: Iterable[Allocation], gpus: int, model: str) -> int:
    """Σ_w min(what the replicas of w hold of the model, Σ_a min(gpus_a, what a held) over those of w that ran on it).

    Replicas of one workload are interchangeable, so they count together. `gpus`: where GPUs are in what was held.
    """
    now: dict[str, int] = {}
    was: dict[str, int] = {}
    for one in ones:
        own = sum(device.part for device in one.gpus)
        if model_of(placed.stack, one.node) == model:
            now[one.workload] = now.get(one.workload, 0) + own
        if one.name in placed.held and model_of(placed.stack, placed.ran.get(one.name, "")) == model:
            was[one.workload] = was.get(one.workload, 0) + min(own, placed.held[one.name][gpus])
    return sum(min(held, was.get(workload, 0)) for workload, held in now.items())
