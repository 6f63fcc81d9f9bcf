"""Is only a blank disk formatted, and is a quota read as it is in force?"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import directories, storage
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger

MOUNTS = "36 25 254:16 / /srv/swarm rw,nosuid shared:1 - xfs /dev/vdb rw,attr2,inode64,logbufs=8,prjquota\n"
#: `xfs_quota -x -c 'report -p -n -N -b'` on a node.
REPORT = "#0                   0          0          0     00 [--------]\n#1525110731          28672          0      29296     00 [--------]\n"


def here(root: Path, mounts: str = MOUNTS) -> Any:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts)
    return Context(ledger.load(str(root)), check=True, root=str(root))


@pytest.mark.parametrize("at", [0, 4 << 20, (64 << 20) - 1])
def test_a_disk_with_anything_on_it_is_never_blank(at: int) -> None:
    size = 64 << 20
    disk = io.BytesIO(bytes(size))
    assert storage.dirty(disk) is None
    spot = min((place for place in storage.places(size) if place.start <= at), key=lambda place: at - place.start)
    disk.seek(spot[-1])
    disk.write(b"\1")
    assert storage.dirty(disk) is not None


def test_what_is_written_at_a_restore_is_what_blank_means() -> None:
    disk = io.BytesIO(b"\xff" * (16 << 20))
    for spot in storage.places(16 << 20):
        disk.seek(spot.start)
        disk.write(bytes(len(spot)))
    assert storage.dirty(disk) is None


@pytest.mark.parametrize(
    ("mounts", "disk"),
    [(MOUNTS, "/dev/vdb"), (MOUNTS.replace("prjquota", "noquota"), ""), (MOUNTS.replace(" xfs ", " ext4 "), ""), ("", "")],
)
def test_disk_is_what_is_mounted_with_quotas(mounts: str, disk: str, tmp_path: Path) -> None:
    assert storage.read(here(tmp_path, mounts), "", {"disk": "/dev/vdb"}) == {"disk": disk}


def test_a_disk_that_carries_something_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = here(tmp_path, "")
    monkeypatch.setattr(storage, "_unused", lambda *_: None)
    monkeypatch.setattr(storage.os.path, "exists", lambda path: True)
    monkeypatch.setattr(storage.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(storage.os, "stat", lambda path: type("Seen", (), {"st_mode": 0}))
    monkeypatch.setattr(machine, "run", lambda argv, **_: "TYPE=ext4\nLABEL=home\n")
    machine.check = False
    monkeypatch.setattr(machine, "act", lambda *_, **__: pytest.fail("something was done to the disk"))
    with pytest.raises(NodeError, match="it carries ext4 labelled home"):
        storage._format(machine, "/dev/vdx")


def test_limits_of_a_report() -> None:
    assert directories.limits(REPORT) == {0: 0, 1525110731: 29296 * 1024}


def test_quota_within_the_last_block_reads_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = here(tmp_path)
    monkeypatch.setattr(machine, "run", lambda argv, **_: REPORT)
    (tmp_path / "srv/swarm/scratch/a-0").mkdir(parents=True, mode=0o750)
    monkeypatch.setattr(directories, "_project", lambda path: (1525110731, True))
    want = {"quota": 30_000_000, "owner": "ada", "mode": "0750"}
    found = directories.read(machine, "a-0", {"scratch": want})
    assert (found["scratch"]["quota"], found["scratch"]["mode"], found["cache"]) == (30_000_000, "0750", None)
    monkeypatch.setattr(directories, "_project", lambda path: (1525110731, False))
    assert directories.read(machine, "a-0", {"scratch": want})["scratch"]["quota"] == 0
