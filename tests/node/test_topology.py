"""Is NCCL told how the GPUs of an allocation hang together, of nobody else's, and is a file that was changed seen?"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import topology, units
from swarm_node.machine import systemd
from swarm_node.machine.run import Context
from swarm_node.records import ledger
from swarm_node.shape import unit

FIRST, SECOND = "00000000:1b:00.0", "00000000:43:00.0"
BRIDGES = {"0000:1b:00.0": "pci0000:00/0000:00:01.0/0000:17:00.0/0000:18:04.0", "0000:43:00.0": "pci0000:40/0000:40:01.0"}


@pytest.fixture
def here(machine: Path, nvml: Any) -> Any:
    """Two cards: the first behind a switch of NUMA node 0, the second on node 1 itself."""
    for address, above in BRIDGES.items():
        real = machine / "sys/devices" / above / address
        real.mkdir(parents=True)
        (real / "numa_node").write_text("0\n" if address == "0000:1b:00.0" else "1\n")
        link = machine / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real)
    book = ledger.load(str(machine))
    book.data["gpus_pci"] = {"0": FIRST, "1": SECOND}
    return Context(book, check=False, root=str(machine))


@pytest.fixture(autouse=True)
def confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.Ledger, "confirm", lambda self: None)


def parsed(here: Any) -> ET.Element:
    return ET.fromstring((Path(here.root) / topology.path("a-0").lstrip("/")).read_text())


def test_cards_are_below_their_switches_and_processors_and_links_are_counted(here: Any, nvml: Any) -> None:
    nvml.cards[1]["links"], nvml.cards[0]["links"] = [SECOND.upper(), SECOND, None], [FIRST, FIRST]
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    system = parsed(here)
    assert (system.tag, system.get("version")) == ("system", "1")
    assert [cpu.get("numaid") for cpu in system] == ["0", "1"]
    switch = system.find("cpu[@numaid='0']/pci")
    assert switch is not None and switch.get("busid") == "0000:17:00.0" and switch.find("gpu") is None
    link = switch.find("pci[@busid='0000:1b:00.0']/gpu/nvlink")
    assert link is not None and link.attrib == {"target": "0000:43:00.0", "count": "2", "tclass": "0x030200"}
    assert system.find("cpu[@numaid='1']/pci[@busid='0000:43:00.0']/gpu/nvlink[@target='0000:1b:00.0']") is not None


def test_links_to_a_switch_are_told_as_such(here: Any, nvml: Any) -> None:
    for card in nvml.cards.values():
        card["links"] = ["00000000:05:00.0"] * 6
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    found = [link.attrib for link in parsed(here).iter("nvlink")]
    assert found == [{"target": "0000:05:00.0", "count": "6", "tclass": "0x068000"}] * 2


@pytest.mark.parametrize(("gpus", "links"), [([0], [[0, 1]]), ([0, 1], [])], ids=["of another", "not declared"])
def test_no_link_to_a_card_of_another_or_that_is_not_declared(here: Any, nvml: Any, gpus: list[int], links: Any) -> None:
    nvml.cards[1]["links"], nvml.cards[0]["links"] = [SECOND], [FIRST]
    topology.write(here, "a-0", gpus, links)
    assert not list(parsed(here).iter("nvlink")) and len(list(parsed(here).iter("gpu"))) == len(gpus)


def test_a_driver_that_tells_nothing_leaves_links_to_nccl(here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(card: dict[str, object], link: int) -> int:
        raise nvml.NVMLError("Unknown Error")

    monkeypatch.setattr(nvml, "_link", fails)
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    assert not list(parsed(here).iter("nvlink")) and len(list(parsed(here).iter("gpu"))) == 2


@pytest.mark.parametrize(
    "change",
    [lambda text: "", lambda text: text.replace('numaid="1"', 'numaid="0"'), lambda text: text.replace("/>", "/><x/>")],
)
def test_a_file_that_was_changed_is_seen_and_a_whole_one_is_not(here: Any, nvml: Any, change: Any) -> None:
    nvml.cards[1]["links"], nvml.cards[0]["links"] = [SECOND], [FIRST]
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    assert topology.told(here, "a-0", [0, 1], [[0, 1]]) == [[0, 1]]
    file = Path(here.path(topology.path("a-0")))
    file.write_text(change(file.read_text()))
    assert topology.told(here, "a-0", [0, 1], [[0, 1]]) is None
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    assert topology.told(here, "a-0", [0, 1], [[0, 1]]) == [[0, 1]]


def test_it_goes_with_the_allocation_or_with_the_declaration(here: Any, nvml: Any) -> None:
    file = Path(here.path(topology.path("a-0")))
    topology.write(here, "a-0", [0, 1], [])
    topology.write(here, "a-0", [0, 1], None)
    assert not file.exists() and topology.environment(here, "a-0", [0, 1], None) == {}
    topology.write(here, "a-0", [0, 1], [])
    topology.release(here, "a-0", {})
    topology.restore(here, "", {})
    assert not file.exists() and not file.parent.exists()


def test_a_job_is_told_where_it_is_and_of_adapters_on_its_numa_nodes(here: Any, nvml: Any) -> None:
    for name, numa in {"mlx5_0": "0", "mlx5_1": "1", "mlx5_2": "-1", "a;b": "0"}.items():
        home = Path(here.root) / "sys/class/infiniband" / name / "device"
        home.mkdir(parents=True)
        (home / "numa_node").write_text(numa)
    own = topology.own(here, "a-0", [0], [])
    assert own["NCCL_TOPO_FILE"] == "/run/swarm-topology/a-0.xml"
    assert (own["NCCL_IB_HCA"], own["UCX_NET_DEVICES"]) == ("=mlx5_0", "mlx5_0:1")
    assert not {"NCCL_TOPO_FILE", "NCCL_IB_HCA"} & topology.own(here, "a-0", [0]).keys()


def test_an_adapter_that_is_gone_restarts_nobody(here: Any, nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"LoadState": "loaded", "ActiveState": "active", "NeedDaemonReload": "no", "DropInPaths": ""}
    monkeypatch.setattr(systemd, "show", lambda context, unit: shown)
    truth = {"User": "ada", "ExecStart": [["/usr/bin/env", ["/usr/bin/env", "--", "serve"]]], "KillSignal": 15,
             "TimeoutStopUSec": 30_000_000, "Restart": "on-failure", "Environment": ["NCCL_IB_HCA==mlx5_9"]}  # fmt: skip
    monkeypatch.setattr(systemd, "exactly", lambda context, unit: truth)
    topology.write(here, "a-0", [0, 1], [[0, 1]])
    found = units.read(here, "a-0", {"user": "ada", "command": "serve", "env": {}, "gpus": [0, 1], "links": [[0, 1]]})
    assert found is not None and (found["env"], found["links"]) == ({}, [[0, 1]])


@pytest.mark.parametrize("links", ["x", [1], [["../../etc"]], [[-1]], {"a": 1}])
def test_a_ledger_with_other_links_is_torn(links: Any) -> None:
    from swarm_node import table

    recorded = {"workload": "a", "unit": {"user": "ada", "links": links}}
    assert table.damage(recorded, "", node=False) or unit(recorded, "")


@pytest.mark.parametrize("address", ['0000:1b:00.0"/><x', "../../etc/passwd", "", None])
def test_an_address_that_is_none_is_left_out(here: Any, nvml: Any, address: Any) -> None:
    here.ledger.data["gpus_pci"]["0"] = address
    topology.write(here, "a-0", [0, 1], [])
    assert [one.get("busid") for one in parsed(here).iter("pci")] == ["0000:43:00.0"]
