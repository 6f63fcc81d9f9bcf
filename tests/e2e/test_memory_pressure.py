"""On a real node: is free memory lent, called back without killing anyone, and is each guarantee there under pressure?

By the kernel's cgroup files and the processes' own ids. The machine has no swap: what a process has written can be taken back
from it in no way. Each job holds what its file says, MiB that it wrote and MiB of a large file that it read.
Leaves the fleet as it found it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.conftest import NODES, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
NODE, MB, MIB = NODES[0], 10**6, 1 << 20
CGROUPS = "/sys/fs/cgroup/swarm.slice"
HOME = "/usr/local/share"
HOLDER = f"""\
import mmap, sys, time
held, wrote, read = [], 0, 0
while True:
    try:
        wrote, read = map(int, open("{HOME}/holds-" + sys.argv[1]).read().split())
    except (OSError, ValueError):
        pass
    while len(held) * 2 > wrote:
        held.pop().close()
    while len(held) * 2 < wrote:
        held.append(mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        held[-1][::4096] = b"x" * 512
    with open("{HOME}/large", "rb") as file:
        for _ in range(read):
            file.read(1 << 20)
    time.sleep(1)
"""
#: The node has 300 MB; what else there is of the machine is taken in `pressed`. `owner` comes later.
BORROWER = """\
  borrower:
    user: ada
    kind: serve
    each: {vcpus: 0.5, memory: 40..200 MB}
    place: {select: {one: here}}
    run: {command: "/usr/bin/python3 /usr/local/share/holder.py borrower"}
"""
OWNER = """\
  owner:
    user: cy
    kind: serve
    each: {vcpus: 0.5, memory: 200 MB}
    place: {select: {one: here}}
    run: {command: "/usr/bin/python3 /usr/local/share/holder.py owner"}
"""


@dataclass
class Node:
    """The one node that both are on."""

    fleet: Fleet
    head: str

    def run(self, command: str, timeout: float = 90) -> str:
        return self.fleet.node(NODE, command, timeout)

    def want(self, *workloads: str) -> None:
        self.fleet.stack.write_text(self.head + "workloads:\n" + "".join(workloads))

    def holds(self, name: str, wrote: int, read: int = 0) -> None:
        """Have it hold so much. [MiB]"""
        self.run(f"echo {wrote} {read} > {HOME}/holds-{name}")

    def file(self, name: str, file: str) -> str:
        """One file of the cgroup of an allocation; without a name of the slice above."""
        return self.run(f"cat {CGROUPS}/{f'swarm-{name}_0.slice/' if name else ''}{file}")

    def memory(self, name: str) -> dict[str, int]:
        """What it may use, what protects it, and what it uses, in MB."""
        lines = self.run(f"cd {CGROUPS}/swarm-{name}_0.slice && cat memory.low memory.high memory.max memory.current").split()
        return {key: round(int(text) / MB) for key, text in zip(("low", "high", "max", "uses"), lines, strict=True)}

    def wrote(self, name: str) -> int:
        """Anonymous memory. [MiB]"""
        stat = dict(line.split() for line in self.file(name, "memory.stat").splitlines())
        return int(stat["anon"]) // MIB

    def pid(self, name: str) -> str:
        return self.run(f"systemctl show -P MainPID -P NRestarts swarm-{name}_0.service | tr '\\n' ' '")

    def killed(self) -> int:
        """Kills by the kernel for lack of memory, on the whole machine since it booted."""
        return int(self.run("awk '/^oom_kill /{print $2}' /proc/vmstat"))

    def until(self, name: str, wrote: int, uses: int = 0, timeout: float = 90) -> None:
        """Wait until it has written so much (MiB) and uses so much (MB)."""
        end = time.monotonic() + timeout
        while self.wrote(name) < wrote or self.memory(name)["uses"] < uses:
            assert time.monotonic() < end, (name, self.wrote(name), self.memory(name), wrote, uses)
            time.sleep(1)


def head_with_little_memory(asked: str) -> str:
    """The sandbox's stack up to its workloads, with 300 MB for them on NODE."""
    head = asked[: asked.index("workloads:")].rstrip() + "\n\n"
    (shape,) = re.findall(r"^  h100: (.*)$", head, re.MULTILINE)
    small = shape.replace("memory: 1500 MB", "memory: 300 MB")
    head = head.replace("hardware:\n", f"hardware:\n  small: {small}\n").replace("gpu-[01-02]:", "gpu-02:")
    return f'{head}  {NODE}: {{hardware: small, rack: r1, site: lab, tuning: train, labels: {{one: here}}, ssh: "root@{{name}}"}}\n\n'


@pytest.fixture(scope="module")
def node(fleet: Fleet) -> Iterator[Node]:
    asked = fleet.stack.read_text()
    here = Node(fleet, head_with_little_memory(asked))
    assert here.run("swapon --show") == "", "there is no swap to hide behind"
    here.run(f"cat > {HOME}/holder.py <<'END'\n{HOLDER}END\ntruncate -s 1G {HOME}/large; chmod a+r {HOME}/*")
    here.want(BORROWER)
    fleet.swarm(*UP).ok()
    yield here
    here.run(f"rm -f {HOME}/holder.py {HOME}/large {HOME}/holds-*")
    fleet.stack.write_text(asked)
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


@pytest.fixture
def pressed(node: Node) -> Iterator[None]:
    """The machine has little more memory than was declared, and something outside of all slices reads more than that."""
    node.run("awk '/^MemAvailable/{print int(($2 / 1024 - 420) / 2)}' /proc/meminfo > /proc/sys/vm/nr_hugepages")
    read = f"sh -c 'while :; do cat {HOME}/large > /dev/null; done'"
    node.run(f"systemd-run -q --unit=reader --collect -p RuntimeMaxSec=400 {read}")
    yield
    node.run("systemctl stop reader; echo 0 > /proc/sys/vm/nr_hugepages")


def test_what_is_free_is_lent_up_to_the_ceiling(node: Node) -> None:
    assert node.memory("borrower") | {"uses": 0} == {"low": 40, "high": 190, "max": 200, "uses": 0}
    node.holds("borrower", 140, 30)
    node.until("borrower", 140, 165)
    assert node.killed() == 0
    assert "40..200 MB" in node.fleet.swarm("ps").ok().text


def test_what_was_written_cannot_be_called_back_so_the_newcomer_waits_and_nobody_is_killed(node: Node) -> None:
    pid = node.pid("borrower")
    node.want(BORROWER, OWNER)
    plan = node.fleet.swarm("plan").ok().text
    assert re.search(r"borrower-0: memory max +200 MB +100 MB", plan), plan
    asked = node.fleet.swarm(*UP)
    assert asked.status != 0 and "nothing was killed" in asked.text, asked.text[-4000:]
    assert (node.pid("borrower"), node.killed()) == (pid, 0)
    assert node.memory("borrower")["max"] == 200 and node.wrote("borrower") >= 140
    assert "swarm-owner_0" not in node.run(f"ls {CGROUPS}")


def test_what_was_only_read_is_called_back(node: Node) -> None:
    pid = node.pid("borrower")
    node.holds("borrower", 60, 100)
    node.until("borrower", 60, 150)
    node.fleet.swarm(*UP).ok()
    assert (node.pid("borrower"), node.killed()) == (pid, 0)
    assert node.memory("borrower") | {"uses": 0} == {"low": 40, "high": 95, "max": 100, "uses": 0}
    assert node.memory("owner") | {"uses": 0} == {"low": 200, "high": 190, "max": 200, "uses": 0}
    assert round(int(node.file("", "memory.low")) / MB) == 240, "what the slice above does not protect, nobody within has"


@pytest.mark.usefixtures("pressed")
def test_under_pressure_each_has_what_it_was_promised_and_nobody_is_killed(node: Node) -> None:
    pids = node.pid("borrower"), node.pid("owner")
    node.holds("owner", 170)
    node.holds("borrower", 76, 50)
    node.until("owner", 170, timeout=240)
    node.until("borrower", 76, timeout=120)
    assert int(node.run("awk '/^MemFree/{print int($2 / 1024)}' /proc/meminfo")) < 200, "it is under pressure"
    assert (node.pid("borrower"), node.pid("owner")) == pids
    assert node.killed() == 0, node.run("dmesg | tail -40")
    for name in ("borrower", "owner"):
        events = dict(line.split() for line in node.file(name, "memory.events").splitlines())
        assert (events["oom"], events["oom_kill"]) == ("0", "0"), (name, events)


def test_both_ends_change_while_it_runs(node: Node) -> None:
    pid = node.pid("borrower")
    node.holds("borrower", 20)
    node.want(BORROWER.replace("40..200", "20..60"), OWNER)
    node.fleet.swarm(*UP).ok()
    assert node.memory("borrower") | {"uses": 0} == {"low": 20, "high": 57, "max": 60, "uses": 0}
    node.want(BORROWER.replace("40..200", "60..80"), OWNER)
    node.fleet.swarm(*UP).ok()
    assert node.memory("borrower") | {"uses": 0} == {"low": 60, "high": 76, "max": 80, "uses": 0}
    assert node.pid("borrower") == pid


def test_what_is_changed_by_hand_is_seen_and_undone(node: Node) -> None:
    group = f"{CGROUPS}/swarm-borrower_0.slice"
    node.run(f"echo 150M > {group}/memory.max; echo max > {group}/memory.high; echo 0 > {group}/memory.low")
    asserted = node.fleet.swarm("assert")
    signs = ("memory_max: 157286400 → 79998976", "memory_low: absent → 59998208", "memory_high: absent")
    assert asserted.status == 1 and all(sign in asserted.text for sign in signs), asserted.text
    node.run(f"echo 0 > {CGROUPS}/memory.low")
    asserted = node.fleet.swarm("assert")
    assert asserted.status == 1 and "owner-0" in asserted.text, "nobody is protected then: " + asserted.text
    node.fleet.swarm(*UP).ok()
    node.fleet.swarm("assert").ok()
    assert round(int(node.file("", "memory.low")) / MB) == 260


def test_it_is_as_before_after_a_reboot(node: Node) -> None:
    before = {name: node.memory(name) | {"uses": 0} for name in ("borrower", "owner")}
    node.fleet.sandbox.reboot(NODE)
    node.run("for i in $(seq 80); do systemctl is-active -q swarm-owner_0 swarm-borrower_0 && break; sleep 1; done", 120)
    assert {name: node.memory(name) | {"uses": 0} for name in ("borrower", "owner")} == before
    assert round(int(node.file("", "memory.low")) / MB) == 260
    node.fleet.swarm("assert").ok()


def test_what_one_had_who_left_is_lent_again_and_destroy_leaves_nothing(node: Node) -> None:
    node.want(BORROWER)
    node.fleet.swarm(*UP).ok()
    assert node.memory("borrower")["max"] == 200
    node.fleet.pulumi("destroy", "--yes", "--skip-preview").ok()
    assert node.run("ls -d /etc/systemd/system/swarm* /sys/fs/cgroup/swarm.slice; true") == ""
