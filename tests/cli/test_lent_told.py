"""Is what `swarm plan` says of memory that moves true, also of a range that the stack file no longer has as it is applied?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swarm_iac.cli.machines.fleet_view import lent
from swarm_iac.model.state import AllocationState, NodeState, Observed, SliceState, UnitState

MB = 10**6


def state(part: int, most: int | None) -> NodeState:
    own = SliceState(memory_low=40 * MB, memory_max=part * MB, memory_most=None if most is None else most * MB)
    unit = UnitState(command="true", user="ada")
    return NodeState(allocations={"hungry-0": AllocationState(workload="hungry", slice=own, unit=unit)})


@pytest.mark.parametrize("wanted", [state(150, 200), state(100, 200), state(100, None), NodeState()])
def test_its_part_is_the_one_that_it_has_until_the_plan_is_applied(wanted: NodeState) -> None:
    seen = {"n": Observed(node="n", state=state(150, 200), lent={"hungry-0": 190 * MB})}
    asked: Any = {"n": SimpleNamespace(state=wanted)}
    assert lent(seen, asked) == ("live: hungry-0 on n may use 190 MB of memory now; its part is 150 MB",)
