"""What stands where? The stack and a placement, grouped once so that every rule is one pass."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pydantic import Field

from swarm_iac.model.base import Value
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Ceiling, Stack
from swarm_iac.units import BitsPerSecond, Bytes, Cpus


class Violation(Value):
    """One rule that a placement breaks."""

    rule: str = Field(description="Name of the rule's function, e.g. memory_fits_node.")
    text: str = Field(description="What is wrong, with figures, for people.")
    subject: str = Field(description="The allocation, node, rack, user or workload that it is about.")
    path: str = Field(default="", description="Path in the stack file of what is broken, e.g. limits.user.gpus.")


#: GPUs, thousandths of vCPUs, bytes of memory and storage, bit/s out and in.
Amounts = tuple[int, ...]
#: The five resources that ceilings know, with their types for printing.
RESOURCES: dict[str, type[int]] = {"gpus": int, "vcpus": Cpus, "memory": Bytes, "storage": Bytes, "bandwidth": BitsPerSecond}


class Board:
    """Allocations that name a known node and workload, by node, workload and user. `going`: those that have not ended."""

    def __init__(
        self,
        stack: Stack,
        placement: Placement,
        today: datetime.date | None,
        kept: frozenset[str],
        held: Mapping[str, Amounts] = MappingProxyType({}),
    ) -> None:
        self.stack = stack
        self.today = today
        self.kept = kept
        self.held = held
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


def totals(allocations: Iterable[Allocation]) -> dict[str, int]:
    """Σ of each resource; bandwidth is the larger of Σ in and Σ out."""
    return summed(map(amounts, allocations))


def amounts(one: Allocation) -> Amounts:
    """What one allocation holds."""
    rates = int.__int__(one.egress), int.__int__(one.ingress)
    return (len(one.gpus), int.__int__(one.vcpus), int.__int__(one.memory), int.__int__(one.storage), *rates)


def summed(amounts: Iterable[Amounts]) -> dict[str, int]:
    """The same sum of amounts."""
    gpus, vcpus, memory, storage, out, into = map(sum, zip((0,) * 6, *amounts, strict=True))
    return {"gpus": gpus, "vcpus": vcpus, "memory": memory, "storage": storage, "bandwidth": max(out, into)}


def most(ceiling: Ceiling, resource: str) -> int | None:
    """A ceiling's value in base units; None: there is none."""
    value = getattr(ceiling, resource)
    return None if value is None else int(value)


def shown(resource: str, value: int) -> str:
    """A value of a resource with its unit, as people read it."""
    return str(RESOURCES[resource](value))
