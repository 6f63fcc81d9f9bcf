"""Does the engine's user see a change refused that nobody can have meant, and do the machines stay as they were?"""

from __future__ import annotations

import json

import pytest

from tests.provider.conftest import Project, node, two_nodes

pytestmark = pytest.mark.engine
NONE_MAY_STOP = {"solve": {"stops": 0}}


def test_a_list_of_nodes_cut_in_half_is_refused_and_destroy_is_not(standing: Project) -> None:
    before = standing.real()
    standing.give({"n1": two_nodes()["n1"]})
    for text in (standing.pulumi("preview", ok=False), standing.up(ok=False)):
        assert "1 node that left the stack still holds 1 allocation (n2: serve-0)" in text
    assert standing.real() == before
    standing.pulumi("destroy", "--yes", "--skip-preview")
    assert standing.real() == {"n1": {}, "n2": {}}


def test_a_mass_stop_needs_its_number(standing: Project) -> None:
    before = standing.real()
    standing.give({"n1": node("n1"), "n2": node("n2")})
    assert "would stop all 2 running allocations (serve-0, train-0): the stack declares no workloads" in standing.up(ok=False)
    standing.give({"n1": node("n1"), "n2": node("n2")}, **NONE_MAY_STOP)
    assert "would stop 2 running allocations (serve-0, train-0), and solve.stops is 0" in standing.up(ok=False)
    assert "would stop 2" in standing.up(ok=False, env={"SWARM_ALLOW_STOP": "1"})
    assert standing.real() == before
    standing.up(env={"SWARM_ALLOW_STOP": "2"})
    assert not standing.real()["n1"]["state"]["allocations"]


def test_a_fleet_under_another_name_is_refused(standing: Project) -> None:
    before = standing.real()
    standing.give({name: {**each, "fleet": "lba"} for name, each in two_nodes().items()})
    assert "n1, n2 belong to the fleet lab, and the stack file says lba: 2 running allocations" in standing.up(ok=False)
    assert standing.real() == before


def test_a_node_that_is_given_up_is_forgotten_and_asked_nothing(standing: Project) -> None:
    machines = standing.real()
    machines["n2"]["error"] = "ssh: connect to host n2 port 22: No route to host"
    standing.tamper(machines)
    taken = two_nodes()["n1"]["state"]["allocations"]["train-0"]
    moved = {**taken, "gpus": [2]}
    standing.give({"n1": node("n1", train_0=taken, serve_0=moved)}, lost=["n2"])
    standing.up()
    assert "serve-0" in standing.real()["n1"]["state"]["allocations"]
    assert "Node n2" not in standing.state()


def test_a_preview_leaves_what_it_comes_to_and_a_refused_one_shows_its_rows(standing: Project) -> None:
    file = standing.folder / "summary"
    standing.give({"n1": node("n1"), "n2": node("n2")}, **NONE_MAY_STOP)
    text = standing.pulumi("preview", ok=False, env={"SWARM_SUMMARY": str(file)})
    assert "would stop 2 running allocations (serve-0, train-0), and solve.stops is 0" in text
    assert sorted(json.loads(file.read_text())["stop"]) == ["serve-0", "train-0"]
    rows = [line.split()[1:4] for line in text.splitlines() if "swarm:index:Allocation" in line]
    assert sorted((row[1], row[2]) for row in rows) == [("serve-0", "delete"), ("train-0", "delete")]
    offline = standing.pulumi("preview", env={"SWARM_SUMMARY": str(file), "SWARM_OFFLINE": "1"})
    assert "SWARM_OFFLINE" in offline
    assert sorted(json.loads(file.read_text())["stop"]) == ["serve-0", "train-0"]


def test_an_up_leaves_what_its_preview_showed_and_nothing_where_it_showed_none(standing: Project) -> None:
    """The last line of `swarm up` is made of that."""
    file = standing.folder / "summary"
    standing.give({"n1": node("n1"), "n2": two_nodes()["n2"]})
    standing.pulumi("up", "--yes", env={"SWARM_SUMMARY": str(file)})
    assert list(json.loads(file.read_text())["stop"]) == ["train-0"]
    file.unlink()
    standing.pulumi("up", "--yes", env={"SWARM_SUMMARY": str(file)})
    assert not file.exists(), "nothing changes, and the provider is asked nothing"
    standing.give({"n1": node("n1"), "n2": node("n2")})
    standing.pulumi("up", "--yes", "--skip-preview", env={"SWARM_SUMMARY": str(file)})
    assert not file.exists(), "an update itself says nothing of the kind"
