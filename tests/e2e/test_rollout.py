"""Does a value that breaks the first node stay away from all others, and is that node as it was before?

On the machines of test_trunk, before or after it; what they are asked for at the end is what it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import NODES, Fleet

pytestmark = pytest.mark.e2e

#: The kernel's value, the file that keeps it, and the power limits that NVML tells. [mW]
LOOK = """cat /proc/sys/vm/swappiness /etc/sysctl.d/90-swarm.conf; cd /usr/local/lib/swarm/current; python3 -c '
import pynvml as n
n.nvmlInit()
print(*(n.nvmlDeviceGetPowerManagementLimit(n.nvmlDeviceGetHandleByIndex(card)) for card in range(n.nvmlDeviceGetCount())))'"""


def look(fleet: Fleet) -> dict[str, str]:
    return {node: fleet.node(node, LOOK) for node in NODES}


@pytest.fixture
def requested(fleet: Fleet) -> Iterator[Fleet]:
    """A new power limit and a new kernel setting for all three nodes, in both tunings."""
    before = fleet.stack.read_text()
    fleet.swarm("up", "--yes", "--skip-preview").ok()
    fleet.edit("gpu_power: 600 W", "gpu_power: 300 W")
    fleet.edit("swappiness: 10", "swappiness: 12")
    fleet.edit("serve: {", "serve: {gpu_power: 300 W, swappiness: 12, ")
    yield fleet
    fleet.stack.write_text(before)
    for node in NODES:
        fleet.sandbox.fault(node, "clear")
    fleet.swarm("up", "--yes", "--skip-preview", "--retry").ok()


def test_a_value_that_fails_on_the_canary_goes_no_further_and_is_put_back(requested: Fleet) -> None:
    fleet, before = requested, look(requested)
    steps = json.loads(fleet.swarm("plan", "--json").ok().text)["steps"]
    (order,) = {tuple(step["rollout"]) for step in steps if step["rollout"]}
    assert set(order) == set(NODES)
    canary, others = order[0], sorted(order[1:])
    # The fourth of its cards refuses: settings and three cards are changed by then.
    fleet.sandbox.fault(canary, "nvml-error", "3", "set-power", "999")

    failed = fleet.swarm("up", "--yes", "--skip-preview")
    assert failed.status != 0
    assert look(fleet) == before, "the others are untouched, and the canary is as it was"
    for said in (failed, fleet.swarm("plan"), fleet.pulumi("preview")):
        words = " ".join(said.text.split())
        assert f"halted on {canary}, run" in words and "put back too" in words
        assert f"untouched: {', '.join(others)}" in words and "swarm up --retry" in words
    asserted = fleet.swarm("assert")
    assert asserted.status == 1 and all(node in asserted.text for node in NODES)

    fleet.sandbox.fault(canary, "clear")
    again = fleet.pulumi("up", "--yes", "--skip-preview")
    assert again.status != 0 and f"halted on {canary}" in again.text
    assert look(fleet) == before, "a later run does not repeat it unawares"

    fleet.swarm("up", "--yes", "--skip-preview", "--retry").ok()
    fleet.pulumi("preview", "--expect-no-changes").ok()
    fleet.swarm("assert").ok()
    for node, text in look(fleet).items():
        lines = text.splitlines()
        assert lines[0] == "12" and set(lines[-1].split()) == {"300000"}, node
