"""Of what nodes name, what did this fleet place there, as far as the repository knows? For commands that ask no state."""

from __future__ import annotations

import os
from collections.abc import Mapping

from swarm_iac.decision import Decision
from swarm_iac.model.state import Desired, Observed
from swarm_iac.plan.state import ownership
from swarm_iac.printable import printable
from swarm_iac.provider.operations import pending_placement
from swarm_iac.run_options import RunOptions


def disowned(decision: Decision, seen: Mapping[str, Observed]) -> dict[str, Observed]:
    """The nodes, with those unreadable that are a few among many and name another fleet, though the lock says what runs.

    As `swarm up` has it (provider.sight): one of many cannot be believed; where most do, the stack file is wrong.
    """
    mine = decision.stack.fleet
    others = {node: one.ledger.fleet for node, one in seen.items() if not one.error and one.ledger and one.ledger.fleet != mine}
    if not decision.last.allocations or 2 * len(others) > sum(not one.error for one in seen.values()):
        return dict(seen)
    told = {node: f"its ledger names fleet {printable(fleet, 60)}, and it is of {mine}" for node, fleet in others.items()}
    return {**seen, **{node: Observed(node=node, error=words) for node, words in told.items()}}


def believed(
    decision: Decision, wanted: Mapping[str, Desired], seen: Mapping[str, Observed]
) -> tuple[dict[str, Observed], ownership.Claims]:
    """The nodes with what the lock, the wish or a run that was killed placed there, and what else they name."""
    last = decision.last.allocations
    if not last:
        return dict(seen), {}
    stack = decision.stack
    placed = {node: set(each.state.allocations) for node, each in wanted.items()}
    ours = (*last, *decision.dropped)
    homes = {(one.node, stack.runs_as(one) if one.workload in stack.workloads else one.name) for one in ours}
    own = RunOptions.of(os.environ).state_home
    homes = homes.union(
        *(pending_placement.of(own, lineage) for lineage in {one.ledger.lineage for one in seen.values() if one.ledger})
    )
    for node, name in homes:
        placed.setdefault(node, set()).add(name)
    both = {node: ownership.believed(one, frozenset(placed.get(node, ()))) for node, one in seen.items() if not one.error}
    return {**seen, **{node: one for node, (one, _) in both.items()}}, {node: rest for node, (_, rest) in both.items() if rest}
