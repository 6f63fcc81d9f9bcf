"""What is asked of a fleet? One request, from which the state of every node and the budget of the change follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Solve, Stack
from swarm_iac.model.state import Desired
from swarm_iac.plan import desired
from swarm_iac.plan.order.temporary_placement import Fits, may_be_placed
from swarm_iac.plan.planning import anywhere

if TYPE_CHECKING:
    from swarm_iac.limits import Amounts


@dataclass(frozen=True)
class Request:
    """A stack, its placement, and what ran before.

    `kept` and `held` are as `limits.judge` takes them: allocations that stay on their node, and what each held. `stood`:
    allocation → node for those that may run only because they ran there already. `source`: the stack file, for messages.
    """

    stack: Stack
    placement: Placement
    kept: frozenset[str] = frozenset()
    held: Mapping[str, Amounts] = field(default_factory=dict)
    stood: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def lost(self) -> frozenset[str]:
        """Nodes that are given up."""
        return frozenset(name for name, node in self.stack.nodes.items() if node.state == "lost")

    def ran(self) -> dict[str, str]:
        """On which node each allocation ran that may run only because it did, as `limits.judge` takes it."""
        known = (one for one in self.placement.allocations if one.workload in self.stack.workloads)
        return {one.name: self.stood[key] for one in known if (key := self.stack.runs_as(one)) in self.stood}

    def nodes(self) -> dict[str, Desired]:
        """The desired state of every node."""
        return desired(self.stack, self.placement)


@dataclass(frozen=True)
class Target:
    """The desired state of every node, and the budget of the change.

    `lineage`: owner of the nodes; empty if unknown. `stack`: the stack if it is known, parsed only if needed.
    """

    nodes: dict[str, Desired] = field(default_factory=dict)
    lineage: str = ""
    solve: Solve = field(default_factory=Solve)
    lost: frozenset[str] = frozenset()
    stood: Mapping[str, str] = field(default_factory=dict)
    fits: Fits = anywhere
    stack: Callable[[], Stack | None] = lambda: None

    @classmethod
    def of(cls, request: Request, nodes: dict[str, Desired], lineage: str = "") -> Target:
        """The target of a request; `nodes`: of that request."""
        stack = request.stack
        return cls(nodes, lineage, stack.solve, request.lost, request.stood, partial(may_be_placed, stack), lambda: stack)
