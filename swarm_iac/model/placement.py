"""What was decided? Allocations, what found no place and why, and how good it is."""

from __future__ import annotations

from operator import not_
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model, field_validator

from swarm_iac.model import device
from swarm_iac.model.base import Account, Core, Name, Value
from swarm_iac.model.device import Device
from swarm_iac.model.resources.table import RESOURCES, sizes
from swarm_iac.units import BitsPerSecond, Bytes, Cpus


class _Placed(Value):
    """Which replica stands where, on which pieces of its node."""

    name: str = Field(description="WORKLOAD-INDEX")
    workload: Name
    index: int = Field(ge=0)
    node: Name
    user: Account | None = Field(default=None, description="Whose it is; None where a lock file of before does not say.")
    gpus: tuple[Device, ...] = ()
    cpus: tuple[Core, ...] = Field(default=(), description="Pinned CPUs; empty when it shares.")
    numa: tuple[Core, ...] = Field(default=(), description="NUMA nodes it is bound to; empty when it is not.")


if TYPE_CHECKING:

    class _Sized(_Placed):
        """The amounts that other modules call by name; the table knows all of them."""

        vcpus: Cpus
        memory: Bytes
        storage: Bytes = Bytes(0)
        egress: BitsPerSecond = BitsPerSecond(0)
        ingress: BitsPerSecond = BitsPerSecond(0)

else:
    _Sized = create_model("_Sized", __base__=_Placed, __module__=__name__, **sizes())


class Allocation(_Sized):
    """One replica's resources on one node: pieces with their numbers, and an amount of each other countable resource."""

    ended: bool = Field(default=False, exclude_if=not_, description="A finished job: it holds only its storage.")

    @property
    def cards(self) -> tuple[int, ...]:
        """Numbers of its GPUs, also of those that it holds a part of."""
        return device.cards(self.gpus)

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs."""
        return sum([one.part for one in self.gpus])

    @property
    def running(self) -> int:
        """How many running replicas it is."""
        return int(not self.ended)

    def released(self) -> Allocation:
        """The same after its end: its files stay, and others may have the rest."""
        nothing = {row.field: () if row.pieces else row.unit(0) for row in RESOURCES if not row.files and not row.itself}
        return self.model_copy(update={**nothing, "numa": (), "ended": True})


class Reason(Value):
    """One rule that stands in the way, with its numbers."""

    rule: str = Field(description="Name of the rule, e.g. gpus_fit_node.")
    text: str = Field(description="The rule with its figures, for people.")
    path: str = Field(default="", description="Path in the stack file of what it comes from, e.g. limits.user.gpus.")
    besides: Literal["", "one", "each"] = Field(
        default="", description="It has to go as well: with the one reason before it, or with each of those before it."
    )


class Waiting(Value):
    """A pending workload, and why."""

    workload: Name
    code: str = Field(default="", description="One word for the reasons: Resources, UserLimit, …")
    nodes: str = Field(default="", description="How many nodes keep it out, by what they lack.")
    reasons: tuple[Reason, ...] = ()

    def why(self) -> Waiting:
        """The reasons alone, as a proof keeps them."""
        return Waiting(workload=self.workload, code=self.code, nodes=self.nodes, reasons=self.reasons)


class Unplaced(Waiting):
    """A workload (a whole gang, or some replicas) that found no place."""

    missing: tuple[int, ...] = Field(description="Indices of the replicas without a place.")


class Growing(Waiting):
    """A workload that runs in its old size, since there is no capacity for it to grow."""

    keeps: str = Field(default="", description="What of its size would change, as it is: 2 GPUs.")
    wants: str = Field(default="", description="The same as it is requested: 3 GPUs.")


class Lighter(Waiting):
    """A workload that does not run in the first of its variants, and why."""

    variant: Name = Field(description="The variant that it runs in.")
    instead_of: tuple[Name, ...] = Field(default=(), description="Those that it prefers, the first first.")


class Placement(Value):
    """All that was decided, sorted by name."""

    allocations: tuple[Allocation, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    growing: tuple[Growing, ...] = ()
    lighter: tuple[Lighter, ...] = Field(default=(), exclude_if=not_)

    def by_name(self) -> dict[str, Allocation]:
        """Allocations by name."""
        return {allocation.name: allocation for allocation in self.allocations}

    def going(self) -> tuple[Allocation, ...]:
        """Allocations that have not finished."""
        return tuple(one for one in self.allocations if not one.ended)

    def waiting(self) -> tuple[Waiting, ...]:
        """What has no place, and what waits to grow."""
        return (*self.unplaced, *self.growing)

    def refused(self) -> tuple[Waiting, ...]:
        """All that has less than it asks for: what waits, and what runs in a lighter variant."""
        return (*self.unplaced, *self.growing, *self.lighter)

    def on(self, node: str) -> tuple[Allocation, ...]:
        """Allocations on `node`, sorted by name."""
        return tuple(allocation for allocation in self.allocations if allocation.node == node)


class Goal(Value):
    """One term of the objective: what was reached and the best that any placement could reach."""

    name: str
    value: int
    bound: int

    @field_validator("name", mode="before")
    @classmethod
    def _of_now(cls, name: Any) -> Any:
        return "overqualification" if name == "misfit" else name  # as in proofs of earlier versions


class Proof(Value):
    """How good a placement is, and how that is known."""

    optimal: bool
    goals: tuple[Goal, ...]
    solver: str = Field(description="Name and version.")
    parameters: dict[str, int | str] = {}
    placement: str = Field(description="Digest of the placement that it belongs to.")
    problem: dict[str, str] = Field(default={}, description="What was decided, by part: digests, and what each rack has.")
    pending: tuple[Waiting, ...] = Field(default=(), description="Why workloads are pending, as of the decision.")
    lighter: tuple[Waiting, ...] = Field(
        default=(), exclude_if=not_, description="Why workloads run in a lighter variant, as of the decision."
    )
