"""Do two allocations hold parts of one GPU, and never more than all of it? Is each told what is its own?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swarm_node import device, shape
from swarm_node.concerns import devices, slices, topology
from swarm_node.machine import systemd
from swarm_node.machine.run import Context
from swarm_node.program import step
from swarm_node.records import holdings, ledger

from tests.node.conftest import GUARD

HELD = {"left-0": ["1:0.5"], "right-0": ["1:0.25", 2]}


@pytest.fixture
def root(machine: Path) -> Path:
    """A machine on which two hold parts of GPU 1, with a process each on it."""
    with ledger.opened(check=False, root=str(machine)) as book:
        for name, gpus in HELD.items():
            book.record("allocations", name, value={"workload": name[:-2], "gpus": gpus, "slice": {}})
    return machine


def process(root: Path, nvml: Any, pid: int, cgroup: str) -> None:
    """One more on GPU 1, which NVML lists first."""
    nvml.cards[0].setdefault("pids", []).append(pid)
    (root / f"proc/{pid}").mkdir()
    (root / f"proc/{pid}/cgroup").write_text(f"0::/swarm.slice/{cgroup}\n")


def taken(root: Path, *gpus: int | str, name: str = "new-0") -> str:
    """What a step says that is to take these, before it makes anything."""
    want = {"allocations": {name: {"workload": name[:-2], "gpus": list(gpus), "slice": {}}}}
    request = {"verb": "slice", "steps": [{"id": "x", "allocation": name, "want": want}], "guard": GUARD, "check": True}
    return str(step.perform(request, root=str(root))["results"][0]["message"])


@pytest.mark.parametrize(
    ("written", "plain", "part"),
    [(0, 0, 1000), ("3:0.25", "3:0.25", 250), ("3:0.5", "3:0.5", 500), ("12:0.001", "12:0.001", 1)],
)
def test_a_device_is_written_as_the_controller_writes_it(written: int | str, plain: int | str, part: int) -> None:
    from swarm_iac.model.device import Device

    one = device.gpu(written)
    theirs = Device.parse(written)
    assert (one.plain, one.part) == (plain, part) == (theirs.plain, theirs.part)
    assert (one.kind, one.index) == theirs.at


@pytest.mark.parametrize("wrong", [True, -1, 1.0, "1", "1:1", "1:0", "1:0.0", "x:0.5", None, "1:0.1234", 4096])
def test_what_is_no_gpu_is_damage_of_the_ledger(wrong: Any) -> None:
    assert shape.gpu_list({"gpus": [0, wrong]}, "at ") == "at gpus is no list of GPUs"
    assert shape.gpu_list({"gpus": [0, "1:0.5"]}, "at ") == ""


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (("1:0.25",), ""),
        (("1:0.251",), "gpu 1 is held by left-0 and right-0; it must be released first"),
        ((1,), "gpu 1 is held by left-0 and right-0; it must be released first"),
        (("2:0.1",), "gpu 2 is held by right-0; it must be released first"),
        ((2,), "gpu 2 is held by right-0; it must be released first"),
    ],
)
def test_parts_of_a_gpu_are_never_more_than_all_of_it(gpus: tuple[int | str, ...], said: str, root: Path, nvml: Any) -> None:
    context = Context(ledger.load(str(root)), root=str(root))
    try:
        holdings.claim(context, "new-0", {"workload": "new", "gpus": list(gpus)})
        found = ""
    except Exception as error:
        found = str(error)
    assert found == said
    assert taken(root, *gpus) == said or not said


def test_who_grows_counts_without_what_it_has(root: Path) -> None:
    context = Context(ledger.load(str(root)), root=str(root))
    assert holdings.holders(context, "left-0", 1) == {"right-0": dict.fromkeys(range(8), 250)}, "of each eighth"
    holdings.nobody_elses(context, "left-0", {"gpus": ["1:0.75"]})


def test_only_processes_of_those_who_share_a_gpu_may_be_on_it(root: Path, nvml: Any) -> None:
    nvml.cards[2] = dict(nvml.cards[0], pci="00000000:83:00.0", pids=[])
    nvml.cards[0]["pci"], nvml.cards[1]["pci"] = "00000000:43:00.0", "00000000:1B:00.0"
    process(root, nvml, 11, f"{slices.unit('left-0')}/x.service")
    process(root, nvml, 12, f"{slices.unit('right-0')}/x.service")
    assert "in use" not in taken(root, "1:0.25")
    assert "in use" not in taken(root, "1:0.75", name="left-0")
    process(root, nvml, 13, f"{slices.unit('other-0')}/x.service")
    assert "is in use by pid 13" in taken(root, "1:0.25")
    assert "in use" not in taken(root, "1:0.5", name="left-0"), "it has its part already"


def test_a_part_that_grows_is_looked_at_as_one_that_is_taken(root: Path, nvml: Any) -> None:
    with ledger.opened(check=False, root=str(root)) as book:
        book.record("allocations", "right-0", value=None)
    process(root, nvml, 13, "user.slice")
    assert "is in use by pid 13" in taken(root, 1, name="left-0")


def test_each_is_told_its_share_of_the_memory_and_a_whole_card_nothing(root: Path, nvml: Any) -> None:
    context = Context(ledger.load(str(root), check=False), check=True, root=str(root))
    context.ledger.data["gpus_memory"] = {"1": 85_899_345_920}
    told = topology.own(context, "left-0", ["1:0.5"])
    assert (told["CUDA_VISIBLE_DEVICES"], told["SWARM_GPU_SHARE"], told["SWARM_GPU_MEMORY"]) == ("1", "0.5", "42949672960")
    assert not {"SWARM_GPU_SHARE", "SWARM_GPU_MEMORY"} & topology.own(context, "left-0", [1, 2]).keys()
    context.ledger.data["gpus_memory"] = {}
    assert topology.own(context, "left-0", ["1:0.5"])["SWARM_GPU_SHARE"] == "0.5"


def test_the_memory_of_a_card_is_known_once_it_was_taken(root: Path, nvml: Any) -> None:
    from swarm_node.concerns import gpus

    with ledger.opened(check=False, root=str(root)) as book:
        gpus.vacant(Context(book, root=str(root)), {1: ["swarm-left_0.slice"]})
    assert ledger.load(str(root)).data["gpus_memory"] == {"1": 80 * 2**30}


def test_a_shared_card_is_open_to_each_and_reads_back_as_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(ledger.load(str(tmp_path)), check=True, root=str(tmp_path))
    for gpus in (["1:0.5"], ["1:0.25", 2]):
        lines = devices.properties(context, gpus)
        assert 'DeviceAllow="/dev/nvidia1" "rw"' in lines or any("/dev/nvidia1" in line for line in lines)
    monkeypatch.setattr(devices, "_files", lambda context: [f"/dev/nvidia{i}" for i in range(3)])
    shown = {"DevicePolicy": "closed", "DeviceAllow": "/dev/nvidia1 rw\n/dev/nvidia2 rw\n/dev/nvidiactl rw"}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    assert devices.read(context, "right-0", {"gpus": ["1:0.25", 2]}) == ["1:0.25", 2]
    assert devices.read(context, "right-0", {"gpus": ["1:0.25"]}) == ["1:0.25", 2], "one more than it was given"
    shown["DevicePolicy"] = "auto"
    assert devices.read(context, "right-0", {"gpus": ["1:0.25"]}) == [0, "1:0.25", 2]
