"""How does a test drive the real engine? With a project of its own, a home of its own, and machines that are a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json
import pulumi
from swarm_iac.model.stack import Solve
from swarm_iac.provider.resource import Fleet
from swarm_iac.provider.spec import unpack_request

given = json.load(open("given.json"))
if "request" in given:
    request = unpack_request(json.dumps(given["request"]))
    fleet = Fleet("lab", request=request, nodes=given["nodes"] or None)
else:
    solve = Solve.model_validate(given["solve"]) if "solve" in given else None
    fleet = Fleet("lab", fleet="lab", nodes=given["nodes"], solve=solve, lost=given.get("lost", ()))
pulumi.export("placement", fleet.placement)
pulumi.export("addresses", fleet.addresses)
"""


class Project:
    """One Pulumi project in a folder of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.machines = folder / "machines.json"
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PULUMI_HOME": str(home),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PYTHONPATH": str(ROOT),
            "PRETEND": str(self.machines),
            "PRETEND_PATH": str(ROOT),
        }
        self.environment.pop("SWARM_OFFLINE", None)

    def pulumi(self, *arguments: str, ok: bool | None = True, env: Mapping[str, str] | None = None) -> str:
        """Run it; all it wrote. `ok`: whether it must succeed, None for either."""
        done = subprocess.run(
            ["pulumi", "--non-interactive", "--color", "never", *arguments, "--stack", "dev"],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        text = done.stdout + done.stderr
        assert ok is None or (done.returncode == 0) is ok, text
        assert "Traceback" not in text and "panic" not in text, text
        return text

    def up(self, *, ok: bool | None = True, env: Mapping[str, str] | None = None) -> str:
        return self.pulumi("up", "--yes", "--skip-preview", ok=ok, env=env)

    def changes(self, **env: str) -> dict[str, tuple[str, dict[str, Any]]]:
        """What a plain preview would change: 'Kind name' → operation and detailed diff."""
        done = subprocess.run(
            ["pulumi", "--non-interactive", "preview", "--json", "--stack", "dev"],
            cwd=self.folder, env={**self.environment, **env},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        out = {}
        for step in json.loads(done.stdout).get("steps", []):
            kind, name = step["urn"].rsplit("::", 2)[-2].rsplit(":", 1)[-1], step["urn"].rsplit("::", 1)[-1]
            if step["op"] not in ("same", "refresh", "read") and kind in ("Node", "Allocation"):
                out[f"{kind} {name}"] = (step["op"], step.get("detailedDiff") or {})
        return out

    def state(self) -> dict[str, dict[str, Any]]:
        """'Kind name' → resource, as the state file has it."""
        found = json.loads(self.pulumi("stack", "export"))["deployment"].get("resources", [])
        return {f"{each['type'].rsplit(':', 1)[-1]} {each['urn'].rsplit('::', 1)[-1]}": each for each in found}

    def give(self, nodes: Mapping[str, Any], **more: Any) -> None:
        """What the program asks for."""
        (self.folder / "given.json").write_text(json.dumps({"nodes": nodes, **more}))

    def real(self) -> dict[str, Any]:
        """The machines."""
        found: dict[str, Any] = json.loads(self.machines.read_text())
        return found

    def tamper(self, machines: Mapping[str, Any]) -> None:
        """Change the machines behind the engine's back."""
        self.machines.write_text(json.dumps(machines))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("pulumi") is None:
        pytest.fail('there is no `pulumi` on PATH: run `make setup`, or eval "$(swarm env)"', pytrace=False)
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """A project with an empty stack, to copy."""
    folder = tmp_path_factory.mktemp("blank")
    plugin = ROOT / "tests" / "provider" / "plugin"
    (folder / ".state").mkdir()
    (folder / "Pulumi.yaml").write_text(
        f"name: lab\nruntime: python\nbackend: {{url: 'file://./.state'}}\n"
        f"plugins: {{providers: [{{name: swarm, path: {plugin}}}]}}\n"
    )
    (folder / "__main__.py").write_text(PROGRAM)
    project = Project(folder, home)
    project.tamper({})
    project.pulumi("stack", "init")
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path, blank: Path) -> Project:
    shutil.copytree(blank, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, home)


@pytest.fixture(scope="session")
def stood(tmp_path_factory: pytest.TempPathFactory, home: Path, blank: Path) -> Path:
    """A project with its two nodes up, to copy: the first `up` costs as much as a test."""
    folder = tmp_path_factory.mktemp("stood")
    shutil.copytree(blank, folder, dirs_exist_ok=True)
    project = Project(folder, home)
    project.give(two_nodes())
    project.up()
    return folder


@pytest.fixture
def standing(tmp_path: Path, home: Path, stood: Path) -> Project:
    shutil.copytree(stood, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, home)


def two_nodes(**changed: Any) -> dict[str, Any]:
    """n1 with train-0 (or another in its place), n2 with serve-0."""
    return {
        "n1": node("n1", train_0=changed.get("train_0", allocation([0, 1]))),
        "n2": node("n2", serve_0=allocation([0])),
    }


def allocation(gpus: list[int], *, memory: int = 10**9, command: str = "") -> dict[str, Any]:
    """One allocation as plain data."""
    return {
        "workload": "train",
        "gpus": gpus,
        "slice": {"cpus": "0-3", "cpu_quota_m": 1000, "memory_max": memory // 4096 * 4096},
        "unit": {"user": "ada", "command": command},
    }


def node(name: str, *, swappiness: int = 1, **allocations: dict[str, Any]) -> dict[str, Any]:
    """One node as plain data; allocations as train_0=…"""
    return {
        "node": name,
        "address": f"root@{name}",
        "fleet": "lab",
        "state": {
            "settings": {"sysctl": {"vm.swappiness": str(swappiness)}},
            "gpus": {"0": {"power_w": 300}},
            "allocations": {key.replace("_", "-"): value for key, value in allocations.items()},
        },
    }
