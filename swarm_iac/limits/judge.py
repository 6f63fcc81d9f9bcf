"""Which rules does a placement break? Knows nothing of how it was found."""

from __future__ import annotations

import datetime

from swarm_iac.limits import ceilings, machines, wishes
from swarm_iac.limits.board import Board, Violation
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack

#: Names first, since what names nothing known is left out of the sums that follow.
RULES = (
    wishes.everything_is_known,
    wishes.indices_are_unique,
    wishes.sizes_equal_wish,
    machines.gpus_have_one_owner,
    machines.gpus_match_wish,
    machines.cpus_have_one_owner,
    machines.vcpus_fit_node,
    machines.memory_fits_node,
    machines.storage_fits_node,
    machines.nic_carries_node,
    machines.uplink_carries_rack,
    machines.power_stays_under_rack_budget,
    wishes.states_allow,
    wishes.labels_match_select,
    wishes.replicas_are_spread,
    wishes.replicas_stay_within,
    wishes.gangs_are_whole,
    ceilings.users_stay_under_limit,
    ceilings.nodes_stay_under_limit,
    ceilings.cluster_stays_under_limit,
)


def judge(
    stack: Stack,
    placement: Placement,
    today: datetime.date | None = None,
    *,
    kept: frozenset[str] = frozenset(),
    held: frozenset[str] = frozenset(),
) -> tuple[Violation, ...]:
    """All violations, in the order of RULES; empty when the placement may stand.

    `kept` names the allocations that stand on the node where they ran: they may stay on a cordoned one. `held` names those
    that ran anywhere and hold no more than then: they may stand above the limit of their user or of the cluster.
    Without `today`, every exception to a limit holds.
    """
    board = Board(stack, placement, today, kept, held)
    return tuple(violation for rule in RULES for violation in rule(board))
