"""Which rules does every placement keep, and in which order are they added? `suitability` holds those on single pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.solver.exact.fleet_model import FleetModel
from swarm_iac.solver.exact.rules import alike, ceilings, evenness, gpu_parts, mig, node, numa, rack, sites, workload
from swarm_iac.solver.snapshot.layout import GPUS, MEMORY, NODE, RACK

Rule = Callable[[FleetModel], None]
#: What the sum of a resource does not say, added right after it.
BESIDE: dict[int, tuple[Rule, ...]] = {
    GPUS: (mig.instances_fit_cards, gpu_parts.parts_fit_cards),  # in this order: both take cards
    MEMORY: (numa.replicas_fit_domains,),
}


def _on_nodes() -> Iterator[Rule]:
    for budget in NODE:
        yield partial(node.node_budget_holds, budget=budget)
        yield from BESIDE.get(budget.place, ())


#: Added to every model, in this order.
RULES: tuple[Rule, ...] = (
    workload.replicas_are_not_exceeded,
    workload.gang_is_whole_or_absent,
    *(partial(workload.group_rule_holds, rule=rule) for rule in GROUP_RULES),
    *(partial(workload.others_stay_away, rule=rule) for rule in GROUP_RULES),
    workload.named_stay_away,
    workload.company_is_near,
    evenness.balance_holds,
    *_on_nodes(),
    *(partial(rack.rack_budget_holds, budget=budget) for budget in RACK),
    sites.links_carry_gangs,
    ceilings.ceilings_hold,
    ceilings.models_stay_under_limits,
    alike.first_of_alike_holds_most,
)
