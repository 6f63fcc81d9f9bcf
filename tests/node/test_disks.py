"""Is a disk that holds anything ever written to? On real block devices, so only as root where loop devices can be made."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import storage
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import step
from swarm_node.records import ledger

from tests.node.conftest import GUARD

SIZE = 24 << 20
MBR = bytes(446) + bytes.fromhex("80010100830f3f0a0008000000000100") + bytes(48) + b"\x55\xaa"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE)
    made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def put(offset: int, content: bytes) -> Callable[[str], None]:
    def write(disk: str) -> None:
        with Path(disk).open("r+b") as file:
            file.seek(offset)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return write


def ext4(disk: str) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-L", "home", disk], check=True)


CONTENTS: dict[str, tuple[Callable[[str], None], str]] = {
    "a file system": (ext4, "it carries ext4 labelled home"),
    "a table of partitions": (put(0, MBR), "it carries dos"),
    "encrypted": (put(0, b"LUKS\xba\xbe\x00\x01" + bytes(200)), "LUKS|signature|not zero"),
    "raw data": (put(0, b"records of a database"), "bytes that are not zero near 0"),
    "raw data in the middle": (put(SIZE // 65 * 30, b"more"), "bytes that are not zero near"),
    "raw data at the end": (put(SIZE - 100, b"a tail"), "bytes that are not zero near"),
}


def sha(disk: str) -> str:
    return hashlib.sha256(Path(disk).read_bytes()).hexdigest()


def machine(root: Path) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    return Context(book, root=str(root))


@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("ledger_knows", [False, True], ids=["new", "another disk bears the name"])
def test_a_disk_that_is_not_blank_is_refused_with_what_is_on_it(
    what: str, ledger_knows: bool, disk: str, tmp_path: Path
) -> None:
    write, words = CONTENTS[what]
    write(disk)
    before, here = sha(disk), machine(tmp_path)
    if ledger_knows:
        here.ledger.save_original(f"disk:{disk}", "d3adbeef-0000-4000-8000-000000000000")
    with pytest.raises(NodeError, match=words) as refused:
        storage._format(here, disk)
    assert disk in str(refused.value) and "never formatted" in str(refused.value)
    assert sha(disk) == before


def test_a_file_system_that_a_killed_run_left_half_made_is_made_again(disk: str, tmp_path: Path) -> None:
    put(4096, b"half of an inode table")(disk)
    here, done = machine(tmp_path), []
    here.ledger.save_original(f"disk:{disk}", "d3adbeef-0000-4000-8000-000000000000")
    here.ledger.save_original(f"making:{disk}", storage._piece(here, disk))
    here.act = lambda argv, **_: done.append(argv)  # mkfs.xfs is not everywhere; what it is called with is known
    assert storage._format(here, disk) == "d3adbeef-0000-4000-8000-000000000000"
    assert [argv[0] for argv in done] == ["mkfs.xfs"]
    assert not here.ledger.has_original(f"making:{disk}")


@pytest.mark.parametrize("other", [["7"], None])
def test_another_piece_of_hardware_is_nothing_that_we_left(other: list[str] | None, disk: str, tmp_path: Path) -> None:
    here = machine(tmp_path)
    here.ledger.save_original(f"making:{disk}", other or storage._piece(here, disk))
    put(0, b"records")(disk) if other else ext4(disk)
    before = sha(disk)
    with pytest.raises(NodeError, match="never formatted"):
        storage._format(here, disk)
    assert sha(disk) == before


def test_everything_else_on_the_node_goes_on(disk: str, tmp_path: Path) -> None:
    """Only what needs the disk waits: directories, and the unit that would work in them."""
    ext4(disk)
    alone = {"id": "n/directories/a-0", "allocation": "a-0", "want": {}, "after": ["n/storage"]}
    settings = {"id": "n/settings", "want": {"settings": {}}}
    asked = {"guard": GUARD, "verb": "storage", "steps": [{"id": "n/storage", "want": {"disk": disk}}]}
    (refused,) = step.perform(asked, root=str(tmp_path))["results"]
    assert not refused["ok"] and "it carries ext4 labelled home" in refused["message"]
    (waits,) = step.perform({**asked, "verb": "directories", "steps": [alone], "failed": ["n/storage"]}, root=str(tmp_path))[
        "results"
    ]
    (done,) = step.perform({**asked, "verb": "settings", "steps": [settings], "failed": ["n/storage"]}, root=str(tmp_path))[
        "results"
    ]
    assert waits["skipped"] and "n/storage" in waits["message"] and done["ok"]
