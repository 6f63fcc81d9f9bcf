"""How is a limit on single GPU models told, with what it leaves of each, and what others would leave?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm_iac.model.gpus.mig import part_of
from swarm_iac.model.placement import Reason
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain.able import listed
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import ALL_GPUS, COUNTED, Budget
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Over, Snapshot, WorkloadRequest, of_model


def _mine(snapshot: Snapshot, request: WorkloadRequest, scope: str) -> list[str]:
    """The models that it may run on, and that the scope has limits on."""
    return [model for model, _ in request.models if model in snapshot.models.get(scope, ())]


def over(snapshot: Snapshot, request: WorkloadRequest, budget: Budget) -> Iterator[Over]:
    """What is held above the limit on the one model that it may run on."""
    scope = request.scope_of(budget)
    models = _mine(snapshot, request, scope)
    yield from (one for one in snapshot.over if len(models) == 1 and (one.scope, one.model) == (scope, models[0]))


def reason(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget) -> Reason:
    """What each model that it may run on has left, and which others it might have."""
    snapshot, scope, noun = capacity.snapshot, request.scope_of(budget), budget.noun
    models = _mine(snapshot, request, scope)
    left = {model: capacity.scopes[of_model(scope, model)][budget.place] for model in models}
    rests = [
        f"{noun.text(max(0, left[model]))} left of {noun.text(snapshot.models[scope][model])} on {model}" for model in models
    ]
    each = f" for each of {pluralize(request.members, 'member')}" if request.gang else ""
    text = f"needs {noun.amount(request.usage[budget.place])}{each}; {scope} has {listed(rests)}{_others(capacity, request)}"
    return Reason(rule=budget.shown_as, text=text, path=snapshot.given[of_model(scope, models[0]), budget.place])


def _others(capacity: FreeCapacity, request: WorkloadRequest) -> str:
    """The models that it does not ask for, and of which its limits leave it some."""
    if request.model is None:
        return ""
    plain = min(capacity.scopes[scope][ALL_GPUS] for scope in request.chain)
    found = []
    for model in sorted({host.model for host in capacity.snapshot.nodes.values() if host.model} - {*request.model.split("|")}):
        if request.profile and part_of(model, request.profile) != request.share:
            continue
        limited = [of_model(scope, model) for scope in request.chain if model in capacity.snapshot.models.get(scope, ())]
        left = min([plain, *(capacity.scopes[scope][ALL_GPUS] for scope in limited)])
        if left >= request.usage[ALL_GPUS]:
            found.append(model if left >= ENDLESS // 2 else f"{COUNTED[ALL_GPUS].text(left)} x {model}")
    return f"; {' or '.join(found)} would be allowed" if found else ""
