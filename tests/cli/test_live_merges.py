"""Does a merge that is applied leave alone what is live, and believe nothing that it brings under that name?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swarm_iac.cli.merging import approved, repository
from swarm_iac.live import file as live_file
from tests.cli.test_autopilot import STACK, fleet, granted, swarm

__all__ = ["fleet"]
LIVE = Path(".state") / "lab.live.json"
JOB = "  job: {{user: ada, each: {{gpus: {gpus}}}}}\n"


def commit(root: Path, *, forced: str = "") -> str:
    """What is in the folder, as a commit; `forced`: also where git ignores it."""
    for words in (["init", "--quiet"], ["add", "stacks", *(["--force", forced] if forced else [])]):
        subprocess.run(["git", *words], cwd=root, check=True)
    person = ["-c", "user.name=ada", "-c", "user.email=ada@lab.invalid"]
    subprocess.run(["git", *person, "commit", "--quiet", "--allow-empty", "-m", "change"], cwd=root, check=True)
    return repository.commit(root, "HEAD")


def steps(root: Path, before: str, after: str) -> set[tuple[str, str]]:
    with repository.work_tree(root, before) as old, repository.work_tree(root, after) as new:
        found = approved.steps(root, "lab", old, new)
    return {(str(step.verb), step.allocation) for step in found if step.verb in ("stop", "start") and step.allocation}


def changed(root: Path, gpus: int) -> str:
    (root / "stacks" / "lab.yaml").write_text(STACK + JOB.format(gpus=gpus))
    swarm(root, "solve", "--stack", "lab")
    return commit(root)


@pytest.fixture
def before(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The commit on which four replicas are live."""
    granted(fleet, monkeypatch)
    return commit(fleet)


def test_a_merge_beside_live_replicas_stops_none_of_them(fleet: Path, before: str) -> None:
    assert steps(fleet, before, changed(fleet, 0)) == {("start", "job-0")}


def test_a_merge_that_needs_their_capacity_calls_them_back_and_that_was_approved(fleet: Path, before: str) -> None:
    found = steps(fleet, before, changed(fleet, 6))
    assert found == {("start", "job-0"), *(("stop", f"chat-{number}") for number in (2, 3, 4, 5))}


def test_what_a_merge_brings_under_the_name_is_not_there(fleet: Path, before: str) -> None:
    layer = (fleet / LIVE).read_bytes()
    forged = commit(fleet, forced=str(LIVE))
    (fleet / LIVE).unlink()
    with repository.work_tree(fleet, forged) as tree:
        assert not (tree / LIVE).exists()
    (fleet / LIVE).write_bytes(layer.replace(b"chat-5", b"chat-4"))
    with repository.work_tree(fleet, forged) as tree:
        assert (tree / LIVE).read_bytes() == (fleet / LIVE).read_bytes() != layer


@pytest.mark.parametrize("way", ["link", "folder", "linked folder", "file"])
def test_no_way_leads_out_of_the_work_tree(tmp_path: Path, way: str) -> None:
    mine, tree, outside = (tmp_path / name for name in ("mine", "tree", "outside"))
    for folder in (mine / ".state", tree, outside):
        folder.mkdir(parents=True)
    (mine / LIVE).write_text("{}")
    (outside / "lab.live.json").write_text("kept")
    if way in ("link", "folder"):
        (tree / ".state").mkdir()
    match way:
        case "link":
            (tree / LIVE).symlink_to(outside / "lab.live.json")
        case "folder":
            (tree / LIVE / "x").mkdir(parents=True)
        case "linked folder":
            (tree / ".state").symlink_to(outside)
        case _:
            (tree / ".state").write_text("")
    live_file.carry(mine, tree)
    assert (tree / LIVE).read_text() == "{}" and not (tree / LIVE).is_symlink()
    assert (outside / "lab.live.json").read_text() == "kept"
