"""On real nodes with two NUMA nodes: does the memory of each job lie where the lock file says?

/proc/PID/numa_maps is what `numastat -p` counts. Leaves the fleet as it found it.
"""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
MIB = 256  # pages
FILL = 'python3 -c "import time; held = bytearray(HOW_MUCH << 20); time.sleep(600)"'
#: How much each job fills [MiB], and what it asks for. One NUMA node of the machine has 750 MB.
JOBS = {
    "left": (120, "{gpus: 1 x H100, vcpus: 1, pinned: true, memory: 200 MB}", ""),
    "right": (120, "{gpus: 1 x H100, vcpus: 1, pinned: true, memory: 200 MB}", "place: {numa: single}, "),
    "large": (400, "{gpus: 3 x H100, vcpus: 1, pinned: true, memory: 900 MB}", ""),
}


def _pages(fleet: Fleet, node: str, name: str) -> Counter[int]:
    """Anonymous pages of all processes of an allocation, by NUMA node."""
    unit = f"swarm-{name.rsplit('-', 1)[0]}_{name.rsplit('-', 1)[1]}"
    look = f"for p in $(cat /sys/fs/cgroup/swarm.slice/{unit}.slice/*/cgroup.procs); do cat /proc/$p/numa_maps; done"
    found: Counter[int] = Counter()
    for line in fleet.node(node, look).splitlines():
        if "file=" not in line:
            found.update({int(numa): int(count) for numa, count in re.findall(r" N(\d+)=(\d+)", line)})
    return found


def test_the_memory_of_each_job_lies_on_its_numa_nodes(fleet: Fleet) -> None:
    asked = fleet.stack.read_text()
    lines = [asked.rstrip()]
    for name, (much, each, place) in JOBS.items():
        run = FILL.replace("HOW_MUCH", str(much)).replace('"', '\\"')
        lines.append(f'  {name}: {{user: ada, kind: batch, each: {each}, {place}run: {{command: "{run}"}}}}')
    fleet.stack.write_text("\n".join([*lines, ""]))
    fleet.swarm(*UP).ok()
    placed = fleet.placed()
    seen = {name: _pages(fleet, one["node"], name) for name, one in placed.items() if one.get("numa")}
    for name, (much, _, _) in JOBS.items():
        end = time.monotonic() + 30
        while seen[f"{name}-0"].total() < much * MIB:
            assert time.monotonic() < end, seen
            time.sleep(1)
            seen[f"{name}-0"] = _pages(fleet, placed[f"{name}-0"]["node"], f"{name}-0")
    for name, pages in seen.items():  # a page or two were written by systemd, before the process was in its slice
        elsewhere = sum(count for numa, count in pages.items() if numa not in placed[name]["numa"])
        assert elsewhere <= pages.total() / 100, (name, placed[name], pages)
    assert placed["large-0"]["numa"] == [0, 1]
    assert [len(placed[f"{name}-0"]["numa"]) for name in ("left", "right")] == [1, 1]

    fleet.stack.write_text(asked)
    fleet.swarm(*UP, "--allow-stop", "9").ok()
