"""Several clones of one fleet repository, with real engines on one state, and machines that are a file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli import live_sharing
from swarm_iac.cli.live_sharing import Leadership
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.live import file as live_file
from swarm_iac.live.layer import Layer
from tests.provider.conftest import ROOT, Project

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


def clones(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, *, url: str, project: str = "lab",
    more: Mapping[str, str] = {}, stack: str = STACK,
) -> Team:  # fmt: skip
    """Clones by name; each has files of its own, and the state at `url` and one fleet are theirs together."""
    machines = tmp_path / "machines.json"
    machines.write_text("{}")
    monkeypatch.setattr(live_sharing, "_FRESH", 0.0)
    variables = {"PRETEND": str(machines), "PRETEND_PATH": str(ROOT), "SWARM_NODE_TIMEOUT": "1", **more}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "notes"))

    def clone(name: str) -> Clone:
        folder = tmp_path / name
        if not folder.exists():
            (folder / "stacks").mkdir(parents=True)
            plugin = ROOT / "tests" / "provider" / "plugin"
            (folder / "Pulumi.yaml").write_text(
                f"name: {project}\nruntime: python\nbackend: {{url: {json.dumps(url)}}}\n"
                f"plugins: {{providers: [{{name: swarm, path: {plugin}}}]}}\n"
            )
            (folder / "__main__.py").write_text("from swarm_iac.program import main\n\nmain()\n")
            (folder / "stacks" / "dev.yaml").write_text(stack)
            for file in ("dev.lock.yaml", "dev.proof.yaml"):  # as git brings them
                if (tmp_path / "ada" / "stacks" / file).exists():
                    (folder / "stacks" / file).write_bytes((tmp_path / "ada" / "stacks" / file).read_bytes())
            (folder / "Pulumi.dev.yaml").write_text("")
        made = Project(folder, home)
        made.machines = machines
        made.environment |= variables
        return Clone(made, [])

    ada = clone("ada")
    ada.swarm("up", "--yes", "--skip-preview")
    assert ada.running() == {"chat-0", "chat-1"}
    monkeypatch.setenv("PULUMI_HOME", str(home))
    return clone


def enter(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> loop.Autopilot:
    """Its autopilot, as a process that starts now."""
    monkeypatch.chdir(clone.root)
    return clone.pilot()
