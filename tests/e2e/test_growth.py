"""On real nodes: does a job run on, untouched, while there is no room for the size that it asks for?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
LOOK = """\
systemctl show -P MainPID swarm-pretrain_0.service; cd /sys/fs/cgroup/swarm.slice/swarm-pretrain_0.slice
cat memory.max cpuset.cpus.effective
"""


#: Of the four vCPUs that its user may have it leaves three.
FILLER = """
  filler: {user: ada, kind: batch, priority: high, each: {vcpus: 1, memory: 64 MB}, run: {command: /bin/sleep infinity}}
"""


def test_a_job_that_cannot_grow_runs_on(fleet: Fleet) -> None:
    asked = fleet.stack.read_text()
    fleet.stack.write_text(asked.rstrip() + FILLER)
    fleet.swarm(*UP).ok()
    before = fleet.placed()["pretrain-0"]
    runs = fleet.node(before["node"], LOOK)
    assert int(runs.splitlines()[0]) > 1

    fleet.edit("vcpus: 1, pinned: true", "vcpus: 4, pinned: true")
    plan = fleet.swarm("plan").ok().text
    assert "What keeps its size until it can grow" in plan and "nothing to change" in plan and "1 pending" in plan
    done = fleet.swarm(*UP).ok()
    assert "pretrain: keeps" in done.text
    assert fleet.placed()["pretrain-0"] == before
    assert fleet.node(before["node"], LOOK) == runs, "the same process in the same slice"
    told = fleet.swarm("assert").ok().text
    assert "pending: pretrain keeps" in told
    assert "waits to grow" in fleet.swarm("ps").ok().text

    fleet.stack.write_text(asked)
    fleet.swarm(*UP).ok()
    assert fleet.node(before["node"], LOOK) == runs
    fleet.swarm("assert").ok()
