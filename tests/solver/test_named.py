"""Are the situations that people ask about first decided with proof, and told by name? Each case is a stack file in named/."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.stackfile.load import loads
from tests.solver.oracle import still

CASES = sorted(Path(__file__).with_name("named").glob("*.yaml"))
TODAY = datetime.date(2026, 11, 2)


def read(data: dict[str, Any]) -> Stack:
    """What the product reads in the file."""
    return loads(yaml.safe_dump(data, sort_keys=False), "stacks/named.yaml", today=TODAY).stack


def standing(stack: Stack, case: dict[str, Any]) -> Placement:
    """What ran before: as the case says, or what is placed without those that are new."""
    if "before" in case:
        data = yaml.safe_load(case["stack"])
        for name in case["before"]["without"]:
            del data["workloads"][name]
        return solve(read(data), today=TODAY).placement
    found = []
    for label, at in case.get("stands", {}).items():
        name, _, index = label.rpartition("-")
        each = stack.workloads[name].each
        found.append(
            Allocation.model_validate(
                {"name": label, "workload": name, "index": int(index), "user": stack.workloads[name].user, **at}
                | {"vcpus": str(each.vcpus), "memory": str(each.memory)}
            )
        )
    return Placement(allocations=tuple(found))


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case(file: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    stack, expect = read(yaml.safe_load(case["stack"])), case["expect"]
    last = standing(stack, case)
    solution = solve(stack, last, today=TODAY)
    now = solution.placement
    assert judge(stack, now, TODAY, **still(now, last)) == ()
    goals = {goal.name: goal for goal in solution.proof.goals}
    assert [name for name in expect["proven"] if goals[name].value != goals[name].bound] == []
    assert [move.name for move in solution.moves if not move.target] == expect["stops"]
    told = {one.workload: " ".join(reason.text for reason in one.reasons) for one in now.unplaced}
    assert set(told) == set(expect.get("pending", {}))
    for name, words in expect.get("pending", {}).items():
        assert [word for word in words if word not in told[name]] == [], told[name]
    held = {a.name: [str(one) for one in a.gpus] for a in now.allocations}
    for name, gpus in expect.get("held", {}).items():
        assert held[name] == gpus
    if "moves" in expect:
        assert sum(1 for move in solution.moves if move.target) == expect["moves"]
    if "cards" in expect:
        assert len({(a.node, one.index) for a in now.allocations for one in a.gpus}) == expect["cards"]
    if "nodes" in expect:
        assert goals["nodes"].value == expect["nodes"]
    for path, nodes in expect.get("without", {}).items():
        data = yaml.safe_load(case["stack"])
        at = data
        *inside, last_key = path.split(".")
        for key in inside:
            at = at[key]
        del at[last_key]
        other = {goal.name: goal.value for goal in solve(read(data), today=TODAY).proof.goals}
        assert other["nodes"] == nodes
