"""Which rules does a placement break? Knows nothing of how it was found."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType

from swarm_iac.limits import ceilings, links, machines, numa, requests, sites
from swarm_iac.limits.balance import beyond_balance
from swarm_iac.limits.index import Amounts, PlacementIndex, Violation
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack

#: Names first, since what names nothing known is left out of the sums that follow.
RULES = (
    *requests.ASKED,
    machines.gpus_have_one_owner,
    machines.gpus_match_request,
    machines.instances_lie_where_cards_allow,
    machines.cpus_have_one_owner,
    machines.nodes_carry_what_is_placed,
    numa.memory_fits_numa,
    numa.numa_covers_devices,
    numa.replicas_are_on_one_numa_node,
    links.gpus_of_a_replica_are_linked,
    machines.uplink_carries_rack,
    sites.links_carry_gangs,
    machines.power_stays_under_rack_budget,
    machines.power_stays_under_node_budget,
    *requests.PLACED,
    ceilings.users_stay_under_limit,
    ceilings.teams_stay_under_limit,
    ceilings.nodes_stay_under_limit,
    ceilings.cluster_stays_under_limit,
    ceilings.gpus_stay_under_limit_of_model,
)

#: The names that violations carry.
NAMES = frozenset((*(rule.__name__ for rule in RULES), *machines.NODE_RULES)) - {machines.nodes_carry_what_is_placed.__name__}


#: What allocations that stand where they ran are excused from.
_EXCUSED = (
    requests.states_allow,
    requests.taints_keep_new_work_away,
    requests.replicas_have_company,
    numa.numa_covers_devices,
    numa.replicas_are_on_one_numa_node,
    links.gpus_of_a_replica_are_linked,
)


def excused(stack: Stack, placement: Placement, kept: frozenset[str]) -> frozenset[str]:
    """Those of `kept` that may stand only because they ran there."""
    placed = PlacementIndex(stack, placement, None, frozenset())
    found = frozenset(violation.subject for rule in _EXCUSED for violation in rule(placed))
    return (found | beyond_balance(placed)) & kept


def judge(
    stack: Stack,
    placement: Placement,
    today: datetime.date | None = None,
    *,
    kept: frozenset[str] = frozenset(),
    held: Mapping[str, Amounts] = MappingProxyType({}),
    ran: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Violation, ...]:
    """All violations, in the order of RULES; empty when the placement may stand.

    `kept` names the allocations that stand on the node where they ran: they may stay on a cordoned or tainted one, bound to
    fewer NUMA nodes than their devices lie on, on several where one is asked for, on GPUs without links, without those whom
    `only_with` names, and in a rack that has more than `balance` allows. `held` tells what
    each that ran anywhere held then: so much may stand above the limit of its user, of a team or of the cluster. `ran` tells
    on which node that was, for limits on single GPU models.
    Without `today`, every exception to a limit holds.
    """
    placed = PlacementIndex(stack, placement, today, kept, held, ran)
    return tuple(violation for rule in RULES for violation in rule(placed))
