"""Are the sums of `swarm top` those of what nodes measured, and is a node that is dark shown as dark?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import observe
from swarm_iac.cli.machines.in_use import NODE_HEADS, InUse, in_use, node_rows
from swarm_iac.observe import Measured
from tests.cli.typed import swarm

Rows = list[tuple[str, dict[str, str], float]]
ADA = {"workload": "train", "user": "ada", "team": "vision"}
BO = {"workload": "chat", "user": "bo", "team": "speech"}


def node(name: str, samples: Rows, rates: Rows | None = None) -> Measured:
    def families(rows: Rows) -> Mapping[str, tuple[tuple[Mapping[str, str], float], ...]]:
        found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family, labels, value in rows:
            found.setdefault(family, []).append((labels, value))
        return {family: tuple(each) for family, each in found.items()}

    return Measured(name, families(samples), families(rates or []))


def held(gpu: str, part: float, whose: dict[str, str], allocation: str) -> tuple[str, dict[str, str], float]:
    return "swarm_gpu_allocated_ratio", {"gpu": gpu, "allocation": allocation, **whose}, part


ONE = node(
    "n1",
    [
        *(("swarm_gpu_up", {"gpu": gpu}, 1.0) for gpu in "0123"),
        *(("swarm_gpu_power_watts", {"gpu": gpu}, 100.0) for gpu in "0123"),
        ("swarm_gpu_temperature_celsius", {"gpu": "2", "sensor": "memory"}, 88.0),
        ("swarm_gpu_sm_active_ratio", {"gpu": "0"}, 0.8), ("swarm_gpu_busy_ratio", {"gpu": "0"}, 1.0),
        ("swarm_gpu_busy_ratio", {"gpu": "1"}, 0.4),
        held("0", 1, ADA, "train-0"), held("1", 0.25, BO, "chat-0"), held("2", 1, ADA, "train-1"),
        ("swarm_allocation_memory_bytes", {"allocation": "train-0", **ADA}, 3e9),
        ("swarm_allocation_memory_limit_bytes", {"allocation": "train-0", **ADA}, 4e9),
        ("swarm_allocation_directory_used_bytes", {"allocation": "train-0", "directory": "scratch", **ADA}, 90.0),
        ("swarm_allocation_directory_quota_bytes", {"allocation": "train-0", "directory": "scratch", **ADA}, 100.0),
        ("swarm_allocation_unit_state", {"allocation": "train-0", "state": "active", **ADA}, 1.0),
        ("swarm_allocation_unit_state", {"allocation": "train-0", "state": "failed", **ADA}, 0.0),
        ("swarm_allocation_unit_state", {"allocation": "train-1", "state": "failed", **ADA}, 1.0),
        ("swarm_exporter_collector_fresh", {"collector": "network"}, 0.0),
    ],
    [
        ("swarm_allocation_cpu_seconds_total", {"allocation": "train-0", "mode": "user", **ADA}, 1.5),
        ("swarm_allocation_cpu_seconds_total", {"allocation": "train-0", "mode": "system", **ADA}, 0.25),
        ("swarm_allocation_pressure_seconds_total", {"allocation": "train-0", "resource": "io", "waiting": "full", **ADA}, 0.4),
        ("swarm_allocation_pressure_seconds_total", {"allocation": "train-0", "resource": "memory", "waiting": "some", **ADA}, 0.9),
        ("swarm_allocation_network_bytes_total", {"allocation": "train-0", "direction": "out", **ADA}, 125_000.0),
    ],
)  # fmt: skip
TWO = node(
    "n2", [("swarm_gpu_up", {"gpu": "0"}, 1.0), held("0", 1, ADA, "train-2"), ("swarm_gpu_busy_ratio", {"gpu": "0"}, 0.2)]
)
DARK = Measured("n3", {}, {}, "no answer within 5 s")


def test_sums_are_by_node_team_and_workload() -> None:
    found = in_use([TWO, DARK, ONE])
    assert list(found.nodes) == ["n1", "n2", "n3"] and found.dark == ("n3",)
    n1 = found.nodes["n1"]
    assert (n1.total, n1.power, n1.hottest, n1.stale, n1.held.gpus) == (4, 400, 88, ("network",), 2.25)
    vision, train = found.teams["vision"], found.workloads["train"]
    assert vision.gpus == 3 and vision.busy == pytest.approx((0.8 + 0.2) / 2), "what is not known counts for nothing"
    assert found.teams["speech"].gpus == 0.25 and found.teams["speech"].busy == 0.4
    assert (train.cpus, train.memory, train.memory_limit, train.full) == (1.75, 3e9, 4e9, 0.9)
    assert (train.waits, train.waits_for) == (0.4, "io"), "that some wait for memory does not hold all up"
    assert train.states == {"active": 1, "failed": 1} and train.allocations == {"train-0", "train-1", "train-2"}
    assert (train.user, train.team, train.out, train.into) == ("ada", "vision", 125_000, None)
    assert found.workloads["chat"] == InUse(user="bo", team="speech", gpus=0.25, busy=0.4, allocations={"chat-0"}, known=0.25)


def test_what_cards_draw_is_shown_beside_what_they_may_and_never_as_zero() -> None:
    capped = node("n1", [("swarm_gpu_power_watts", {"gpu": "0"}, 312.4), ("swarm_gpu_power_limit_watts", {"gpu": "0"}, 400.0)])
    silent = node("n2", [("swarm_gpu_up", {"gpu": "0"}, 1.0), ("swarm_gpu_power_limit_watts", {"gpu": "0"}, 400.0)])
    assert [row[NODE_HEADS.index("power")] for row in node_rows(in_use([capped, silent]))] == ["312 W of 400 W", "-"]


def test_a_dark_node_adds_nothing() -> None:
    found = in_use([DARK])
    assert not found.teams and found.nodes["n3"].held == InUse() and found.nodes["n3"].total is None


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    text = "fleet: lab\ntelemetry: {}\nhardware: {h: {gpus: 4 x H100, vcpus: 8, memory: 1 TB}}\n"
    (tmp_path / "stacks/lab.yaml").write_text(
        text + "nodes: {'n[1-3]': {hardware: h, ssh: 'root@{name}'}, n4: {hardware: h, ssh: root@x, state: lost}}\n"
    )
    asked: list[Any] = []
    every = {one.node: one for one in (ONE, TWO, DARK)}

    def measured(targets: Mapping[str, str], **_: object) -> dict[str, Measured]:
        asked.append(targets)
        return {name: every[name] for name in targets}

    monkeypatch.setattr(observe, "measurements", measured)
    return tmp_path


def test_it_is_shown_once(fleet: Path) -> None:
    done = swarm("top", "lab", "--once", at=fleet, width=170)
    assert done.code == 4, "one is dark"
    rows = {line.split()[0]: " ".join(line.split()) for line in done.out.splitlines() if line.strip()}
    assert rows["n1"] == "n1 2.25 of 4 72 % - 400 W 88 °C 1.75 3.0 GB yes; cannot measure network"
    assert rows["n3"].endswith("dark: no answer within 5 s")
    assert rows["vision"] == "vision 3 50 % 1.75 3.0 GB 3"
    assert rows["train"] == "train ada vision 1 active, 1 failed 3 50 % 1.75 3.0 GB of 4.0 GB 40 % io 1.0 Mbit/s / - 90 %"


def test_it_is_one_document(fleet: Path) -> None:
    done = swarm("top", "lab", "--json", at=fleet)
    found = json.loads(done.out)
    assert done.code == 4 and found["nodes"]["n3"]["error"] and found["teams"]["vision"]["gpus"] == 3
    assert (
        found["workloads"]["train"]["allocations"] == ["train-0", "train-1", "train-2"]
        and "known" not in found["workloads"]["train"]
    )
