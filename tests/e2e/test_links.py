"""On a real node: are links read as they are, does a replica get GPUs that are joined, and does a broken link stop nobody?

Leaves the fleet as it found it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.conftest import Done, Fleet
from tests.e2e.test_shared_gpu import INVENTORY, UP, WHERE, Sharing, job

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Bridges across the sockets' order: 0 with 2, 1 with 3, and so on.
PAIRS = [[0, 2], [1, 3], [4, 6], [5, 7]]
PID = "systemctl show -P MainPID swarm-pair_0.service"


@pytest.fixture
def bridged(restored: Fleet) -> Iterator[Sharing]:
    """A node whose cards are joined in PAIRS, on hardware that says so."""
    restored.node(WHERE, f"cp {INVENTORY} {INVENTORY}.before")
    group = {card: number for number, pair in enumerate(PAIRS, 1) for card in pair}
    awk = " ".join(f"$1 == {card} {{ print $0, {number} }}" for card, number in group.items())
    restored.node(WHERE, f"awk '{awk}' {INVENTORY}.before > {INVENTORY}")
    sharing = Sharing(restored)
    sharing.text["hardware"]["bridged"] = sharing.text["hardware"]["h100"] | {"links": {"nvlink": PAIRS}}
    nodes = sharing.text["nodes"]
    both = nodes.pop("gpu-[01-02]")
    nodes |= {WHERE: both | nodes[WHERE] | {"hardware": "bridged"}, "gpu-02": both}
    try:
        yield sharing
    finally:
        restored.sandbox.fault(WHERE, "clear")
        restored.node(WHERE, f"mv {INVENTORY}.before {INVENTORY}")


def up(fleet: Sharing, **jobs: object) -> Done:
    """Converge to these jobs and no others."""
    fleet.text["workloads"] = jobs
    fleet.fleet.stack.write_text(yaml.safe_dump(fleet.text, sort_keys=False))
    return fleet.fleet.swarm(*UP)


def test_a_job_has_linked_gpus_and_a_broken_link_stops_nobody(bridged: Sharing) -> None:
    fleet = bridged.fleet
    assert f"links: {{nvlink: {PAIRS}}}" in fleet.swarm("discover", f"new=root@{WHERE}").ok().text
    pair, more = (job("ada", "2 x H100", place={"select": {"at": "here"}, "links": "required"}) for _ in range(2))
    up(bridged, pair=pair).ok()
    assert sorted(bridged.gpus("pair")) in PAIRS
    assert bridged.told("pair") == bridged.named(*map(str, bridged.gpus("pair")))
    pid = fleet.node(WHERE, PID)
    fleet.sandbox.fault(WHERE, "link-down", "5")
    broken = up(bridged, pair=pair, more=more)
    assert broken.status, "what was not done is told"
    assert f"{WHERE}: not the hardware that the stack file declares: no NVLink found between GPUs 5 and 7" in broken.text
    assert fleet.node(WHERE, PID) == pid, "it runs on"
    assert "inactive" in fleet.node(WHERE, "systemctl is-active swarm-more_0.service; true")
    fleet.sandbox.fault(WHERE, "clear")
    fleet.swarm(*UP).ok()
    assert fleet.node(WHERE, PID) == pid and sorted(bridged.gpus("more")) in PAIRS
