"""Is a workload told exactly its own GPUs, by names that hold over boots, and is another card in their place seen?"""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import gpus, topology, units
from swarm_node.machine import systemd
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger
from swarm_node.workload import environment

from tests.node.conftest import GUARD, uuid_of

FIRST, SECOND = "00000000:1b:00.0", "00000000:43:00.0"
ONE, TWO = uuid_of(FIRST), uuid_of(SECOND)
#: A card that came in place of another one, at its address.
OTHER = "GPU-5c8d19cf-5d14-fe57-7216-01e15a85629b"
NAMES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


@pytest.fixture
def here(machine: Path, nvml: Any) -> Any:
    """Two cards: the first on NUMA node 1, the second on node 0. NVML lists them the other way round."""
    for address, numa in {"0000:1b:00.0": "1", "0000:43:00.0": "0"}.items():
        home = machine / "sys/bus/pci/devices" / address
        home.mkdir(parents=True)
        (home / "numa_node").write_text(f"{numa}\n")
    book = ledger.load(str(machine), check=False)
    book.guard(**GUARD)
    book.data["gpus_pci"] = {"0": FIRST, "1": SECOND}
    return Context(book, root=str(machine))


@pytest.fixture(autouse=True)
def confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.Ledger, "confirm", lambda self: None)


def own(here: Any, written: list[Any]) -> dict[str, str]:
    """As a unit that is made now has it."""
    topology.remember(here, written)
    return dict(topology.own(here, "a-0", written))


def card(nvml: Any, pci: str) -> Any:
    return next(one for one in nvml.cards.values() if one["pci"].lower() == pci)


@pytest.mark.parametrize(
    ("written", "uuids", "numbers"),
    [([0], ONE, "0"), ([1], TWO, "1"), ([0, 1], f"{TWO},{ONE}", "1,0"), (["1:0.25"], TWO, "1"), (["0:0.5", 1], f"{TWO},{ONE}", "1,0")],
)  # fmt: skip
def test_it_is_told_its_own_cards_by_uuid_in_the_order_of_the_topology(
    here: Any, written: list[Any], uuids: str, numbers: str
) -> None:
    told = own(here, written)
    assert {told[name] for name in NAMES} == {uuids} and told["SWARM_GPUS"] == numbers
    topology.write(here, "a-0", written, [[0, 1]])
    tree = ET.fromstring((Path(here.root) / topology.path("a-0").lstrip("/")).read_text())
    addresses = [one.get("busid") for one in tree.iter("pci") if one.find("gpu") is not None]
    assert [uuid_of(f"0000{address}") for address in addresses] == uuids.split(",")


def test_without_gpus_it_is_told_that_it_has_none(here: Any, nvml: Any) -> None:
    told = own(here, [])
    assert (told["CUDA_VISIBLE_DEVICES"], told["NVIDIA_VISIBLE_DEVICES"]) == ("-1", "none") and "SWARM_GPUS" not in told
    assert here.ledger.data["gpus_uuid"] == {}


def test_names_hold_where_numbers_of_the_driver_change(here: Any, nvml: Any) -> None:
    before = own(here, [0])
    nvml.cards = {0: nvml.cards[1], 1: nvml.cards[0]}
    assert own(here, [0]) == before


def test_a_card_that_died_gives_its_name_to_no_other(here: Any, nvml: Any) -> None:
    """The one behind it is number 0 of the driver then."""
    own(here, [0, 1])
    del nvml.cards[1]  # FIRST
    with gpus.cards() as here.cards:
        assert topology.own(here, "a-0", [0])["CUDA_VISIBLE_DEVICES"] == ONE
        assert topology.own(here, "b-0", [1])["CUDA_VISIBLE_DEVICES"] == TWO


@pytest.mark.parametrize("silent", ["Unknown Error", None])
def test_a_driver_that_does_not_answer_changes_no_name(
    here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch, silent: str | None
) -> None:
    before = own(here, [0])

    def fails(*_: object) -> None:
        raise nvml.NVMLError(silent)

    monkeypatch.setattr(nvml, "nvmlDeviceGetUUID" if silent else "nvmlInit", fails, raising=False)
    assert own(here, [0]) == before
    here.ledger.data["gpus_uuid"] = {}
    assert own(here, [0])["CUDA_VISIBLE_DEVICES"] == "0", "one that it has never told has its number"
    assert own(here, [0, 1])["CUDA_VISIBLE_DEVICES"] == "0,1", "and CUDA mixes no numbers with names"


@pytest.mark.parametrize("name", ["GPU-x", 'GPU-1"\nUser=root', f"{ONE},{TWO}", 7, None, ["x"], "GPU-" + "0" * 4000])
def test_what_is_no_uuid_is_never_written(here: Any, nvml: Any, name: Any) -> None:
    card(nvml, FIRST)["uuid"] = name
    here.ledger.data["gpus_uuid"] = {"0": name}
    assert own(here, [0])["CUDA_VISIBLE_DEVICES"] in ("0", ONE)


