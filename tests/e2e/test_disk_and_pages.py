"""On a real node: do limits of the disk and of huge pages stand in the kernel, hold, survive a hand that changes them, and go?

Every look at a node is plain ssh. Leaves the fleet as it found it, after a destroy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import NODES, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
PAGE, POOL = 2 << 20, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
WORKLOADS = """\
workloads:
  paged:
    user: ada
    kind: serve
    each: {vcpus: 1, memory: 64 MB, hugepages: 32 MB, io: {read: 10..40 MB/s, iops: 500..1000}}
    place: {select: {one: here}}
    run: {command: /bin/sleep infinity}
  plain:
    user: cy
    kind: serve
    each: {vcpus: 1, memory: 64 MB}
    place: {select: {one: here}}
    run: {command: /bin/sleep infinity}
"""
CGROUPS = "/sys/fs/cgroup/swarm.slice"
PAGED, PLAIN = "swarm-paged_0.slice", "swarm-plain_0.slice"
#: Maps 15 pages and writes to all of them; says when it has, and waits.
HOLD = "import mmap,sys,time; m=mmap.mmap(-1,15<<21,flags=0x40022); m.write(b'x'*(15<<21)); print('held',flush=True); time.sleep({})"


@pytest.fixture(scope="module")
def node(fleet: Fleet) -> Iterator[str]:
    """The one node that both are on."""
    asked = fleet.stack.read_text()
    head = asked[: asked.index("workloads:")].rstrip()
    (shape,) = re.findall(r"^  h100: (.*)$", head, re.MULTILINE)
    more = shape.replace("}", ", hugepages: 64 MB, disk_read: 200 MB/s, disk_iops: 5000}")
    head = head.replace("hardware:\n", f"hardware:\n  paged: {more}\n").replace("gpu-[01-02]:", "gpu-02:")
    head += f'\n  {NODES[0]}: {{hardware: paged, rack: r1, site: lab, tuning: train, labels: {{one: here}}, ssh: "root@{{name}}"}}\n\n'
    fleet.stack.write_text(head + WORKLOADS)
    fleet.swarm(*UP).ok()
    yield NODES[0]
    fleet.stack.write_text(asked)
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def limits(fleet: Fleet, node: str) -> dict[str, str]:
    """By file of the two slices, what the kernel says."""
    files = [
        f"{PAGED}/hugetlb.2MB.max",
        f"{PAGED}/hugetlb.2MB.rsvd.max",
        f"{PLAIN}/hugetlb.2MB.max",
        f"{PLAIN}/hugetlb.2MB.rsvd.max",
    ]
    found = {file: fleet.node(node, f"cat {CGROUPS}/{file}") for file in files}
    return found | {"io": fleet.node(node, f"cut -d' ' -f2- {CGROUPS}/{PAGED}/io.max"), "pool": fleet.node(node, f"cat {POOL}")}


WANTED = {
    f"{PAGED}/hugetlb.2MB.max": str(15 * PAGE), f"{PAGED}/hugetlb.2MB.rsvd.max": str(15 * PAGE),
    f"{PLAIN}/hugetlb.2MB.max": "0", f"{PLAIN}/hugetlb.2MB.rsvd.max": "0",
    "io": "rbps=40000000 wbps=max riops=1000 wiops=1000", "pool": "30",
}  # fmt: skip


def hold(slice_: str, seconds: int) -> str:
    return f'systemd-run -q --pipe --wait --slice={slice_} python3 -c "{HOLD.format(seconds)}" 2>&1; true'


def test_limits_stand_in_the_kernel_and_hold(fleet: Fleet, node: str) -> None:
    assert limits(fleet, node) == WANTED
    assert "held" in fleet.node(node, hold(PAGED, 0))
    assert "Cannot allocate memory" in fleet.node(node, hold(PLAIN, 0)), "who asked for none gets none"
    fleet.node(node, "dd if=/dev/zero of=/srv/swarm/e2e.bin bs=1M count=160 oflag=direct status=none")
    read = "dd if=/srv/swarm/e2e.bin of=/dev/null bs=1M iflag=direct status=none"
    begun = time.monotonic()
    fleet.node(node, f"systemd-run -q --wait --slice={PAGED} {read}; rm /srv/swarm/e2e.bin")
    assert time.monotonic() - begun > 3.5, "160 MiB at 40 MB/s take 4.2 s"


def test_what_a_hand_changes_is_put_right(fleet: Fleet, node: str) -> None:
    device = fleet.node(node, f"cut -d' ' -f1 {CGROUPS}/{PAGED}/io.max")
    fleet.node(
        node, f"echo max > {CGROUPS}/{PLAIN}/hugetlb.2MB.rsvd.max; echo '{device} rbps=max riops=7' > {CGROUPS}/{PAGED}/io.max"
    )
    assert limits(fleet, node) != WANTED
    shown = fleet.swarm("assert")
    assert shown.status != 0 and "hugetlb" in shown.text.lower(), shown.text
    fleet.swarm(*UP).ok()
    assert limits(fleet, node) == WANTED


def test_pages_that_are_in_use_are_taken_from_nobody(fleet: Fleet, node: str) -> None:
    begun = hold(PAGED, 600).replace("--pipe --wait", "--unit=holder --collect")
    fleet.node(node, begun)
    time.sleep(3)
    fleet.edit("hugepages: 64 MB", "hugepages: 16 MB")
    fleet.edit("hugepages: 32 MB", "hugepages: 8 MB")
    done = fleet.swarm(*UP)
    assert done.status != 0 and "in use" in done.text, done.text
    assert fleet.node(node, f"cat {POOL}; systemctl is-active holder") == "30\nactive"
    fleet.node(node, "systemctl stop holder")
    fleet.swarm("up", "--yes", "--skip-preview", "--retry").ok()
    assert limits(fleet, node) | {"io": WANTED["io"]} == WANTED | {
        f"{PAGED}/hugetlb.2MB.max": str(3 * PAGE), f"{PAGED}/hugetlb.2MB.rsvd.max": str(3 * PAGE), "pool": "7",
    }  # fmt: skip


def test_all_of_it_is_gone_after_destroy(fleet: Fleet, node: str) -> None:
    fleet.pulumi("destroy", "--yes", "--skip-preview").ok()
    left = fleet.node(
        node, f"cat {POOL}; ls -d {CGROUPS} 2>/dev/null; grep -c hugetlb /sys/fs/cgroup/cgroup.subtree_control || true"
    )
    assert left.split() == ["0", "0"]
