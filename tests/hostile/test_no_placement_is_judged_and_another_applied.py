"""What the limits judge is what is done to the nodes: no program sends one placement to be judged and another to be applied.

Fails on 20dd56a: the desired state of the nodes came along as `spec`, beside the stack and placement in `wish`. Only the
latter were judged, and only the former was carried out.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2
from pulumi.runtime.proto import provider_pb2 as pb

from swarm_iac.model.stack import Ceiling, Team
from swarm_iac.provider import spec
from swarm_iac.provider.operations import fleet_operations
from swarm_iac.provider.operations.fleet_operations import Before
from swarm_iac.provider.operations.servicer import Servicer
from swarm_iac.provider.plugin.serve import Busy
from swarm_iac.provider.plugin.wire import from_struct, to_struct
from swarm_iac.provider.policy import _analyzer
from swarm_iac.reconcile import Request
from swarm_iac.run_options import RunOptions
from tests.hostile.test_no_bent_call_breaks_the_provider import URN, Machines
from tests.provider.test_former_state import FORMER

REQUEST = spec.unpack_request(json.dumps(FORMER["given"]))
DERIVED = spec.derived(REQUEST)


def bent(change: Callable[[dict[str, Any]], object]) -> dict[str, str]:
    nodes = json.loads(DERIVED["spec"])
    change(nodes)
    return {"spec": json.dumps(nodes, sort_keys=True, separators=(",", ":"))}


def _first(nodes: dict[str, Any]) -> Any:
    node = next(one for one in nodes.values() if one["state"].get("allocations"))
    return next(iter(node["state"]["allocations"].values()))


OTHERS = {
    "another command": bent(lambda nodes: _first(nodes)["unit"].update(command="mine")),
    "another user": bent(lambda nodes: _first(nodes)["unit"].update(user="mallory")),
    "more memory": bent(lambda nodes: _first(nodes)["slice"].update(memory_max=1 << 50)),
    "unconfined": bent(lambda nodes: _first(nodes)["unit"].update(unconfined=True)),
    "another machine": bent(lambda nodes: nodes[next(iter(nodes))].update(address="root@elsewhere")),
    "a node more": bent(lambda nodes: nodes.update(x={"node": "x", "address": "root@x", "fleet": "lab"})),
    "a node less": bent(lambda nodes: nodes.pop(next(iter(nodes)))),
    "no spec at all": {"spec": "{}"},
    "a larger budget": {"guard": spec.guard(REQUEST.stack.solve.model_copy(update={"stops": 10_000}))},
    "nodes given up": {"guard": spec.guard(REQUEST.stack.solve, REQUEST.stack.nodes)},
    "another fleet": {"fleet": "another"},
}


def check(inputs: dict[str, Any]) -> Any:
    servicer = Servicer(Machines(), Busy(), RunOptions())  # type: ignore[arg-type]
    return asyncio.run(servicer.Check(pb.CheckRequest(urn=URN, news=to_struct(inputs)), None))


def asked(**more: str) -> dict[str, str]:
    return {"fleet": REQUEST.stack.fleet, "lineage": "l", "request": spec.pack_request(REQUEST), **more}


@pytest.mark.parametrize("name", OTHERS)
def test_inputs_that_say_something_else_are_refused(name: str) -> None:
    (key,) = OTHERS[name]
    inputs = asked(**OTHERS[name])
    assert [each.reason.split("\n")[0] for each in check(inputs).failures] == [
        f"`{key}` of the Fleet is not what its request comes to"
    ]
    request = analyzer_pb2.AnalyzeRequest(type="swarm:index:Fleet", urn=URN, properties=to_struct(inputs))
    (told,) = asyncio.run(_analyzer().Analyze(request, None)).diagnostics
    assert f"`{key}` of the Fleet is not what its request comes to" in told.message


def test_what_is_applied_is_what_was_judged() -> None:
    answer = check(asked())
    inputs = from_struct(answer.inputs)
    assert not answer.failures and inputs == {**asked(), **DERIVED}
    assert spec.unpack(inputs["spec"]) == REQUEST.nodes()
    machines = Machines()
    machines.nodes = {name: {"node": name} for name in REQUEST.stack.nodes}
    done = fleet_operations.apply(
        machines, inputs, Before(), RunOptions(), on_progress=lambda _: None, stop=threading.Event(), guarded=False
    )  # fmt: skip
    there = {name: node for node in REQUEST.stack.nodes for name in machines.nodes[node]["state"]["allocations"]}
    assert there == done.outputs["placement"] == {REQUEST.stack.runs_as(one): one.node for one in REQUEST.placement.allocations}
    assert check({**inputs}).inputs == answer.inputs, "checked twice is checked once"


def test_a_placement_above_a_limit_is_refused_whatever_spec_says() -> None:
    users = REQUEST.stack.limits.model_copy(update={"user": REQUEST.stack.limits.user.model_copy(update={"gpus": 1})})
    over = Request(REQUEST.stack.model_copy(update={"limits": users}), REQUEST.placement)
    alone = [each.reason for each in check(asked(request=spec.pack_request(over))).failures]
    assert any("limits.user" in reason for reason in alone)
    assert alone == [each.reason for each in check(asked(request=spec.pack_request(over), spec=DERIVED["spec"])).failures]
    assert check({"fleet": "lab", "lineage": "l", "spec": DERIVED["spec"]}).failures == [], "no stack, so no limit of one"


def test_a_placement_above_the_limit_of_a_team_is_refused_on_both_ways() -> None:
    """By Check and by the policy pack, whichever team around a user has the limit."""
    users = tuple({workload.user for workload in REQUEST.stack.workloads.values()})
    teams = {"t": Team(users=users, parent="lab"), "lab": Team(limits=Ceiling.model_validate({"vcpus": 0.5}))}
    over = Request(REQUEST.stack.model_copy(update={"teams": teams}), REQUEST.placement)
    inputs = asked(request=spec.pack_request(over))
    assert spec.unpack_request(inputs["request"]).stack.teams == teams
    assert any("teams.lab.limits.vcpus" in each.reason for each in check(inputs).failures)
    request = analyzer_pb2.AnalyzeRequest(type="swarm:index:Fleet", urn=URN, properties=to_struct(inputs))
    assert any("team lab holds" in one.message for one in asyncio.run(_analyzer().Analyze(request, None)).diagnostics)


@pytest.mark.parametrize("key", ["request", "wish"])
def test_a_request_under_its_former_name_is_judged_as_well(key: str) -> None:
    inputs = {"fleet": REQUEST.stack.fleet, "lineage": "l", key: spec.pack_request(REQUEST), **OTHERS["another user"]}
    assert check(inputs).failures
