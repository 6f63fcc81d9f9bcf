"""What would be found on the nodes if a lock is applied and all is healthy?"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import Desired, LedgerHead, Observed
from swarm_iac.model.workload import Workload
from swarm_iac.plan import desired


def stack_of(stack: Stack, known: tuple[Allocation, ...]) -> Stack:
    """The stack in which the `known` allocations run: what was removed from it is there again, and nothing is drained."""
    # An old lock does not say who owned a workload that was removed from the stack file.
    dropped = {one.workload: Workload(user=one.user or min(stack.users(), default="nobody")) for one in known}
    # A node that is drained now was not when the lock was written, else the lock would have nothing there.
    nodes = {
        name: node.model_copy(update={"state": "ready"}) if node.state == "drain" else node
        for name, node in stack.nodes.items()
    }
    users = {one.workload: one.user for one in known if one.user and one.workload in stack.workloads}
    others = {
        name: stack.workloads[name].model_copy(update={"user": user})
        for name, user in users.items()
        if user != stack.workloads[name].user
    }
    if nodes == stack.nodes and dropped.keys() <= stack.workloads.keys() and not others:
        return stack
    return stack.model_copy(update={"nodes": nodes, "workloads": {**dropped, **stack.workloads, **others}})


def applied(stack: Stack, last: Placement, known: tuple[Allocation, ...]) -> Mapping[str, Desired]:
    """The desired state of every node that corresponds to the `known` allocations of the placement `last`."""
    return desired(stack_of(stack, known), last.model_copy(update={"allocations": known}))


def healthy(was: Mapping[str, Desired], fleet: str) -> dict[str, Observed]:
    """Every node as it would be found."""
    return {
        name: Observed(
            node=name,
            ledger=LedgerHead(lineage="", serial=0, fleet=fleet),
            state=one.state,
            health={each: "done" if each in one.ended else "healthy" for each in one.state.allocations},
        )
        for name, one in was.items()
    }
