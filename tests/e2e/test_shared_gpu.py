"""On real nodes: do two jobs share a GPU, nobody else gets it, and is it handed from shared to whole and back in order?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WHERE = "gpu-01"
INVENTORY = "/etc/swarm-nvml/gpus"
UP = ("up", "--yes", "--skip-preview")
#: What a job that runs was told, from the kernel's own view of its environment.
TOLD = (
    "tr '\\0' '\\n' < /proc/$(systemctl show -P MainPID swarm-{}.service)/environ"
    " | grep -E '^(CUDA_VISIBLE_DEVICES|SWARM_GPUS|SWARM_GPU_SHARE|SWARM_GPU_MEMORY)='"
)

#: Until the boot unit is through.
BOOTED = "for i in $(seq 60); do test -e /run/swarm/booted && break; sleep 1; done; sleep 2"


def job(user: str, gpus: str, **more: Any) -> dict[str, Any]:
    """One that runs on WHERE until it is stopped."""
    each = {"gpus": gpus, "vcpus": 0.25, "memory": "64 MB"}
    place, run = {"select": {"at": "here"}}, {"command": "/bin/sleep infinity"}
    return {"user": user, "kind": "train", "each": each, "place": place, "run": run, "stop": {"grace": "5 s"}, **more}


def left(gpus: str = "0.5 x H100") -> dict[str, Any]:
    return job("ada", gpus)


#: It comes back by itself after a reboot; the others wait for a run.
RIGHT = job("bo", "0.5 x H100", on_boot="start")
WHOLE = job("cy", "1 x H100")


class Sharing:
    """The fleet with these jobs and no others, and a recorder on their node."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.text = yaml.safe_load(fleet.stack.read_text())
        self.text["nodes"].setdefault(WHERE, {})["labels"] = {"at": "here"}

    def up(self, **jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Converge to these jobs; what the recorder saw meanwhile."""
        self.text["workloads"] = jobs
        self.fleet.stack.write_text(yaml.safe_dump(self.text, sort_keys=False))
        start = "systemd-run -q --collect --unit=recorder python3 /root/recorder.py /root/record 8000"
        self.fleet.node(WHERE, f"systemctl -q stop recorder; {start}")
        try:
            self.fleet.swarm(*UP).ok()
        finally:
            lines = self.fleet.node(WHERE, "systemctl -q stop recorder; cat /root/record").splitlines()
        return [json.loads(line) for line in lines]

    def gpus(self, job: str) -> list[Any]:
        return list(self.fleet.placed()[f"{job}-0"]["gpus"])

    def told(self, job: str) -> dict[str, str]:
        lines = self.fleet.node(WHERE, TOLD.format(f"{job}_0")).splitlines()
        return dict(line.split("=", 1) for line in lines)

    def named(self, *cards: str) -> dict[str, str]:
        """What a job with these whole cards is told: their UUIDs, as the driver has them, and their numbers."""
        uuids = {line.split()[0]: line.split()[3] for line in self.fleet.node(WHERE, f"cat {INVENTORY}").splitlines()}
        return {"CUDA_VISIBLE_DEVICES": ",".join(uuids[card] for card in cards), "SWARM_GPUS": ",".join(cards)}

    def opens(self, job: str, card: int) -> str:
        """What the kernel says when something in its slice opens a card: no driver stands behind the file."""
        within = f"systemd-run -q --pipe --wait --slice=swarm-{job}_0.slice"
        return self.fleet.node(WHERE, f"{within} sh -c 'cat /dev/nvidia{card} 2>&1; true'")


def crowded(samples: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Each moment at which the parts of a GPU that live processes had were more than all of it."""
    found = []
    for sample in samples:
        held: dict[str, float] = {}
        for name, (gpus, _) in sample["alive"].items():
            for gpu in gpus.split(",") if gpus != "-1" else ():
                held[gpu] = held.get(gpu, 0.0) + sample["shares"].get(name, 1.0)
        found += [(gpu, total) for gpu, total in held.items() if total > 1.0]
    return found


@pytest.fixture(scope="module")
def sharing(restored: Fleet) -> Sharing:
    script = (Path(__file__).parent / "recorder.py").read_text()
    restored.node(WHERE, f"cat > /root/recorder.py <<'END'\n{script}\nEND")
    return Sharing(restored)


def test_two_users_share_a_card_and_a_third_has_another(sharing: Sharing) -> None:
    assert crowded(sharing.up(left=left(), right=RIGHT, whole=WHOLE)) == []
    (mine,), (theirs,), (other,) = sharing.gpus("left"), sharing.gpus("right"), sharing.gpus("whole")
    card, _, part = str(mine).partition(":")
    assert mine == theirs and part == "0.5" and str(other) != card
    told = {job: sharing.told(job) for job in ("left", "right", "whole")}
    assert told["left"] == told["right"] and told["left"].keys() == {
        "CUDA_VISIBLE_DEVICES", "SWARM_GPUS", "SWARM_GPU_SHARE", "SWARM_GPU_MEMORY",
    }  # fmt: skip
    assert told["left"].items() >= {**sharing.named(card), "SWARM_GPU_SHARE": "0.5"}.items()
    assert int(told["left"]["SWARM_GPU_MEMORY"]) > 10**9
    assert told["whole"] == sharing.named(str(other))
    for job in ("left", "right"):
        assert "No such device" in sharing.opens(job, int(card)) and "not permitted" in sharing.opens(job, int(other))
    assert "not permitted" in sharing.opens("whole", int(card))
    said = sharing.fleet.swarm("ps").ok().text
    assert f"0.5 of GPU {card}" in said and "time-shared" in said
    sharing.fleet.pulumi("preview", "--expect-no-changes").ok()
    sharing.fleet.swarm("assert").ok()


def test_it_comes_back_after_a_reboot(sharing: Sharing) -> None:
    before = sharing.told("right")
    sharing.fleet.sandbox.reboot(WHERE)
    sharing.fleet.node(WHERE, BOOTED)
    assert sharing.told("right") == before
    sharing.fleet.swarm(*UP).ok()
    assert sharing.told("left") == before
    sharing.fleet.swarm("assert").ok()


def test_from_shared_to_whole_and_back_it_is_never_given_twice(sharing: Sharing) -> None:
    card = str(sharing.gpus("left")[0]).partition(":")[0]
    grows = sharing.up(left=left("1 x H100"), whole=WHOLE)
    assert sharing.gpus("left") == [int(card)], "it keeps its card"
    assert sharing.told("left") == sharing.named(card)
    assert crowded(grows) == []
    assert any("right-0" in sample["alive"] for sample in grows) and "right-0" not in grows[-1]["alive"]
    shares = sharing.up(left=left(), right=RIGHT, whole=WHOLE)
    assert sharing.gpus("left") == sharing.gpus("right") == [f"{card}:0.5"]
    assert crowded(shares) == []
    whole = {tuple(sample["alive"]["whole-0"][1]) for sample in [*grows, *shares] if "whole-0" in sample["alive"]}
    assert len(whole) == 1, "who has no part in a change keeps running"
    sharing.fleet.swarm("assert").ok()
