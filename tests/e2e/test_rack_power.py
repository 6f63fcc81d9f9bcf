"""Do the power limits of a rack's GPUs fall where a job needs more, and does the rack stay within its budget meanwhile?

NVML is asked ten times a second, on each machine of the rack, by a process that knows nothing of the product.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CAPPED = ("gpu-01", "gpu-02")
BUDGET = 7000
HOT = """
  hot:
    user: bo
    kind: train
    each: {gpus: 2 x H100, gpu_power: 700 W, vcpus: 0.25, memory: 100 MB}
    run: {command: /bin/sleep infinity}
"""
LOOK = """
import json, sys, time
sys.path.insert(0, "/usr/local/lib/swarm/current")
import pynvml as n
n.nvmlInit()
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
while True:
    print(json.dumps([time.time(), [n.nvmlDeviceGetPowerManagementLimit(card) // 1000 for card in cards]]), flush=True)
    if "once" in sys.argv:
        break
    time.sleep(0.1)
"""

Look = tuple[float, list[int]]


def now(fleet: Fleet) -> list[int]:
    """The limits of all capped GPUs. [W]"""
    texts = [fleet.node(node, f"cat > /tmp/look.py <<'E'\n{LOOK}\nE\npython3 /tmp/look.py once") for node in CAPPED]
    return [limit for text in texts for limit in json.loads(text)[1]]


def running(fleet: Fleet) -> dict[str, str]:
    """The processes of all work on the capped machines, by systemd."""
    return {node: fleet.node(node, "systemctl show -p Id -p MainPID -p NRestarts 'swarm-*_*.service'") for node in CAPPED}


def begin(fleet: Fleet) -> None:
    for node in CAPPED:
        fleet.node(node, "setsid python3 /tmp/look.py > /tmp/looks </dev/null 2>/dev/null & echo $! > /tmp/look.pid")


def end(fleet: Fleet) -> dict[str, list[Look]]:
    found = {}
    for node in CAPPED:
        text = fleet.node(node, "kill $(cat /tmp/look.pid); cat /tmp/looks")
        found[node] = [json.loads(line) for line in text.splitlines() if line.endswith("]]")]
    return found


def most(looks: dict[str, list[Look]]) -> int:
    """The most that both machines allowed at once: each look at one, beside the next one at the other. [W]"""
    one, other = (looks[node] for node in CAPPED)
    sums = []
    for mine, others in ((one, other), (other, one)):
        for at, limits in mine:
            later = next((each for when, each in others if when >= at), None)
            sums += [sum(limits) + sum(later)] if later else []
    assert len(sums) > 20, "hardly anything was seen"
    return max(sums)


@pytest.fixture
def budgeted(fleet: Fleet) -> Iterator[Fleet]:
    """Sixteen GPUs with a range in a rack that cannot feed them all at its upper end."""
    before = fleet.stack.read_text()
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    fleet.edit("gpu_power: 600 W", "gpu_power: 300..600 W")
    fleet.edit("{power: 12 kW,", f"{{power: {BUDGET} W,")
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    yield fleet
    fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview", "--retry").ok()


def test_limits_of_a_rack_are_exchanged_and_its_budget_holds_meanwhile(budgeted: Fleet) -> None:
    fleet = budgeted
    assert now(fleet) == [437] * 16  # 7000 W / 16
    work = running(fleet)

    fleet.stack.write_text(fleet.stack.read_text().rstrip() + "\n" + HOT)
    plan = fleet.swarm("plan").ok()
    assert re.search(r"300\.\.600 W +400 W", plan.text) and "workloads with `gpu_power` take 1400 W" in plan.text
    begin(fleet)
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    assert most(end(fleet)) <= BUDGET
    assert sorted(now(fleet)) == [400] * 14 + [700] * 2  # (7000 - 1400) W / 14
    fleet.pulumi("preview", "--expect-no-changes").ok()

    # By hand: seen, and put back.
    node = CAPPED[0]
    raised = "import sys; sys.path.insert(0, '/usr/local/lib/swarm/current'); import pynvml as n; n.nvmlInit(); "
    raised += "n.nvmlDeviceSetPowerManagementLimit(n.nvmlDeviceGetHandleByIndex(7), 650000)"
    fleet.node(node, f'python3 -c "{raised}"')
    assert re.search(r"gpu 7: power +650 W +400 W", fleet.swarm("plan").ok().text)
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    assert sorted(now(fleet)) == [400] * 14 + [700] * 2

    fleet.edit(HOT.strip("\n"), "")
    begin(fleet)
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    assert most(end(fleet)) <= BUDGET
    assert now(fleet) == [437] * 16
    assert running(fleet) == work, "nothing was restarted for it"
