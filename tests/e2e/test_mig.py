"""On real nodes: is a GPU cut for those who ask for it, does each open its own instance alone, and is all undone in the end?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import pytest
import yaml

from tests.e2e.conftest import Fleet
from tests.e2e.test_shared_gpu import BOOTED, UP, WHERE, Sharing, job

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LARGE = job("ada", "1 x H100/3g.40gb")
#: It comes back by itself after a reboot; the others wait for a run.
SMALL = job("bo", "2 x H100/1g.10gb", on_boot="start")
WHOLE = job("cy", "1 x H100")


class Cutting(Sharing):
    """The fleet with these jobs and no others, on a node whose GPUs may be cut."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.text["hardware"]["h100"]["mig"] = True

    def jobs(self, **jobs: object) -> None:
        self.text["workloads"] = jobs
        self.fleet.stack.write_text(yaml.safe_dump(self.text, sort_keys=False))
        self.fleet.swarm(*UP).ok()

    def cut(self) -> list[str]:
        """What the driver's stand-in has: cards in MIG mode, and instances."""
        return self.fleet.node(WHERE, "cat /run/swarm-nvml/mig 2>/dev/null; true").splitlines()

    def files(self, job: str) -> list[str]:
        """The files of its instances."""
        allowed = f"systemctl show -P DeviceAllow swarm-{job}_0.slice | tr ' ' '\\n' | grep nvidia-cap; true"
        return self.fleet.node(WHERE, allowed).split()

    def opened(self, job: str, path: str) -> str:
        """What the kernel says when something in its slice opens a file: no driver stands behind it."""
        within = f"systemd-run -q --pipe --wait --slice=swarm-{job}_0.slice"
        return self.fleet.node(WHERE, f"{within} sh -c 'cat {path} 2>&1; true'")


@pytest.fixture(scope="module")
def cutting(restored: Fleet) -> Cutting:
    return Cutting(restored)


def test_two_users_have_instances_of_one_card_and_a_third_a_whole_one(cutting: Cutting) -> None:
    cutting.jobs(large=LARGE, small=SMALL, whole=WHOLE)
    held = {str(one) for job in ("large", "small") for one in cutting.gpus(job)}
    card = next(iter(held)).partition(":")[0]
    assert held == {f"{card}:3g.40gb@4-7/8", f"{card}:1g.10gb@2/8", f"{card}:1g.10gb@3/8"}
    told = {job: cutting.told(job)["CUDA_VISIBLE_DEVICES"].split(",") for job in ("large", "small")}
    assert [len(names) for names in told.values()] == [1, 2]
    assert all(name.startswith("MIG-") for names in told.values() for name in names)
    assert {*told["large"]}.isdisjoint(told["small"])
    assert cutting.cut()[0] == f"mode {card}" and len(cutting.cut()) == 4
    for mine, other in (("large", "small"), ("small", "large")):
        assert "No such device" in cutting.opened(mine, cutting.files(mine)[0])
        assert "not permitted" in cutting.opened(mine, cutting.files(other)[0])
        assert "not permitted" in cutting.opened("whole", cutting.files(other)[0])
    assert f"3g.40gb at 4-7/8 of GPU {card}" in cutting.fleet.swarm("ps").ok().text
    cutting.fleet.pulumi("preview", "--expect-no-changes").ok()
    cutting.fleet.swarm("assert").ok()


def test_instances_come_back_after_a_reboot(cutting: Cutting) -> None:
    before = {*cutting.cut()}
    cutting.fleet.sandbox.reboot(WHERE)
    cutting.fleet.node(WHERE, BOOTED)
    assert len(cutting.told("small")["CUDA_VISIBLE_DEVICES"].split(",")) == 2, "it was started by the node itself"
    cutting.fleet.swarm(*UP).ok()
    assert {line.split()[0] for line in cutting.cut()} == {line.split()[0] for line in before} and len(cutting.cut()) == 4
    cutting.fleet.swarm("assert").ok()


def test_an_instance_that_somebody_removed_is_drift_and_comes_back(cutting: Cutting) -> None:
    whole = cutting.fleet.node(WHERE, "systemctl show -P MainPID swarm-whole_0.service")
    (large,) = [line for line in cutting.cut() if line.split()[3:5] == ["9", "4"]]
    cutting.fleet.node(WHERE, f"sed -i '/^{large}$/d' /run/swarm-nvml/mig")
    assert cutting.fleet.swarm("assert").status != 0
    cutting.fleet.swarm(*UP).ok()
    assert len(cutting.cut()) == 4
    assert cutting.fleet.node(WHERE, "systemctl show -P MainPID swarm-whole_0.service") == whole, "nobody else is touched"
    cutting.fleet.swarm("assert").ok()


def test_a_card_that_somebody_uses_is_not_cut(cutting: Cutting) -> None:
    cutting.jobs(whole=WHOLE)
    assert not cutting.cut(), "after the last instance the card is whole again"
    used = "sleep 600 & for card in 0 1 2 3 4 5 6 7; do echo $card $! 100; done > /run/swarm-nvml/processes"
    cutting.fleet.node(WHERE, f"systemd-run -q --unit=squatter sh -c '{used}; wait'; sleep 1")
    cutting.text["workloads"] = {"large": LARGE, "whole": WHOLE}
    cutting.fleet.stack.write_text(yaml.safe_dump(cutting.text, sort_keys=False))
    try:
        said = cutting.fleet.swarm(*UP)
        assert said.status != 0 and "is in use by pid" in said.text
        assert not cutting.cut()
    finally:
        cutting.fleet.node(WHERE, "systemctl stop squatter; rm -f /run/swarm-nvml/processes")
    cutting.fleet.swarm(*UP).ok()
    assert len(cutting.cut()) == 2
    cutting.jobs(whole=WHOLE)
    assert not cutting.cut()
