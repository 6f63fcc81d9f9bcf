"""Does every clone know what is live, and does one autopilot lead them all? On a state in files that two clones share."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from swarm_iac.errors import Retryable
from swarm_iac.live import file as live_file
from tests.cli.live_clones import Team, clones, enter
from tests.provider.conftest import home

__all__ = ["home"]

pytestmark = pytest.mark.engine


@pytest.fixture
def team(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    (tmp_path / "state").mkdir()
    return clones(tmp_path, home, monkeypatch, url=f"file://{tmp_path}/state")


def test_an_up_of_another_clone_keeps_what_the_autopilot_granted(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bo = team("ada"), team("bo")
    ada.load(240)
    monkeypatch.chdir(ada.root)
    ada.pilot().once()
    assert len(ada.running()) == 6
    assert not (bo.root / ".state" / "dev.live.json").exists()
    bo.swarm("up", "--yes", "--skip-preview")
    assert len(bo.running()) == 6, "all of them go on"
    assert len(bo.layer().grants) == 4
    assert "live: chat-2" in bo.swarm("plan")
    bo.swarm("preview", "--expect-no-changes")
    bare = team("bare")
    bare.project.up()
    assert len(bare.running()) == 6, "nor does a bare `pulumi up`"
    assert not os.environ.get("SWARM_SHARE_LAYER")


def test_one_autopilot_leads_all_clones_until_it_ends_or_its_lease_does(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bo = team("ada"), team("bo")
    for one in (ada, bo):
        one.load(120)
    first = enter(ada, monkeypatch)
    first.once()
    assert len(ada.running()) == 3
    enter(ada, monkeypatch).once()  # it was killed and started again: the lease is its clone's
    second = enter(bo, monkeypatch)
    with pytest.raises(Retryable, match=r"another autopilot leads: \S+ process [0-9]+, until 20\d\d-"):
        second.once()
    assert not (bo.root / ".state" / "dev.live.log").exists(), "it decided nothing"

    assert first.leadership
    monkeypatch.chdir(ada.root)
    first.leadership.end()
    bo.load(240)
    monkeypatch.chdir(bo.root)
    second.memory.since -= 10_000  # no cool-down
    second.once()
    assert len(bo.running()) == 6, "what was released is taken at once, and what ada granted goes on"
    monkeypatch.chdir(ada.root)
    with pytest.raises(Retryable, match="another autopilot leads"):
        first.once()

    assert second.leadership
    second.leadership.lease = 3.0
    monkeypatch.chdir(bo.root)
    second.leadership.push()
    time.sleep(3.5)  # bo is killed, and renews nothing
    ada.load(1)
    monkeypatch.chdir(ada.root)
    first.memory.since -= 10_000
    first.once()
    assert len(ada.layer().grants) == 4, "it knows what bo granted, and has seen no load for long enough to take any away"
    monkeypatch.chdir(bo.root)
    with pytest.raises(Retryable, match="another autopilot leads"):
        second.once()


def test_who_was_overtaken_changes_nothing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decided from the same layer; the second one learns what the first wrote, and no machine is asked."""
    ada, bo = team("ada"), team("bo")
    ada.load(120)
    enter(ada, monkeypatch).once()
    bo.swarm("plan")
    held = bo.layer()
    live_file.write(
        bo.root / ".state" / "dev.live.json", held.model_copy(update={"grants": (), "unapplied": ("n1", "n2")}), held.generation
    )
    ada.load(240)
    again = enter(ada, monkeypatch)
    again.memory.since -= 10_000  # no cool-down
    again.once()
    assert len(ada.running()) == 6
    before = ada.project.machines.read_bytes()
    said = bo.project.up(ok=False, env={"SWARM_SHARE_LAYER": "keep"})
    assert "another clone replaced the live layer meanwhile" in said and "run it again" in said
    assert bo.project.machines.read_bytes() == before
    bo.swarm("up", "--yes", "--skip-preview")
    assert len(bo.running()) == 6 and len(bo.layer().grants) == 4


def test_the_lease_is_renewed_without_a_node_and_without_a_trace_elsewhere(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = team("ada")
    ada.load(120)
    one = enter(ada, monkeypatch)
    one.once()
    before, machines = ada.project.state(), ada.project.machines.read_bytes()
    ada.project.tamper({name: {**node, "error": "it must not be asked"} for name, node in ada.project.real().items()})
    assert one.leadership
    one.leadership.push()
    ada.project.machines.write_bytes(machines)
    after = ada.project.state()
    old, new = (json.loads(each.pop("Live dev")["inputs"]["version"])["number"] for each in (before, after))
    assert new == old + 1 and [*before] == [*after]
    known = ("id", "inputs", "outputs", "dependencies", "initErrors")
    assert [[one.get(each) for each in known] for one in before.values()] == [
        [one.get(each) for each in known] for one in after.values()
    ]
