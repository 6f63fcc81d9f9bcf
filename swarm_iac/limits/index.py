"""What stands where? The stack and a placement, grouped once so that every rule is one pass."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from pydantic import Field

from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.resources.table import LIMITED, RESOURCES, reader
from swarm_iac.model.stack import Stack


class Violation(Value):
    """One rule that a placement breaks."""

    rule: str = Field(description="Name of the rule's function, e.g. memory_fits_node.")
    text: str = Field(description="What is wrong, with figures, for people.")
    subject: str = Field(description="The allocation, node, rack, user or workload that it is about.")
    path: str = Field(default="", description="Path in the stack file of what is broken, e.g. limits.user.gpus.")


#: What is held of each resource that has a limit, in the order of _COUNTED.
Amounts = tuple[int, ...]
_COUNTED = tuple(row for row in RESOURCES if row.limit)
#: Where in Amounts the GPUs are.
GPUS = next(i for i, row in enumerate(_COUNTED) if row.name == "gpus")
#: Where in Amounts the rows of each limit are.
_PLACES = {key: tuple(_COUNTED.index(row) for row in rows) for key, rows in LIMITED.items()}


class PlacementIndex:
    """Allocations that name a known node and workload, by node, workload and user. `going`: those that have not ended."""

    def __init__(
        self,
        stack: Stack,
        placement: Placement,
        today: datetime.date | None,
        kept: frozenset[str],
        held: Mapping[str, Amounts] = MappingProxyType({}),
        ran: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.stack = stack
        self.today = today
        self.kept = kept
        self.held = held
        self.ran = ran
        self.every = placement.allocations
        self.known: list[Allocation] = []
        self.going: dict[str, list[Allocation]] = defaultdict(list)
        self.by_node: dict[str, list[Allocation]] = defaultdict(list)
        self.by_workload: dict[str, list[Allocation]] = defaultdict(list)
        self.by_user: dict[str, list[Allocation]] = defaultdict(list)
        for one in placement.allocations:
            if one.node in stack.nodes and one.workload in stack.workloads:
                self.known.append(one)
                self.by_node[one.node].append(one)
                self.by_workload[one.workload].append(one)
                if not one.ended:
                    self.going[one.workload].append(one)
                self.by_user[stack.workloads[one.workload].user].append(one)
            elif one.ended and one.workload in stack.workloads:  # its files went with its node, and its number is its own
                self.by_workload[one.workload].append(one)

    def rack(self, node: str) -> str:
        """The node's rack; a node without one is a rack of its own."""
        return self.stack.nodes[node].rack or f"(no rack) {node}"

    def place(self, node: str, kind: str) -> str:
        """The node itself, its rack or its site; where no site is named, a rack is one."""
        if kind == "node":
            return node
        return self.rack(node) if kind == "rack" else self.stack.nodes[node].site or f"(no site) {self.rack(node)}"


def totals(allocations: Iterable[Allocation]) -> dict[str, int]:
    """Σ of what each limit counts; of two directions (bandwidth) the larger sum."""
    return summed(map(amounts, allocations))


#: What one allocation holds.
amounts: Callable[[Allocation], Amounts] = reader(_COUNTED)


def summed(amounts: Iterable[Amounts]) -> dict[str, int]:
    """The same sum of amounts."""
    sums = list(map(sum, zip((0,) * len(_COUNTED), *amounts, strict=True)))
    return {key: max([sums[i] for i in places]) for key, places in _PLACES.items()}
