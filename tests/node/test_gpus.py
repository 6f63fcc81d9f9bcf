"""Are GPUs numbered by PCI address, judged by their own range, set, and put back?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import gpus
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import observe, step
from swarm_node.records import ledger

from swarm_iac.model.state import Declared, Facts, GpuFacts
from swarm_iac.plan.state.mismatch import differences
from tests.node.conftest import GUARD

WANT = {"0": {"persistence": True, "power_w": 600, "clock_mhz": 1410}, "1": {"power_w": 500}}


def _apply(root: Path, want: dict[str, Any], *, check: bool = False, call: Any = gpus.apply) -> list[dict[str, Any]]:
    with ledger.opened(check=check, root=str(root)) as book:
        changes: list[dict[str, Any]] = call(Context(book, check=check, root=str(root)), "", want)
        return changes


def test_index_counts_by_pci_address(machine: Path, nvml: Any) -> None:
    _apply(machine, {"0": {"power_w": 600}})
    assert nvml.writes == [("00000000:1B:00.0", "power", 600_000)]


def test_second_run_never_changes_anything(machine: Path, nvml: Any) -> None:
    assert len(_apply(machine, WANT)) == 4
    nvml.writes.clear()
    assert _apply(machine, WANT) == []
    assert nvml.writes == []


def test_check_mode_predicts_and_never_writes(machine: Path, nvml: Any) -> None:
    predicted = _apply(machine, WANT, check=True)
    assert nvml.writes == []
    assert _apply(machine, WANT) == predicted


def test_restore_gives_every_card_back(machine: Path, nvml: Any) -> None:
    before = {index: dict(card) for index, card in nvml.cards.items()}
    _apply(machine, WANT)
    _apply(machine, {}, call=gpus.restore)
    assert nvml.cards == before


def test_null_gives_one_field_back(machine: Path, nvml: Any) -> None:
    _apply(machine, WANT)
    _apply(machine, {"0": {"persistence": True, "power_w": None, "clock_mhz": None}})
    assert nvml.cards[1] == {"pci": "00000000:1B:00.0", "persistence": 1, "power": 700_000, "lock": 0}


def test_a_clock_that_stands_there_by_chance_is_locked(machine: Path, nvml: Any) -> None:
    assert _apply(machine, {"0": {"clock_mhz": 345}}) == []
    assert nvml.cards[1]["lock"] == 345


@pytest.mark.parametrize(
    ("want", "words"),
    [
        ({"0": {"power_w": 900}}, r"power_limit 900 W is outside 200-700 W of gpu 0 \(NVIDIA H100 80GB HBM3\)"),
        ({"1": {"clock_mhz": 3000}}, r"gpu_clock 3000 MHz is outside 210-1980 MHz of gpu 1"),
        ({"1": {"clock_mhz": 1415}}, r"gpu_clock 1415 MHz is no step of gpu 1 .*; the nearest is 1410 MHz"),
        ({"7": {"power_w": 500}}, "gpu 7 is not there: this machine has 2 GPUs"),
    ],
)
def test_refusals_leave_every_card_alone(machine: Path, nvml: Any, want: dict[str, Any], words: str) -> None:
    with pytest.raises(NodeError, match=words):
        _apply(machine, {"0": {"persistence": True}, **want})
    assert nvml.writes == []


def test_a_card_that_moved_is_refused(machine: Path, nvml: Any) -> None:
    _apply(machine, WANT)
    nvml.cards[1]["pci"] = "00000000:52:00.0"
    with pytest.raises(NodeError, match="a card was moved or lost"):
        _apply(machine, {"0": {"power_w": 300}})


def test_a_card_that_fell_off_the_bus_is_named_and_never_gives_its_number_away(machine: Path, nvml: Any) -> None:
    nvml.cards = {0: nvml.cards[1], 1: nvml.cards[0]}  # listed by address, as drivers do
    _apply(machine, WANT)
    nvml.cards[0]["lost"] = True
    with pytest.raises(NodeError, match="gpu 0 has fallen off the bus"):
        _apply(machine, {"0": {"power_w": 500}})
    _apply(machine, {"1": {"power_w": 450}})
    assert nvml.writes[-1] == ("00000000:43:00.0", "power", 450_000)


def test_a_lost_card_among_cards_in_no_order_is_never_guessed(machine: Path, nvml: Any) -> None:
    nvml.cards[2] = {"pci": "00000000:99:00.0", "lost": True}
    with pytest.raises(NodeError, match="NVML does not tell which"):
        _apply(machine, {"0": {"power_w": 500}})


def test_an_error_of_the_driver_names_card_key_and_value(machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(card: Any, field: str, value: object) -> None:
        raise nvml.NVMLError("Insufficient Permissions")

    monkeypatch.setattr(nvml, "_set", refuse)
    with pytest.raises(NodeError, match=r"gpu 1 \(NVIDIA H100 80GB HBM3\): gpu_power 500 W: Insufficient Permissions"):
        _apply(machine, {"1": {"power_w": 500}})


def test_a_card_that_refuses_leaves_all_cards_as_they_were(machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _apply(machine, {"0": {"power_w": 650, "clock_mhz": 1200}})
    before = {index: dict(card) for index, card in nvml.cards.items()}, ledger.load(str(machine)).originals("")
    real = nvml._set

    def refuse(card: dict[str, object], field: str, value: object) -> None:
        if (card["pci"], field, value) == ("00000000:43:00.0", "power", 500_000):
            raise nvml.NVMLError("Unknown Error")
        real(card, field, value)

    monkeypatch.setattr(nvml, "_set", refuse)
    with pytest.raises(NodeError, match=r"gpu 1 .*: gpu_power 500 W: Unknown Error; put back as it was"):
        _apply(machine, WANT)
    assert (nvml.cards, ledger.load(str(machine)).originals("")) == before


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("nvmlDeviceGetPowerManagementLimit", "gpu 1: gpu_power 500 W cannot be verified (NVML: Unknown Error)"),
        ("nvmlDeviceGetClockInfo", "gpu 1: gpu_clock 1200 MHz cannot be verified (NVML: Unknown Error)"),
        ("nvmlDeviceGetPersistenceMode", "gpu 1: gpu_persistence true cannot be verified (NVML: Unknown Error)"),
        ("nvmlDeviceGetPowerManagementLimitConstraints", "gpu 1: its range of power cannot be read (NVML: Unknown Error)"),
        ("nvmlDeviceGetComputeRunningProcesses", "gpu 1: its processes cannot be read (NVML: Unknown Error)"),
        ("nvmlDeviceGetMigMode", "gpu 1: its MIG mode cannot be read (NVML: Unknown Error)"),
        ("nvmlDeviceGetMemoryInfo", "gpu 1: its memory cannot be read (NVML: Unknown Error)"),
        ("nvmlDeviceGetName", "gpu 1: its model cannot be read (NVML: Unknown Error)"),
        ("nvmlDeviceGetUUID", "gpu 1: its UUID cannot be read (NVML: Unknown Error)"),
    ],
)
def test_one_value_that_the_driver_does_not_tell_costs_no_other(
    machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch, call: str, said: str
) -> None:
    """Nothing is made anew for it, and nobody takes the node for one that cannot be read."""
    wanted = {index: {"persistence": True, "power_w": 500, "clock_mhz": 1200} for index in ("0", "1")}
    step.perform({"verb": "gpus", "steps": [{"id": "x", "want": {"gpus": wanted}}], "guard": GUARD}, root=str(machine))
    well = observe.observe(str(machine))
    assert not well.get("error") and not well["troubles"] and well["state"]["gpus"] == wanted
    real = getattr(nvml, call)

    def fails(card: dict[str, object], *rest: object) -> object:
        if card["pci"] == "00000000:43:00.0":
            raise nvml.NVMLError("Unknown Error")
        return real(card, *rest)

    monkeypatch.setattr(nvml, call, fails, raising=False)
    seen = observe.observe(str(machine))
    assert not seen.get("error") and [*seen["troubles"], *seen["unverified"]] == [said]
    assert seen["state"] == well["state"] and bool(seen["unverified"]) == ("verified" in said)
    unlike = {key for key in well["facts"]["gpus"][1] if seen["facts"]["gpus"][1][key] != well["facts"]["gpus"][1][key]}
    assert len(unlike) <= 2 and seen["facts"]["gpus"][0] == well["facts"]["gpus"][0]


def test_a_card_that_does_not_answer_costs_no_other_and_counts_as_it_was_set(machine: Path, nvml: Any) -> None:
    nvml.cards = {0: nvml.cards[1], 1: nvml.cards[0]}  # listed by address, as drivers do
    wanted = {index: {"persistence": True, "power_w": 500} for index in ("0", "1")}
    step.perform({"verb": "gpus", "steps": [{"id": "x", "want": {"gpus": wanted}}], "guard": GUARD}, root=str(machine))
    nvml.cards[0]["mute"] = True
    seen = observe.observe(str(machine))
    said = "gpu 0 does not answer (NVML: Unknown Error); reboot the node, or drain it"
    assert not seen.get("error") and seen["troubles"] == [said] and seen["state"]["gpus"] == wanted
    assert [card["index"] for card in seen["facts"]["gpus"]] == [1], "so it is not the hardware that is declared"
    with pytest.raises(NodeError, match="gpu 0 does not answer"):
        _apply(machine, {"0": {"power_w": 500}})
    nvml.cards[2] = {**nvml.cards[1], "pci": "00000000:09:00.0"}
    with pytest.raises(NodeError, match="a GPU does not answer, and NVML does not tell which"):
        _apply(machine, {"0": {"power_w": 500}})


def test_a_card_that_does_not_tell_its_model_gets_no_new_work(machine: Path, nvml: Any) -> None:
    declared = Declared(gpus=2, gpu_model="H100", cpus=1)
    told = [GpuFacts(index=index, pci="", uuid="", model=model, memory=1) for index, model in enumerate(["H100", "unknown"])]
    assert differences(Facts(cpus=1, gpus=tuple(told)), declared) == ("1 x H100 and 1 x unknown found, 2 x H100 declared",)


@pytest.mark.parametrize(
    ("kernel", "masks", "numa"),
    [("1", [1], 1), ("-1", [1], 0), (None, [0, 1 << 3], 67), ("-1", [3], -1), ("-1", [0], -1), ("-1", None, -1)],
    ids=["kernel", "driver", "large", "several", "none", "silent"],
)
def test_where_the_kernel_knows_no_numa_node_the_driver_is_asked(
    nvml: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel: str | None, masks: list[int] | None, numa: int
) -> None:
    """As in a virtual machine with one H100, whose kernel says -1 and whose NVML has no NumaNodeId."""

    def affinity(card: object, size: int, scope: int) -> list[int]:
        if masks is None:
            raise nvml.NVMLError_NotSupported("Not Supported")
        return masks + [0] * (size - len(masks))

    monkeypatch.setattr(nvml, "nvmlDeviceGetMemoryAffinity", affinity, raising=False)
    if kernel is not None:
        (tmp_path / "numa_node").write_text(kernel)
    monkeypatch.setattr("builtins.open", lambda path, *rest, real=open, **more: real(
        tmp_path / "numa_node" if str(path).startswith("/sys/bus/pci/devices/") else path, *rest, **more))  # fmt: skip
    unread: list[str] = []
    with gpus.cards() as cards:
        assert cards.by_index[0].facts(unread)["numa"] == numa and not unread
