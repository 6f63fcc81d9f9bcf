"""Do the procedures of docs/operations.md work as they are written there?

Each test takes the commands out of the page and runs them in the fleet's repository. `swarm up` gets `--yes`, since nobody
is there to answer; the fleet is left as `swarm init` made it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import NODES, Done, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
_COMMANDS = ("swarm ", "pulumi ", "eval ", "sed ")


def written(heading: str) -> list[str]:
    """Every block of commands below this heading, in their order; blocks of output are left out."""
    _, _, rest = PAGE.read_text().partition(f"\n## {heading}\n")
    part = rest.partition("\n## ")[0]
    blocks = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in re.findall(r"(?:^    .*\n)+", part, re.MULTILINE)]
    return [block for block in blocks if block.startswith(_COMMANDS)]


def run(fleet: Fleet, block: str, **replaced: str) -> Done:
    """These lines in one shell, which ends at the first that fails."""
    for old, new in {"swarm up\n": "swarm up --yes --skip-preview\n", **replaced}.items():
        block = block.replace(old, new)
    return fleet.shell(f'set -e; eval "$(swarm env)"; {block}')


@pytest.fixture(autouse=True)
def same_files(fleet: Fleet) -> Iterator[None]:
    """Stack file, lock and project file are what they were, and so are the machines."""
    files = [*(fleet.root / "stacks").iterdir(), fleet.root / "Pulumi.yaml"]
    kept = {path: path.read_bytes() for path in files}
    yield
    for path, content in kept.items():
        path.write_bytes(content)
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "20").ok()
    fleet.swarm("assert").ok()


def lineage(fleet: Fleet) -> str:
    return str(json.loads(fleet.node("gpu-01", "cat /var/lib/swarm/ledger.json"))["lineage"])


def test_a_state_is_moved(fleet: Fleet, tmp_path: Path) -> None:
    (move,) = written("Where the state is kept")
    (tmp_path / "state").mkdir()
    kept = fleet.root / "Pulumi.dev.yaml"
    config = kept.read_bytes() if kept.exists() else None
    run(fleet, move, **{"/srv/fleet-state": str(tmp_path / "state")}).ok()
    assert list((tmp_path / "state").glob("**/dev.json*")), "it lies there now"
    if config is not None:
        kept.write_bytes(config)


def test_a_backup_is_taken_and_gone_back_to(fleet: Fleet) -> None:
    (backup, restore) = written("Backup")
    run(fleet, backup).ok()
    fleet.edit("swappiness: 10", "swappiness: 11")
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    shutil.rmtree(fleet.root / ".state")
    done = run(fleet, restore).ok()
    assert "steps done" not in done.text, done.text
    assert fleet.node("gpu-01", "cat /proc/sys/vm/swappiness") == "11", "what came after the export stands"


def test_a_lost_state_is_made_again_from_the_machines(fleet: Fleet) -> None:
    refused, adopt = written("A lost state")
    shutil.rmtree(fleet.root / ".state")
    owner = lineage(fleet)
    done = run(fleet, refused)
    assert done.status != 0 and owner in done.text, done.text
    run(fleet, adopt, LINEAGE=owner).ok()
    assert lineage(fleet) == owner
    fleet.pulumi("preview", "--expect-no-changes").ok()


def test_a_lost_node_is_given_up_and_taken_back(fleet: Fleet) -> None:
    dark, lost, back = written("A lost node")
    there = {name for name, one in fleet.placed().items() if one["node"] == "gpu-03"}
    fleet.sandbox.power_off("gpu-03")
    try:
        fleet.edit("swappiness: 10", "swappiness: 13")
        fleet.edit("net.core.somaxconn: 1024", "net.core.somaxconn: 1025")  # gpu-03's own
        done = run(fleet, dark)
        assert done.status != 0 and "gpu-03" in done.text
        assert fleet.node("gpu-01", "cat /proc/sys/vm/swappiness") == "13", "everyone else's change goes on"
        assert {name for name, one in fleet.placed().items() if one["node"] == "gpu-03"} == there
        run(fleet, lost).ok()
        placed = fleet.placed()
        assert there and all(placed[name]["node"] != "gpu-03" for name in there)
    finally:
        fleet.sandbox.power_on("gpu-03")
    run(fleet, back).ok()
    assert fleet.node("gpu-03", "ls -d /sys/fs/cgroup/swarm.slice/*.slice 2> /dev/null; true") == ""


def test_a_node_is_drained_for_work_on_it(fleet: Fleet) -> None:
    later, now = written("Work on a node")
    before = {node: fleet.node(node, "systemctl show 'swarm-*.service' -p Id,MainPID") for node in NODES}
    run(fleet, later).ok()
    fleet.swarm("preview", "--expect-no-changes").ok()
    assert {node: fleet.node(node, "systemctl show 'swarm-*.service' -p Id,MainPID") for node in NODES} == before
    run(fleet, now).ok()
    assert not [one for one in fleet.placed().values() if one["node"] == "gpu-03"]
    assert fleet.node("gpu-03", "ls -d /sys/fs/cgroup/swarm.slice/*.slice 2> /dev/null; true") == ""
