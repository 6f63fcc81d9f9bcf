"""Is what measures a node a part of its state like any other, and is a stack without it as it was before there was such a part?"""

from __future__ import annotations

import json

import pytest

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Team, Telemetry
from swarm_iac.model.state import Desired, LedgerHead, NodeState, Observed, TelemetryState
from swarm_iac.model.step import Step, Verb
from swarm_iac.plan import desired, rows, steps
from tests.plan.test_desired import allocation, stack

HEAD = LedgerHead(lineage="L", serial=1, fleet="f")
ON = TelemetryState(port=9418, scrapers=("10.0.0.5",), teams={"ada": "t"})
TELEMETRY = Telemetry(scrapers=("10.0.0.5",))


def wanted(telemetry: Telemetry | None) -> dict[str, Desired]:
    asked = stack().model_copy(update={"telemetry": telemetry, "teams": {"t": Team(users=("ada",)), "u": Team(users=("bo",))}})
    return desired(asked, Placement(allocations=(allocation("tidy-0", "n2"),)))


def planned(old: TelemetryState | None, new: TelemetryState | None) -> tuple[Step, ...]:
    node = Desired(node="n", address="root@n", fleet="f", state=NodeState(telemetry=new))
    return steps({"n": Observed(node="n", ledger=HEAD, agent="d", state=NodeState(telemetry=old))}, {"n": node}, "d").steps


def test_every_node_is_measured_and_knows_only_the_teams_of_those_on_it() -> None:
    found = {name: each.state.telemetry for name, each in wanted(TELEMETRY).items()}
    assert found == {"n1": ON.model_copy(update={"teams": {}}), "n2": ON, "n4": ON.model_copy(update={"teams": {}})}, (
        "also one that is drained; one that is lost is nobody's"
    )


def test_a_stack_without_it_writes_nothing_of_it() -> None:
    for each in wanted(None).values():
        assert each.state.telemetry is None and "telemetry" not in json.dumps(each.model_dump(mode="json"))
    assert "telemetry" not in stack().model_dump(mode="json")
    assert planned(None, None) == ()


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        (None, ON, ["telemetry.port", "telemetry.scrapers", 'telemetry.teams["ada"]']),
        (ON, None, ["telemetry.port", "telemetry.scrapers", 'telemetry.teams["ada"]']),
        (ON, ON.model_copy(update={"port": 9999}), ["telemetry.port"]),
        (ON, ON.model_copy(update={"scrapers": ()}), ["telemetry.scrapers"]),
        (ON, ON.model_copy(update={"teams": {}}), ['telemetry.teams["ada"]']),
    ],
)
def test_each_difference_is_one_step_that_says_it(
    old: TelemetryState | None, new: TelemetryState | None, paths: list[str]
) -> None:
    (step,) = planned(old, new)
    assert (step.id, step.verb, [change.path for change in step.changes]) == ("n/telemetry", Verb.TELEMETRY, paths)
    assert step.want == {"telemetry": new and new.model_dump(mode="json")} and not step.after


def test_nobody_waits_for_it() -> None:
    """A node whose sampler does not start runs its work all the same."""
    ones = {name: each for name, each in wanted(TELEMETRY).items() if name == "n2"}
    found = steps({"n2": Observed(node="n2", ledger=HEAD, agent="d")}, ones, "d").steps
    assert {step.verb for step in found} >= {Verb.TELEMETRY, Verb.SLICE, Verb.START}
    assert not any("n2/telemetry" in step.after for step in found)


def test_a_row_says_who_may_read() -> None:
    assert rows({"n": NodeState(telemetry=ON)})["Node", "n"] == {"telemetry": "port 9418, for 10.0.0.5"}
    alone = NodeState(telemetry=TelemetryState(port=9418))
    assert rows({"n": alone})["Node", "n"] == {"telemetry": "port 9418, for the node itself"}
