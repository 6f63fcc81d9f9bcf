"""Does the wheel carry all that a fleet repository needs? Built, unpacked, and used with nothing of the source tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.typed import ROOT

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip would fill it."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "build", "--quiet", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def python(installed: Path, at: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_", "PULUMI_"))}
    environment |= {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *words], cwd=at, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fleet_repository_from_the_wheel_alone_plans(installed: Path, tmp_path: Path) -> None:
    python(installed, tmp_path, "-m", "swarm_iac.cli", "init", "myfleet")
    fleet = tmp_path / "myfleet"
    where = "import swarm_iac, swarm_iac.assets as a; print(swarm_iac.__file__, a.playbooks(), a.policies(), a.stacks())"
    assert all(path.startswith(str(installed)) for path in python(installed, fleet, "-c", where).split())
    plan = json.loads(python(installed, fleet, "-m", "swarm_iac.cli", "plan", "--offline", "--json"))
    assert {step["node"] for step in plan["steps"]} == {"gpu-01", "gpu-02", "gpu-03"} and plan["proof"]["optimal"]


def test_the_nodes_get_the_same_program_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    digest = "from swarm_iac.reach.node_program import agent_digest; print(agent_digest())"
    source = subprocess.run([sys.executable, "-c", digest], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert python(installed, tmp_path, "-c", digest) == source


def test_every_file_of_the_playbooks_is_in_the_wheel(installed: Path) -> None:
    for folder in ("playbooks", "policies"):
        source = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"}
        share = installed / "swarm_iac" / "share"
        assert source == {path.relative_to(share) for path in (share / folder).rglob("*") if path.is_file()}
