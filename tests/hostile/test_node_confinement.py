"""Does a workload ever have more of the kernel than a GPU job needs, unless its stack file says so? Fails on 3f04825."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import units  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.workload import confine  # isort: skip
from swarm_node.machine.run import Context  # isort: skip

#: What GPU software, or jobs as people write them, use; lists of others close it.
NEEDED = ("MemoryDenyWriteExecute", "PrivateDevices", "ProcSubset", "RemoveIPC", "PrivateNetwork", "PrivateTmp", "ProtectHome", "@debug",
          "@resources", "@ipc", "@memlock", "@process")  # fmt: skip


def render(root: Path, **more: Any) -> str:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    book.record("allocations", "web-1", value={"workload": "web", "scratch": {"quota": 1, "owner": "ada"}})
    want = {"user": "games", "command": "train", "env": {"A": "1"}, "gpus": [0, 1], **more}
    return str(units.render(Context(book, root=str(root)), "web-1", want))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize(("unconfined", "least", "most"), [(None, 0.0, 3.0), (True, 7.0, 10.0)])
def test_a_workload_is_never_exposed_without_saying_so(unconfined: Any, least: float, most: float, tmp_path: Path) -> None:
    file = tmp_path / "swarm-web_1.service"
    file.write_text(render(tmp_path, unconfined=unconfined))
    argv = ["systemd-analyze", "security", "--no-pager", "--offline=true", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found and least <= float(found[1]) <= most


@pytest.mark.parametrize("word", NEEDED)
def test_nothing_that_a_gpu_job_needs_is_ever_closed(word: str, tmp_path: Path) -> None:
    assert word not in render(tmp_path)


def test_what_is_open_for_containers_is_only_what_the_list_closes(tmp_path: Path) -> None:
    closed, opened = render(tmp_path).splitlines(), render(tmp_path, unconfined=True).splitlines()
    assert [line for line in closed if line not in confine.properties({})] == opened
    assert "NoNewPrivileges=yes" in opened and "DevicePolicy=closed" in opened and "PrivateUsers=yes" in opened
