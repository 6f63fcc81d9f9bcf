"""Is every node counted once, for the first thing that it lacks, and is the code the one that a person would say?"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from swarm_iac.model.placement import Unplaced
from swarm_iac.solver import solve
from swarm_iac.stackfile import load

FLEET = """\
fleet: lab
teams:
  t: {users: [ada, bo]}
limits: {user: {gpus: 24, vcpus: 400, memory: 9 TB}}
hardware:
  h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
  l: {gpus: 4 x L40S, vcpus: 64, memory: 1 TB}
  c: {vcpus: 64, memory: 1 TB}
nodes:
  h[1-4]: {hardware: h, ssh: "root@{name}"}
  h4: {state: cordon, reason: fans}
  l[1-3]: {hardware: l, ssh: "root@{name}", labels: {room: cold}}
  c1: {hardware: c, ssh: "root@{name}"}
workloads:
  full: {user: bo, priority: high, replicas: 3, each: {gpus: 6 x H100}}
  w: {user: ada, each: {gpus: 4 x H100}}
"""


def pending(folder: Path, text: str) -> Unplaced:
    file = folder / "lab.yaml"
    file.write_text(text)
    (one,) = solve(load(file, today=datetime.date(2026, 6, 1)).stack).placement.unplaced
    return one


@pytest.mark.parametrize(
    ("old", "new", "nodes", "code"),
    [
        ("", "", "8 nodes: 3 lack GPUs, 3 have another GPU model, 1 has no GPUs, 1 is cordoned", "Resources"),
        ("each: {gpus: 4 x H100}", "each: {gpus: 4 x L40S}, replicas: 4", "8 nodes: 4 have another GPU model, 3 lack GPUs, 1 has no GPUs", "Resources"),
        ("gpus: 6 x H100", "gpus: 1", "8 nodes: 3 have capacity for one, 3 have another GPU model, 1 has no GPUs, 1 is cordoned", "UserLimit"),
        ("each: {gpus: 4 x H100}", "each: {gpus: 4 x L40S}, place: {spread: node}, replicas: 4", "8 nodes: 4 have another GPU model, 3 lack GPUs, 1 has no GPUs", "Resources"),
        ("each: {gpus: 4 x H100}", "each: {gpus: 1 x L40S}, place: {spread: node}, replicas: 4", "8 nodes: 4 have another GPU model, 3 hold a replica already, 1 has no GPUs", "BadConstraints"),
        ("each: {gpus: 4 x H100}", "each: {gpus: 4 x H100}, place: {select: {room: cold}}", "8 nodes: 5 have other labels, 3 have another GPU model", "BadConstraints"),
        ("each: {gpus: 4 x H100}", "each: {gpus: {count: 4, memory: 60 GB}}", "8 nodes: 3 lack GPUs, 3 have smaller GPUs, 1 has no GPUs, 1 is cordoned", "Resources"),
        ("replicas: 3, each: {gpus: 6 x H100}", "each: {gpus: 1}, place: {select: {room: cold}}", "", ""),
    ],
)  # fmt: skip
def test_a_count_and_a_code(tmp_path: Path, old: str, new: str, nodes: str, code: str) -> None:
    text = FLEET.replace(old, new, 1) if old else FLEET
    if "memory: 60 GB" in new:
        assert "3 have GPUs of unknown memory" in pending(tmp_path, text.replace("4 x L40S", "4 x Own")).nodes
    if code == "UserLimit":
        text = text.replace("user: {gpus: 24,", "user: {gpus: 4,")
        text = text.replace("workloads:\n", "workloads:\n  first: {user: ada, priority: high, each: {gpus: 4 x H100}}\n")
    if not code:  # everything has a place
        file = tmp_path / "lab.yaml"
        file.write_text(text)
        assert solve(load(file, today=datetime.date(2026, 6, 1)).stack).placement.unplaced == ()
        return
    one = pending(tmp_path, text)
    assert one.workload == "w"
    assert (one.nodes, one.code) == (nodes, code)
    assert sum(int(part.split()[0]) for part in one.nodes.partition(": ")[2].split(", ")) == int(one.nodes.split()[0])