def unit_of(here: Any, text: str, monkeypatch: pytest.MonkeyPatch, active: str = "active") -> Any:
    """What is read back of a service with that file, with the driver open as when a machine is observed."""
    path = Path(here.path(f"{systemd.UNITS}/{units.unit('a-0')}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    pairs = [line.partition("=")[2].strip('"') for line in text.splitlines() if line.startswith("Environment=")]
    shown = {"LoadState": "loaded", "ActiveState": active, "NeedDaemonReload": "no", "DropInPaths": ""}
    truth = {"User": "ada", "ExecStart": [["/usr/bin/env", ["/usr/bin/env", "--", "serve"]]], "KillSignal": 15, "Environment": pairs,
             "TimeoutStopUSec": 30_000_000, "Restart": "on-failure"}  # fmt: skip
    monkeypatch.setattr(systemd, "show", lambda *_: shown)
    monkeypatch.setattr(systemd, "exactly", lambda *_: truth)
    with gpus.cards() as here.cards:
        found = units.read(here, "a-0", WANT)
    here.cards = None
    return found


WANT: dict[str, Any] = {"user": "ada", "command": "serve", "env": {}, "gpus": [0]}


def test_another_card_in_the_same_place_is_drift_and_the_same_one_is_not(
    here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology.remember(here, [0])
    text = units.render(here, "a-0", WANT)
    assert ONE in text and TWO not in text
    assert unit_of(here, text, monkeypatch)["env"] == {}
    card(nvml, FIRST)["uuid"] = OTHER
    assert unit_of(here, text, monkeypatch)["env"] == dict.fromkeys(NAMES, ONE)
    assert unit_of(here, text, monkeypatch, "inactive")["env"] == {}, "what does not run is told anew at its start"
    topology.remember(here, [0])
    assert ledger.load(here.root).data["gpus_uuid"] == {"0": OTHER}
    assert OTHER in units.render(here, "a-0", WANT), "which a start writes"


def test_a_card_that_leaves_the_bus_changes_no_name_and_no_order_of_who_runs(
    here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is by what the machine shows of cards; who has the others would be stopped for nothing."""
    monkeypatch.setitem(WANT, "gpus", [0, 1])
    topology.remember(here, [0, 1])
    text = units.render(here, "a-0", WANT)
    assert f"{TWO},{ONE}" in text and '"SWARM_GPUS=1,0"' in text
    shutil.rmtree(Path(here.path("/sys/bus/pci/devices/0000:43:00.0")))
    assert units.render(here, "a-0", WANT) != text
    assert unit_of(here, text, monkeypatch)["env"] == {}
    for changed in (text.replace(f"{TWO},{ONE}", f"{TWO},{OTHER}"), text.replace(f"{TWO},{ONE}", f"{TWO},{TWO}")):
        assert unit_of(here, changed, monkeypatch)["env"].keys() == set(NAMES), "another card is"


def test_a_unit_of_an_earlier_version_with_numbers_is_no_drift_and_is_written_anew(
    here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job would be stopped for nothing."""
    topology.remember(here, [0])
    text = units.render(here, "a-0", WANT).replace(ONE, "0").replace('Environment="SWARM_GPUS=0"\n', "")
    assert text.count('=0"') == 2 and ONE not in text
    assert unit_of(here, text, monkeypatch)["env"] == {}
    changed = text.replace('CUDA_VISIBLE_DEVICES=0"', 'CUDA_VISIBLE_DEVICES=1"')
    assert unit_of(here, changed, monkeypatch)["env"] == {"CUDA_VISIBLE_DEVICES": "1"}, "another number is another card"
    here.ledger.data["gpus_uuid"] = {}
    here.ledger.record("allocations", "a-0", value={"workload": "a", "gpus": [0], "unit": {**WANT, "gpus": None}})
    unit_of(here, text, monkeypatch)
    monkeypatch.setattr(Context, "act", lambda *_, **__: "")
    assert units.renewed(here) and ONE in Path(here.path(f"{systemd.UNITS}/{units.unit('a-0')}")).read_text()


@pytest.mark.parametrize("name", [*NAMES, "CUDA_DEVICE_ORDER"])
def test_a_variable_of_the_users_never_hides_which_cards_it_has(here: Any, nvml: Any, name: str) -> None:
    unit = {"user": "ada", "command": "serve", "env": {name: "0"}}
    want = {"allocations": {"a-0": {"workload": "a", "gpus": [0], "unit": unit}}}
    with pytest.raises(NodeError, match=f"{name} is set by swarm, to the GPUs of the allocation"):
        units.STEPS["start"](here, "a-0", want)
    assert here.ledger.get("allocations", "a-0") is None, "and nothing was begun"
    environment.check_new(unit, unit)  # which ran so before this was refused
