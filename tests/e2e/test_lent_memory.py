"""On a real node: does what one borrower leaves idle go to another that needs it, while it runs, and come back for a guarantee?

By the kernel's cgroup files, the processes' own ids and the node's journal. No other machine takes part, and nothing is killed.
Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import NODES, Fleet
from tests.e2e.test_memory_pressure import CGROUPS, HOLDER, HOME, MB, UP, Node, head_with_little_memory

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODE = NODES[0]
#: Of the 300 MB of the node 220 are free, 110 for each: neither may use its upper end.
PAIR = "".join(
    f"""\
  {name}:
    user: ada
    kind: serve
    each: {{vcpus: 0.5, memory: 40..200 MB}}
    place: {{select: {{one: here}}}}
    run: {{command: "/usr/bin/python3 {HOME}/holder.py {name}"}}
"""
    for name in ("hungry", "quiet")
)
OWNER = f"""\
  owner:
    user: cy
    kind: serve
    each: {{vcpus: 0.5, memory: 100 MB}}
    place: {{select: {{one: here}}}}
    run: {{command: "/usr/bin/python3 {HOME}/holder.py owner"}}
"""
#: Prints the seconds from when it uses most of what it may until it may use more.
TIMER = f"""\
import time
place = "{CGROUPS}/swarm-hungry_0.slice/"
number = lambda file: int(open(place + file).read())
most = number("memory.max")
while number("memory.current") < 0.95 * number("memory.high"):
    time.sleep(0.01)
began = time.monotonic()
while number("memory.max") <= most:
    time.sleep(0.01)
print(time.monotonic() - began)
"""


@pytest.fixture(scope="module")
def node(fleet: Fleet) -> Iterator[Node]:
    asked = fleet.stack.read_text()
    here = Node(fleet, head_with_little_memory(asked))
    here.run(f"cat > {HOME}/holder.py <<'END'\n{HOLDER}END\ntruncate -s 1G {HOME}/large; chmod a+r {HOME}/*")
    here.run(f"cat > {HOME}/timer.py <<'END'\n{TIMER}END")
    here.want(PAIR)
    fleet.swarm(*UP).ok()
    yield here
    here.run(f"rm -f {HOME}/holder.py {HOME}/timer.py {HOME}/large {HOME}/holds-*")
    fleet.stack.write_text(asked)
    fleet.swarm(*UP).ok()
    assert here.run("systemctl cat swarm-lender.service 2>&1 || true").startswith("No files found")
    fleet.swarm("assert").ok()


def limits(node: Node, *names: str) -> dict[str, int]:
    return {name: node.memory(name)["max"] for name in names}


def test_what_one_leaves_idle_another_gets_within_seconds(node: Node) -> None:
    assert limits(node, "hungry", "quiet") == {"hungry": 150, "quiet": 150}
    pids = {name: node.pid(name) for name in ("hungry", "quiet")}
    node.holds("hungry", 100)
    node.until("hungry", 100)
    node.run(f"systemd-run -q --unit=timer --collect sh -c '/usr/bin/python3 {HOME}/timer.py > {HOME}/holds-timed'")
    time.sleep(8)
    node.holds("hungry", 165)
    node.until("hungry", 165, timeout=180)
    took = float(node.run(f"cat {HOME}/holds-timed"))
    print(f"pressed → more: {took:.2f} s")
    assert took < 5
    now = limits(node, "hungry", "quiet")
    assert now["hungry"] > 173 and now["quiet"] >= 40 and sum(now.values()) <= 300, now
    assert {name: node.pid(name) for name in pids} == pids and node.killed() == 0
    (first, *_) = node.run("journalctl -u swarm-lender -o cat --no-pager | grep moved").splitlines()
    certificate = json.loads(first)
    assert certificate["held"] <= certificate["lent"] and certificate["guaranteed"].keys() == {"hungry-0", "quiet-0"}
    told = json.loads(node.fleet.swarm("history", "--moves", "--json").ok().text)
    assert {one["node"] for one in told} == {NODE} and certificate["moved"] in [one["moved"] for one in told]
    assert "hungry-0" in node.fleet.swarm("history", "--moves").ok().text


def test_it_is_live_and_no_drift_and_a_reload_of_systemd_changes_nothing(node: Node) -> None:
    before = limits(node, "hungry", "quiet")
    assert before != {"hungry": 150, "quiet": 150}
    node.run("systemctl daemon-reload")
    assert limits(node, "hungry", "quiet") == before and node.killed() == 0
    node.fleet.swarm("assert").ok()
    text = node.fleet.swarm("plan").ok().text
    assert "nothing to change" in text.lower() and f"live: hungry-0 on {NODE} may use " in text, text


def test_a_killed_lender_leaves_limits_as_they_are_and_the_next_one_goes_on(node: Node) -> None:
    before = limits(node, "hungry", "quiet")
    node.run("systemctl kill -s KILL swarm-lender; sleep 1; systemctl is-active swarm-hungry_0.service")
    assert limits(node, "hungry", "quiet") == before
    assert node.killed() == 0
    node.run("for i in $(seq 60); do systemctl is-active -q swarm-lender && break; sleep 1; done", 120)
    node.holds("hungry", 20)
    node.holds("quiet", 130)  # its part, of which it lent some, and all of it at once
    node.until("quiet", 130, timeout=180)
    assert sum(limits(node, "hungry", "quiet").values()) <= 300 and node.killed() == 0


def test_a_guarantee_gets_all_of_it_and_the_borrower_goes_on(node: Node) -> None:
    node.holds("quiet", 108)  # more than its part will be, and less than both may have together
    node.until("quiet", 0)
    time.sleep(3)
    pids = {name: node.pid(name) for name in ("hungry", "quiet")}
    node.want(PAIR, OWNER)
    node.fleet.swarm(*UP).ok()
    now = limits(node, "hungry", "quiet", "owner")
    assert now["owner"] == 100 and sum(now.values()) <= 300 and now["quiet"] > 113, now
    node.holds("owner", 85)
    node.until("owner", 85, timeout=180)
    assert {name: node.pid(name) for name in pids} == pids and node.killed() == 0
    assert node.wrote("quiet") >= 108
    assert node.memory("owner")["max"] == 100 and round(int(node.file("", "memory.low")) / MB) == 180
    node.fleet.swarm("assert").ok()
