"""Can a state that a former version wrote be read, changed and given back?

`former_state.json` was exported by version 0.1 with two documents that the program both sent, `spec` and `wish`; the stack in
it has keys under the names of then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.errors import Refused
from swarm_iac.provider import spec
from tests.provider.conftest import Project

FORMER: dict[str, Any] = json.loads((Path(__file__).parent / "former_state.json").read_text())
(INPUTS,) = (one["inputs"] for one in FORMER["state"]["deployment"]["resources"] if one["type"] == "swarm:index:Fleet")


def test_its_inputs_say_what_they_said() -> None:
    assert "request" not in INPUTS and json.loads(INPUTS["wish"])["source"] == "stacks/lab.yaml"
    target = spec.target(INPUTS)
    assert target.nodes["n1"].state.allocations.keys() == {"chat-0", "train-0"} and target.stood == {"chat-1": "n2"}
    stack = target.stack()
    assert stack is not None and stack.nodes["n2"].state == "cordon"
    where = {node for node in stack.nodes if target.fits("train", node, ())}
    assert "n1" in where and "n2" not in where, "under the name it runs as, and not on a cordoned node"


def test_what_it_asked_for_comes_to_the_same_nodes_today() -> None:
    request = spec.unpack_request(INPUTS["wish"])
    assert spec.derived(request)["spec"] == INPUTS["spec"]


def test_gpus_that_ran_then_are_counted_in_thousandths_today() -> None:
    whole = json.loads(INPUTS["wish"]) | {"held": {"chat-1": [1, 2000, 8_000_000_000, 0, 0, 0]}}
    request = spec.unpack_request(json.dumps(whole))
    assert request.held["chat-1"][:3] == (1000, 2000, 8_000_000_000)
    assert spec.unpack_request(spec.pack_request(request)).held == request.held
    with pytest.raises(Refused):
        spec.unpack_request(json.dumps(whole | {"held": {"chat-1": ["x"]}}))


@pytest.fixture
def former(project: Project) -> Project:
    file = project.folder / "state.json"
    file.write_text(json.dumps(FORMER["state"]))
    project.pulumi("stack", "import", "--file", str(file))
    project.tamper(FORMER["machines"])
    project.give({}, request={key: FORMER["given"][key] for key in ("stack", "placement", "kept", "held", "stood")})
    return project


@pytest.mark.engine
def test_it_is_refreshed_found_unchanged_and_given_back(former: Project) -> None:
    before = former.real()
    former.pulumi("refresh", "--yes", "--skip-preview")
    assert former.changes() == {}
    former.up()
    assert former.real() == before
    fleet = former.state()["Fleet lab"]["inputs"]
    assert "wish" not in fleet and json.loads(fleet["request"])["stood"] == {"chat-1": "n2"} and fleet["spec"] == INPUTS["spec"]
    former.pulumi("destroy", "--yes", "--skip-preview")
    assert former.real() == {"n1": {}, "n2": {}}


@pytest.mark.engine
def test_it_is_given_back_by_a_version_that_never_ran_up(former: Project) -> None:
    former.pulumi("destroy", "--yes", "--skip-preview")
    assert former.real() == {"n1": {}, "n2": {}}


@pytest.mark.engine
def test_a_request_that_no_version_reads_any_more_keeps_nobody_from_giving_back(former: Project) -> None:
    state = json.loads(json.dumps(FORMER["state"]))
    for one in state["deployment"]["resources"]:
        if one["type"] == "swarm:index:Fleet":
            one["inputs"]["wish"] = json.dumps({"stack": {"fleet": "lab", "a key of the past": 1}})
    (former.folder / "state.json").write_text(json.dumps(state))
    former.pulumi("stack", "import", "--file", str(former.folder / "state.json"))
    former.pulumi("refresh", "--yes", "--skip-preview")
    former.pulumi("destroy", "--yes", "--skip-preview")
    assert former.real() == {"n1": {}, "n2": {}}
