"""Does a plan of a large fleet take longer only in proportion to its nodes?"""

from __future__ import annotations

from collections.abc import Callable

from swarm_iac.model.state import (
    AllocationState,
    Desired,
    LedgerHead,
    NodeState,
    Observed,
    SliceState,
    UnitState,
)
from swarm_iac.plan import steps
from tests.growth import grows_evenly
from tests.growth import steps as count


def fleet(count: int, changed: int) -> tuple[dict[str, Observed], dict[str, Desired]]:
    """Nodes with three services each, of which the first on `changed` nodes gets more memory."""

    def state(node: int, memory: int) -> NodeState:
        return NodeState(
            allocations={
                f"s{node}-{number}": AllocationState(
                    workload=f"s{node}", slice=SliceState(cpus="0-7", cpu_quota_m=1000, memory_max=memory if number == 0 else 4096),
                    unit=UnitState(user="ada", command="serve"),
                )
                for number in range(3)
            }
        )  # fmt: skip

    observed, desired = {}, {}
    for node in range(count):
        name, old, new = f"n{node}", state(node, 4096), state(node, 8192 if node < changed else 4096)
        head = LedgerHead(lineage="", serial=1, fleet="lab")
        health = dict.fromkeys(old.allocations, "healthy")
        observed[name] = Observed(node=name, ledger=head, state=old, health=health)
        handover = dict.fromkeys(old.allocations, "healthy-first")
        desired[name] = Desired.model_validate(
            {"node": name, "address": "local", "fleet": "lab", "state": new, "handover": handover}
        )
    return observed, desired


def test_a_fleet_four_times_as_large_takes_four_times_the_work() -> None:
    def prepared(count: int) -> Callable[[], object]:
        observed, desired = fleet(count, 8)
        return lambda: steps(observed, desired)

    assert len(steps(*fleet(60, 8)).steps) == 8
    assert grows_evenly(prepared, 60)


def test_a_node_that_is_as_desired_takes_less_than_half_the_work_of_one_that_changes() -> None:
    observed, desired = fleet(100, 0)
    changed = fleet(100, 100)
    steps(*changed)
    assert 2 * count(lambda: steps(observed, desired)) < count(lambda: steps(*changed))
