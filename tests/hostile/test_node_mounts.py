"""Does what a user mounts in their own directory ever keep it from being removed, or lead root elsewhere? Fails on 3f04825.

There `rm --one-file-system` fails at the first mount, and what is mounted over the directory itself hides it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import directories  # isort: skip
from swarm_node.machine import mounts  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context  # isort: skip

CAN = os.geteuid() == 0 and shutil.which("unshare") is not None

#: In a mount namespace of its own, of which nobody else sees anything.
SCRIPT = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1]); place = sys.argv[2]; kind = sys.argv[3]
from swarm_node.concerns import directories
from swarm_node.records import ledger
from swarm_node.machine.run import Context
directories.MOUNT = place
home = place + "/scratch/web-1"
def tmpfs(path):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
os.makedirs(home + "/data")
open(home + "/data/file", "w").close()
elsewhere = place + "/elsewhere/mnt"
tmpfs(elsewhere)
if kind == "over it":
    tmpfs(home)
if kind == "in it":
    tmpfs(home + "/data/a b\\n")
    tmpfs(home + "/data/a b\\n/inner")
    tmpfs(home + "/data/a b\\n")
if kind == "behind a link":
    tmpfs(home + "/data/mnt")
    os.rename(home + "/data", home + "/gone")
    os.symlink(place + "/elsewhere", home + "/data")
book = ledger.load(place + "/root", check=False)
context = Context(book)
try:
    directories._remove(context, "web-1", "scratch")
finally:
    print(os.path.ismount(elsewhere), os.path.exists(home))
"""


@pytest.mark.skipif(not CAN, reason="only root mounts")
@pytest.mark.parametrize("kind", ["over it", "in it", "behind a link"])
def test_a_directory_is_never_kept_by_what_its_user_mounts(kind: str, tmp_path: Path) -> None:
    package = str(Path(ledger.__file__).parents[2])
    argv = ["unshare", "-m", "--propagation", "private", sys.executable, "-c", SCRIPT, package, str(tmp_path), kind]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "True False\n", done.stderr


@pytest.mark.skipif(not CAN, reason="only root mounts")
def test_a_link_in_the_path_of_a_mount_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the table says and what the user makes of it a moment later are two things."""
    home = tmp_path / "scratch/web-1"
    home.mkdir(parents=True)
    (tmp_path / "elsewhere/mnt").mkdir(parents=True)
    (home / "data").symlink_to(tmp_path / "elsewhere")
    book = ledger.load(str(tmp_path), check=False)
    book.guard(**GUARD)
    monkeypatch.setattr(mounts, "below", lambda context, path: [f"{home}/data/mnt"])
    with pytest.raises(NotADirectoryError):
        mounts.clear(Context(book), str(home))


def test_the_table_is_read_as_the_kernel_writes_it(tmp_path: Path) -> None:
    table = tmp_path / "proc/self/mountinfo"
    table.parent.mkdir(parents=True)
    rows = [r"/srv/swarm/scratch/a-1/x\040y\012", "/srv/swarm/scratch/a-1", "/srv/swarm/scratch/a-10", "/srv/swarm"]
    table.write_text("".join(f"1 2 0:3 / {row} rw - tmpfs x rw\n" for row in rows))
    here = Context(ledger.load(str(tmp_path)), root=str(tmp_path))
    found = mounts.below(here, directories.directory("scratch", "a-1"))
    assert found == ["/srv/swarm/scratch/a-1", "/srv/swarm/scratch/a-1/x y\n"]
