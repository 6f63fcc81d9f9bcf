"""Is a run that was killed anywhere continued by the next, with nothing twice and nothing left over? On real machines.

After test_unharmed. SWARM_KILLS says how many times; the first kill hits the very first run on machines given back.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e import reliability
from tests.e2e.conftest import NODES, Fleet

pytestmark = pytest.mark.e2e

KILLS = int(os.environ.get("SWARM_KILLS", "3"))
EXTRA = """
  extra:
    user: bo
    kind: batch
    each: {vcpus: 0.25, memory: 64 MB}
    run: {command: /bin/sleep infinity}
"""


def start(fleet: Fleet) -> subprocess.Popen[bytes]:
    """`pulumi up`, begun."""
    line = 'eval "$("$0" -m swarm_iac.cli env)"; exec pulumi up --yes --skip-preview --stack dev'
    return subprocess.Popen(
        ["bash", "-c", line, fleet.python], cwd=fleet.root, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def kill_tree(process: subprocess.Popen[bytes]) -> int:
    """SIGKILL for it and everything below it, engine, provider and Ansible alike; how many they were.

    They are held first, until there are no more of them: what is born in between would live on.
    """
    held: dict[int, psutil.Process] = {}
    top = psutil.Process(process.pid)
    while new := [one for one in (top, *top.children(recursive=True)) if one.pid not in held]:
        for one in new:
            held[one.pid] = one
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()
    for one in held.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    return len(held)


def noted(pid: int) -> bool:
    """Did its provider record on which machine it runs? Killed before, only its operator knows that it is dead (operations.md)."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return any((Path(home) / "swarm" / "engines").glob(f"{pid}-*.json"))


def alive(fleet: Fleet, node: str) -> list[str]:
    """The allocation of each workload's process on a node, as its own environment says."""
    said = fleet.node(node, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^SWARM_ALLOCATION= | sort; true")
    return [line.partition("=")[2] for line in said.splitlines()]


@pytest.mark.parametrize("number", range(KILLS))
def test_the_next_run_goes_on_where_a_killed_one_was(fleet: Fleet, number: int) -> None:
    chance = random.Random(number)
    if number == 0:
        reliability.forget("kills")
        fleet.pulumi("destroy", "--yes", "--skip-preview").ok()
    text = fleet.stack.read_text()
    text = text.replace(EXTRA, "") if EXTRA in text else text + EXTRA
    text = re.sub(r"(pinned: true, memory: )\d+ MB", rf"\g<1>{300 + 10 * number} MB", text)
    fleet.stack.write_text(text)

    process = start(fleet)
    after = chance.uniform(4, 60 if number == 0 else 25)
    time.sleep(after)
    while process.poll() is None and not noted(process.pid):
        time.sleep(0.1)
    killed = kill_tree(process) if process.poll() is None else 0

    begun = time.monotonic()
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    took = time.monotonic() - begun
    fleet.pulumi("preview", "--expect-no-changes").ok()
    for node in NODES:
        wanted = sorted(name for name, one in fleet.placed().items() if one["node"] == node)
        assert alive(fleet, node) == wanted, "one process for each allocation, none for any other"
        slices = fleet.node(node, "ls -d /sys/fs/cgroup/swarm.slice/*.slice 2>/dev/null; true").splitlines()
        assert sorted(path.rsplit("/swarm-", 1)[1][: -len(".slice")].replace("_", "-") for path in slices) == wanted
    reliability.keep("kills", str(number), after=round(after), processes=killed, next_seconds=round(took))
