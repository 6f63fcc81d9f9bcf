"""Are the situations that people ask about first decided with proof, and told by name? Each case is a stack file in named/."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.power import caps
from swarm_iac.model.service.variants import choice
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, solve_declared
from swarm_iac.stackfile.editing.overrides import edited, parse
from swarm_iac.stackfile.load import loads
from tests.solver.oracle import still

CASES = sorted(Path(__file__).with_name("named").glob("*.yaml"))
TODAY = datetime.date(2026, 11, 2)


def read(data: dict[str, Any], *edits: str) -> Stack:
    """What the product reads in the file, with these edits."""
    loaded = loads(yaml.safe_dump(data, sort_keys=False), "stacks/named.yaml", today=TODAY)
    return edited(loaded, [one for edit in edits for one in parse(edit)]).stack


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


def reasons(placement: Placement) -> dict[str, str]:
    """Of each workload that is pending."""
    return {one.workload: " ".join(reason.text for reason in one.reasons) for one in placement.unplaced}


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case(file: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    stack, expect = read(yaml.safe_load(case["stack"])), case["expect"]
    last = standing(stack, case)
    chosen, solution = solve_declared(stack, last, today=TODAY)
    now = solution.placement
    assert judge(chosen, now, TODAY, **still(now, last)) == ()
    goals = {goal.name: goal for goal in solution.proof.goals}
    assert [name for name in expect["proven"] if goals[name].value != goals[name].bound] == []
    assert [move.name for move in solution.moves if not move.target] == expect["stops"]
    told = reasons(now)
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
    if "caps" in expect:
        assert {node: str(watts) for node, watts in caps(chosen, now).items()} == expect["caps"]
    if "variants" in expect:
        assert choice(stack, now) == expect["variants"]
    for edit, others in expect.get("then", {}).items():
        declared = read(yaml.safe_load(case["stack"]), edit)
        after, found = solve_declared(declared, now, today=TODAY)
        assert judge(after, found.placement, TODAY, **still(found.placement, now)) == ()
        assert choice(declared, found.placement) == others and not found.moves
    for edit, waits in expect.get("instead", {}).items():
        told = reasons(solve(read(yaml.safe_load(case["stack"]), edit), last, today=TODAY).placement)
        assert told.keys() == waits.keys()
        assert all(word in told[name] for name, words in waits.items() for word in words), told
    for path, nodes in expect.get("without", {}).items():
        data = yaml.safe_load(case["stack"])
        at = data
        *inside, last_key = path.split(".")
        for key in inside:
            at = at[key]
        del at[last_key]
        other = {goal.name: goal.value for goal in solve(read(data), today=TODAY).proof.goals}
        assert other["nodes"] == nodes
