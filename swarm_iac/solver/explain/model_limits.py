"""How many replicas fit where limits bound the GPUs of single models?

Of replicas on nodes of the models S at most what their limits leave, and of the others what those nodes hold without any:

    most = min_S ( Σ_{m∈S} left_m + most on nodes of models outside of S )

That is the smallest cut of a flow through sites, racks and nodes to models, so it is exact where racks are bound by numbers
(Ford and Fulkerson, 1956); where power is short it is no less than what fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace

from swarm_iac.model.place.groups import Level
from swarm_iac.solver.snapshot.by_model import chains_of
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.layout import ALL_GPUS, MODELS, models_of_chain
from swarm_iac.solver.snapshot.snapshot import ENDLESS, NodeCapacity, WorkloadRequest

MODEL_RULES: tuple[str, ...] = tuple(budget.rule for budget in MODELS)
#: A node, and how many replicas it could take.
Count = tuple[NodeCapacity, int]
#: Sets of models are tried for so many; of more only single ones, and all.
MANY = 6


def of_any_model(capacity: FreeCapacity, request: WorkloadRequest) -> WorkloadRequest:
    """The same workload, counted by the limits on all models: those on others than its own bind once it takes any."""
    limits = capacity.snapshot.models
    if not limits or request.model is None:
        return request
    own, every = dict(request.models), dict(chains_of(replace(request, model=None), limits))
    return replace(request, models=tuple(sorted((every | own).items())))


def on_models(capacity: FreeCapacity, request: WorkloadRequest) -> Iterator[tuple[str, str, int]]:
    """Each limit on a GPU model: the model, the rule, and how many more replicas it leaves there."""
    budgets, use = models_of_chain(len(request.chain)), request.usage[ALL_GPUS]
    for model, scopes in request.models:
        for i, scope in scopes:
            yield model, budgets[i].rule, capacity.scopes[scope][ALL_GPUS] // use


def left_on(capacity: FreeCapacity, request: WorkloadRequest, rules: Set[str]) -> dict[str, int]:
    """By model that has limits, how many more replicas these leave under the rules."""
    found: dict[str, int] = {}
    for model, rule, left in on_models(capacity, request):
        if rule in rules:
            found[model] = min(found.get(model, ENDLESS), max(0, left))
    return found


def most(lefts: dict[str, int], found: Iterable[Count], together: Level | None, plain: Callable[[list[Count]], int]) -> int:
    """The most in all, of so many on each node. `plain`: the same where no model has limits; `together`: all in one group."""
    groups: dict[str, list[Count]] = {}
    for host, count in found:
        groups.setdefault(group_of(host, together) if together else "", []).append((host, count))
    best = 0
    for counts in groups.values():
        if sum(count for _, count in counts) > best:
            best = max(best, _cut(lefts, counts, plain))
    return best


def _cut(lefts: dict[str, int], found: list[Count], plain: Callable[[list[Count]], int]) -> int:
    held = {model: sum(count for host, count in found if host.model == model) for model in lefts}
    short = [model for model in sorted(lefts) if lefts[model] < held[model]]
    sizes = range(len(short) + 1) if len(short) <= MANY else (0, 1, len(short))
    best = plain(found)
    for some in itertools.chain.from_iterable(itertools.combinations(short, size) for size in sizes if size):
        if (left := sum(lefts[model] for model in some)) < best:
            best = min(best, left + plain([one for one in found if one[0].model not in some]))
    return best
