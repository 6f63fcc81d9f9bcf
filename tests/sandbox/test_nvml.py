"""Does the stand-in for NVML behave, through the real Python binding, as a card does?"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from swarm_iac.model.gpus.mig import profiles_of
from tests.sandbox.conftest import Nvml

pytest.importorskip("pynvml")
if shutil.which("gcc") is None:
    pytest.skip("needs gcc", allow_module_level=True)

INVALID, UNSUPPORTED, FORBIDDEN, NOT_FOUND, LOST = "error 2", "error 3", "error 4", "error 6", "error 15"


def test_a_card_says_who_it_is(h100: Nvml) -> None:
    assert h100.ask("n.nvmlDeviceGetCount()") == 8
    assert h100.ask("n.nvmlDeviceGetName(gpu(0))") == "NVIDIA H100 80GB HBM3"
    assert h100.ask("n.nvmlDeviceGetPciInfo(gpu(4)).busId") == "00000000:9D:00.0"
    assert h100.ask("[n.nvmlDeviceGetMemoryAffinity(gpu(i), 1, 0)[0] for i in range(8)]") == [1, 1, 1, 1, 2, 2, 2, 2]
    assert h100.ask("n.nvmlDeviceGetMemoryInfo(gpu(0)).total >> 20") == 81559


#: What a real card answered, by the expression that was asked.
RECORDED = json.loads((Path(__file__).parent / "h100.json").read_text())


def test_it_answers_as_a_real_card_did(alone: Nvml) -> None:
    asked = RECORDED["answers"]
    answers = alone.ask(f"[{', '.join(asked)}]")
    assert isinstance(answers, list) and len(answers) == len(asked) > 50
    assert {key: answer for key, answer in zip(asked, answers, strict=True) if answer != asked[key]} == {}


@pytest.mark.parametrize("model", ["H100", "H200"])
def test_the_profiles_of_the_data_file_are_those_of_a_real_card(model: str) -> None:
    asked = json.loads((Path(__file__).parent / f"{model.lower()}.json").read_text())["answers"]
    numbers = {1: (19, 15), 2: (14,), 3: (9,), 4: (5,), 7: (0,)}  # by compute slices; with media engines, 20 lies as 19 does
    found = {(slices, size): tuple(start for start, _ in asked[f"placements({number})"])
             for slices, ones in numbers.items() for number in ones for size in [asked[f"placements({number})"][0][1]]}  # fmt: skip
    ours = profiles_of(model, asked["(lambda m: [m.total, m.used, m.free])(n.nvmlDeviceGetMemoryInfo(gpu(0)))"][0]).values()
    assert found == {(int(one.name[0]), one.size): one.starts for one in ours}


def test_a_card_is_found_by_address_and_by_uuid(h100: Nvml) -> None:
    for address in ("00000000:9D:00.0", "0000:9d:00.0"):
        assert h100.ask(f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId('{address}'))") == 4
    assert h100.ask("n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(gpu(3))))") == 3
    assert h100.ask("attempt(n.nvmlDeviceGetHandleByPciBusId, '0000:01:00.0')") == NOT_FOUND
    assert h100.ask("attempt(gpu, 8)") == INVALID


def test_a_setting_outlives_the_process_that_made_it(h100: Nvml) -> None:
    h100.ask("[n.nvmlDeviceSetPowerManagementLimit(gpu(2), 400000), n.nvmlDeviceSetPersistenceMode(gpu(2), 1)]")
    h100.ask("n.nvmlDeviceSetGpuLockedClocks(gpu(2), 1410, 1410)")
    assert h100.ask("n.nvmlDeviceGetPowerManagementLimit(gpu(2))") == 400000
    assert h100.ask("n.nvmlDeviceGetEnforcedPowerLimit(gpu(2))") == 400000
    assert h100.ask("n.nvmlDeviceGetPersistenceMode(gpu(2))") == 1
    assert h100.ask("n.nvmlDeviceGetClockInfo(gpu(2), n.NVML_CLOCK_GRAPHICS)") == 1410
    assert h100.ask("n.nvmlDeviceGetPowerManagementLimit(gpu(1))") == 700000


def test_a_reboot_forgets_every_setting(h100: Nvml) -> None:
    h100.ask("n.nvmlDeviceSetPowerManagementLimit(gpu(2), 400000)")
    shutil.rmtree(h100.run)
    h100.run.mkdir()
    assert h100.ask("n.nvmlDeviceGetPowerManagementLimit(gpu(2))") == 700000


def test_a_reset_gives_the_clock_back(l40s: Nvml) -> None:
    l40s.ask("n.nvmlDeviceSetGpuLockedClocks(gpu(0), 1500, 1500)")
    assert l40s.ask("n.nvmlDeviceGetClockInfo(gpu(0), 0)") == 1500
    l40s.ask("n.nvmlDeviceResetGpuLockedClocks(gpu(0))")
    assert l40s.ask("n.nvmlDeviceGetClockInfo(gpu(0), 0)") == 210


@pytest.mark.parametrize("milliwatts", [0, 199999, 700001])
def test_power_never_leaves_its_range(h100: Nvml, milliwatts: int) -> None:
    assert h100.ask(f"attempt(n.nvmlDeviceSetPowerManagementLimit, gpu(0), {milliwatts})") == INVALID
    assert h100.ask("n.nvmlDeviceGetPowerManagementLimit(gpu(0))") == 700000


@pytest.mark.parametrize("clocks", ["330, 600", "345, 1995", "600, 345"])
def test_clocks_never_leave_their_range(h100: Nvml, clocks: str) -> None:
    assert h100.ask(f"attempt(n.nvmlDeviceSetGpuLockedClocks, gpu(0), {clocks})") == INVALID


def test_ranges_are_told(l40s: Nvml) -> None:
    assert l40s.ask("n.nvmlDeviceGetPowerManagementLimitConstraints(gpu(0))") == [100000, 350000]
    assert l40s.ask("n.nvmlDeviceGetMaxClockInfo(gpu(0), 0)") == 2520
    clocks = l40s.ask("n.nvmlDeviceGetSupportedGraphicsClocks(gpu(0), n.nvmlDeviceGetSupportedMemoryClocks(gpu(0))[0])")
    assert isinstance(clocks, list)
    assert (clocks[0], clocks[-1]) == (2520, 210)


def test_who_may_not_write_may_read_but_never_set(h100: Nvml) -> None:
    user = 65534 if os.geteuid() == 0 else None
    for folder in (h100.run.parent.parent, h100.run.parent, h100.run):
        folder.chmod(0o555)
    opened = h100.ask("n.nvmlDeviceGetCount()", user=user)
    assert opened == 8
    assert h100.ask("attempt(n.nvmlDeviceSetPowerManagementLimit, gpu(0), 400000)", user=user) == FORBIDDEN
    assert h100.ask("attempt(n.nvmlDeviceSetGpuLockedClocks, gpu(0), 1410, 1410)", user=user) == FORBIDDEN
    h100.run.chmod(0o755)


def test_an_injected_error_hits_its_call_and_card_alone(h100: Nvml) -> None:
    (h100.run / "faults").write_text("error nvmlDeviceSetPowerManagementLimit 2 999\n")
    assert h100.ask("attempt(n.nvmlDeviceSetPowerManagementLimit, gpu(2), 400000)") == "error 999"
    assert h100.ask("attempt(n.nvmlDeviceSetPowerManagementLimit, gpu(3), 400000)") is None
    assert h100.ask("n.nvmlDeviceGetPowerManagementLimit(gpu(2))") == 700000


def test_a_lost_card_answers_nothing(h100: Nvml) -> None:
    (h100.run / "faults").write_text("lost 3\n")
    assert h100.ask("n.nvmlDeviceGetCount()") == 8
    assert h100.ask("attempt(gpu, 3)") == LOST
    assert h100.ask("n.nvmlDeviceGetIndex(gpu(4))") == 4


def test_processes_on_a_card_are_told(h100: Nvml) -> None:
    assert h100.ask("n.nvmlDeviceGetComputeRunningProcesses(gpu(0))") == []
    (h100.run / "processes").write_text("0 4242 1024\n")
    assert h100.ask("[(p.pid, p.usedGpuMemory >> 20) for p in n.nvmlDeviceGetComputeRunningProcesses(gpu(0))]") == [
        [4242, 1024]
    ]
    assert h100.ask("n.nvmlDeviceGetComputeRunningProcesses(gpu(1))") == []


def test_cards_are_joined_as_the_inventory_says(h100: Nvml) -> None:
    """Two bridges, and a card that is alone; two cards behind one switch; then all links of a card are down."""
    rows = (h100.etc / "gpus").read_text().splitlines()
    ends = ("1 1", "1 1", "2 0", "2 0", "3 0")
    (h100.etc / "gpus").write_text("\n".join(f"{row} {end}" for row, end in zip(rows, ends, strict=False)) + "\n")
    remote = "n.nvmlDeviceGetNvLinkRemotePciInfo(gpu({}), 0).busId == n.nvmlDeviceGetPciInfo(gpu({})).busId"
    assert h100.ask(f"[{remote.format(0, 1)}, {remote.format(3, 2)}, {remote.format(0, 2)}]") == [True, True, False]
    linked = "[n.nvmlDeviceGetP2PStatus(gpu(i), gpu(j), n.NVML_P2P_CAPS_INDEX_NVLINK) for i, j in ((0, 1), (1, 2), (2, 3))]"
    assert h100.ask(linked) == [0, 5, 0]
    assert h100.ask("n.nvmlDeviceGetNvLinkState(gpu(4), 0)") == 0, "it is joined with nobody"
    assert h100.ask("[n.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(i)) for i in (1, 2)]") == [10, 40]
    (h100.run / "faults").write_text("unlinked 1\n")
    assert h100.ask("[n.nvmlDeviceGetNvLinkState(gpu(i), 0) for i in (0, 1)]") == [1, 0]
    assert h100.ask(linked) == [5, 5, 0]


def test_only_linked_cards_have_links(h100: Nvml, l40s: Nvml) -> None:
    assert h100.ask("[n.nvmlDeviceGetNvLinkState(gpu(0), i) for i in (0, 17)]") == [1, 1]
    assert h100.ask("attempt(n.nvmlDeviceGetNvLinkState, gpu(0), 18)") == INVALID
    assert h100.ask("n.nvmlDeviceGetP2PStatus(gpu(0), gpu(7), n.NVML_P2P_CAPS_INDEX_NVLINK)") == 0
    assert h100.ask("n.nvmlDeviceGetMigMode(gpu(0))") == [0, 0]
    assert l40s.ask("attempt(n.nvmlDeviceGetNvLinkState, gpu(0), 0)") == UNSUPPORTED
    assert l40s.ask("attempt(n.nvmlDeviceGetMigMode, gpu(0))") == UNSUPPORTED
