"""Does every clone know what is live, and does one autopilot lead them all? On a state in files that two clones share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import observe
from swarm_iac.cli import engine
from swarm_iac.cli.live_sharing import of_up
from swarm_iac.cli.power import waking
from swarm_iac.cli.power.hooks import Hooks
from swarm_iac.cli.power.powering import Powering
from swarm_iac.errors import Retryable
from swarm_iac.live import checkpoint
from swarm_iac.live import file as live_file
from swarm_iac.model.state import Observed
from tests.cli.live_clones import STACK, Clone, Team, clones, enter
from tests.cli.power.test_hooks import write
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


def test_a_process_that_is_ended_releases_the_lease_and_one_that_is_killed_does_not(team: Team) -> None:
    ada, bo = team("ada"), team("bo")

    def flies(clone: Clone, wants: Callable[[str], bool], end: signal.Signals) -> int:
        """`swarm autopilot` in a process of its own, until what it wrote is as wanted."""
        log = clone.root / "log"
        words = ["autopilot", "dev", "--metrics", "load.json", "--interval", "1"]
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "swarm_iac.cli", *words],
                cwd=clone.root, env=clone.project.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        try:
            began = time.monotonic()
            while not wants(log.read_text()):
                assert process.poll() is None and time.monotonic() - began < 120, log.read_text()
                time.sleep(0.2)
            process.send_signal(end)
            return process.wait(60)
        finally:
            process.kill()

    def leader() -> object:
        # `pulumi stack export` fails at times while another `pulumi` writes: it reads a second file beside that of the state.
        there = checkpoint.read(ada.root, "dev", {})
        return there and there.leader

    for one in (ada, bo):
        one.load(240)
    assert flies(ada, lambda _: len(ada.running()) == 6, signal.SIGTERM) == 0
    assert leader() is None and len(ada.running()) == 6
    assert flies(ada, lambda _: leader() is not None, signal.SIGKILL) == -signal.SIGKILL
    assert flies(bo, lambda text: "another autopilot leads" in text, signal.SIGTERM) == 0
    assert leader() is not None, "who does not have it releases nothing"


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


SAVING = STACK.replace('nodes: {"n[1-2]": {hardware: h, ssh: "root@{name}.invalid"}}', """\
power_saving: {idle: {suspend_time: 1 s, resume_timeout: 2 min, suspend_timeout: 2 min, keep: 0}}
nodes:
  n[1-2]: {hardware: h, ssh: "root@{name}.invalid"}
  n2: {power_saving: idle}
""")  # fmt: skip


def test_a_node_that_sleeps_is_known_to_all_clones_and_so_is_who_powered_it_on(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir()
    team = clones(tmp_path, home, monkeypatch, url=f"file://{tmp_path}/state", stack=SAVING)
    ada, bo = team("ada"), team("bo")
    power = tmp_path / "n2"
    power.write_text("on")
    folder = write(
        tmp_path / "hooks",
        resume=f"echo on >{power}",
        suspend=f"echo off >{power}; echo asked >>{power}.log",
        check=f"cat {power}",
    )

    def look(targets: Mapping[str, str], **_: Any) -> dict[str, Observed]:
        return {node: Observed(node=node, error="no route" if power.read_text().strip() == "off" else "") for node in targets}

    ada.load(80)
    one = enter(ada, monkeypatch)
    path = ada.root / ".state" / "dev.live.json"
    assert one.leadership
    shared: list[str] = []

    def tell() -> None:
        assert one.leadership and not Path(f"{power}.log").exists()
        one.leadership.tell()
        bo.swarm("plan")
        shared.append(bo.layer().power["n2"].state)

    one.power = Powering(ada.root, "dev", path, Hooks.of(folder, ada.root), ada.said.append, look, share=tell)
    began = time.monotonic()
    while not (ada.layer().power and ada.layer().power["n2"].state == "off"):
        assert time.monotonic() - began < 120, ada.said
        one.once()
        time.sleep(0.3)
    assert shared == ["suspending"], "all knew it before it was powered off"
    assert "powered off: n2" in bo.swarm("plan") and bo.layer().power["n2"].state == "off"

    file = bo.root / "stacks" / "dev.yaml"
    file.write_text(file.read_text().replace("replicas: 2..6", "replicas: 4..6"))
    monkeypatch.chdir(bo.root)
    monkeypatch.setenv("SWARM_POWER_HOOKS", str(folder))
    monkeypatch.setattr(observe, "observe", look)
    waking.wake(bo.root, "dev", bo.said.append)
    assert power.read_text().strip() == "on" and not bo.layer().power
    more = of_up(bo.root, "dev")
    assert more == {"SWARM_SHARE_LAYER": "keep"}
    assert (
        engine.pulumi(bo.root, "dev", ["up", "--yes", "--skip-preview"], bo.said.append, capture=True, more=more).returncode
        == 0
    )
    assert len(bo.running()) == 4 and of_up(bo.root, "dev") == {}
    monkeypatch.chdir(ada.root)
    one.leadership._fetched = None
    one.leadership.begin()
    assert not ada.layer().power
    one.power.end()
