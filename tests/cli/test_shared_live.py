"""Does every clone know what is live, and does one autopilot lead them all? Real engines on one state, machines that are a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli import live_sharing
from swarm_iac.cli.live_sharing import Leadership
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.errors import Retryable
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from tests.provider.conftest import ROOT, Project, home

__all__ = ["home"]

pytestmark = pytest.mark.engine
STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {"n[1-2]": {hardware: h, ssh: "root@{name}.invalid"}}
workloads:
  chat:
    user: ada
    kind: serve
    replicas: 2..6
    scale: {on: requests_per_replica, target: 40}
    each: {gpus: 1}
    place: {per_node: 3}
    run: {command: serve}
"""


@dataclass
class Clone:
    """One operator's clone of the fleet repository."""

    project: Project
    said: list[str]

    @property
    def root(self) -> Path:
        return self.project.folder

    def swarm(self, *words: str, code: int | None = 0) -> str:
        """A command in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "swarm_iac.cli", *words],
            cwd=self.root, env=self.project.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def load(self, value: float) -> None:
        (self.root / "load.json").write_text(json.dumps({"chat": value}))

    def pilot(self, **more: Any) -> loop.Autopilot:
        lead = Leadership(self.root, "dev", self.said.append, 600.0, **more)
        measure = loop.of_source(self.root, str(self.root / "load.json"))
        return loop.Autopilot(self.root, "dev", measure, self.said.append, leadership=lead)

    def layer(self) -> Layer:
        return live_file.at(self.root / ".state" / "dev.live.json")

    def running(self) -> set[str]:
        nodes = self.project.real().values()
        return {name for node in nodes for name in node.get("state", {}).get("allocations", {})}


Team = Callable[[str], Clone]


@pytest.fixture
def team(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Clones by name; each has files of its own, and one state and one fleet are theirs together."""
    (tmp_path / "state").mkdir()
    machines = tmp_path / "machines.json"
    machines.write_text("{}")
    monkeypatch.setattr(live_sharing, "_FRESH", 0.0)
    for name, value in {"PRETEND": str(machines), "PRETEND_PATH": str(ROOT), "SWARM_NODE_TIMEOUT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "notes"))

    def clone(name: str) -> Clone:
        folder = tmp_path / name
        if not folder.exists():
            (folder / "stacks").mkdir(parents=True)
            plugin = ROOT / "tests" / "provider" / "plugin"
            (folder / "Pulumi.yaml").write_text(
                f"name: lab\nruntime: python\nbackend: {{url: 'file://{tmp_path}/state'}}\n"
                f"plugins: {{providers: [{{name: swarm, path: {plugin}}}]}}\n"
            )
            (folder / "__main__.py").write_text("from swarm_iac.program import main\n\nmain()\n")
            (folder / "stacks" / "dev.yaml").write_text(STACK)
            for file in ("dev.lock.yaml", "dev.proof.yaml"):  # as git brings them
                if (tmp_path / "ada" / "stacks" / file).exists():
                    (folder / "stacks" / file).write_bytes((tmp_path / "ada" / "stacks" / file).read_bytes())
            (folder / "Pulumi.dev.yaml").write_text("")
        project = Project(folder, home)
        project.machines = machines
        project.environment = {**project.environment, "PRETEND": str(machines), "SWARM_NODE_TIMEOUT": "1"}
        return Clone(project, [])

    ada = clone("ada")
    ada.swarm("up", "--yes", "--skip-preview")
    assert ada.running() == {"chat-0", "chat-1"}
    monkeypatch.setenv("PULUMI_HOME", str(home))
    return clone


def enter(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> loop.Autopilot:
    """Its autopilot, as a process that starts now."""
    monkeypatch.chdir(clone.root)
    return clone.pilot()


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
    enter(ada, monkeypatch).once()
    assert len(ada.running()) == 6
    before = ada.project.machines.read_bytes()
    said = bo.project.up(ok=False, env={"SWARM_SHARE_LAYER": "keep"})
    assert "another clone replaced the live layer meanwhile" in said and "run it again" in said
    assert bo.project.machines.read_bytes() == before
    bo.swarm("up", "--yes", "--skip-preview")
    assert len(bo.running()) == 6 and len(bo.layer().grants) == 4
