"""Can a workload reach a node that is reserved for another team by what its author writes?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.errors import StackFileError
from swarm_iac.limits import excused, judge
from swarm_iac.model.edit import Edit, changed
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.solver import solve
from swarm_iac.stackfile.load import loads
from tests.sized import sizes

TODAY = datetime.date(2026, 11, 22)
STACK = """\
fleet: lab
teams: {research: {users: [ada]}, product: {users: [bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes:
  gpu-[01-02]: {hardware: h, ssh: "root@{name}"}
  gpu-02: {taints: {dedicated: {value: research, teams: [research]}}}
workloads:
  ours: {user: ada, each: {gpus: 8}, place: {tolerate: {dedicated: research}}}
  theirs: {user: bo, replicas: 2, each: {gpus: 8}}
"""


@pytest.mark.parametrize("value", ["research", "'*'"])
def test_a_toleration_of_another_team_is_refused_with_its_line(value: str) -> None:
    text = STACK.replace("each: {gpus: 8}}", f"each: {{gpus: 8}}, place: {{tolerate: {{dedicated: {value}}}}}}}")
    with pytest.raises(
        StackFileError, match="bo is in the team product, and dedicated: research is reserved for research"
    ) as told:
        loads(text, "lab.yaml", today=TODAY)
    assert [problem.place.line for problem in told.value.problems] == [9]


def test_neither_solver_nor_limits_rest_on_that_check() -> None:
    """Nor on a priority, and nobody is preempted for it."""
    stack = loads(STACK, "lab.yaml", today=TODAY).stack
    for path, value in (("place.tolerate", {"dedicated": "*"}), ("priority", "high")):
        stack = changed(stack, Edit(path=f"workloads.theirs.{path}", value=value))
    found = solve(stack).placement
    assert {(one.workload, one.node) for one in found.allocations} == {("ours", "gpu-02"), ("theirs", "gpu-01")}
    one = found.allocations[0].model_copy(update={"workload": "theirs", "name": "theirs-1", "index": 1, "user": "bo"})
    assert [each.rule for each in judge(stack, Placement(allocations=(one,)))] == ["taints_keep_new_work_away"]


def test_a_lock_that_claims_that_it_ran_there_is_believed_only_as_far_as_the_machine_says() -> None:
    stack = loads(STACK, "lab.yaml", today=TODAY).stack
    gpus = tuple(range(8))
    claimed = Allocation(
        name="theirs-0", workload="theirs", index=0, node="gpu-02", user="bo", gpus=gpus, **sizes(stack.workloads["theirs"])
    )
    placement = Placement(allocations=(claimed,))
    assert judge(stack, placement) and not judge(stack, placement, kept=frozenset({"theirs-0"}))
    assert excused(stack, placement, frozenset({"theirs-0"})) == {"theirs-0"}
