"""How do tests reach the node program? As the nodes do: by its own name, without the rest of the package."""

from __future__ import annotations

import errno
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac import assets

sys.path.insert(0, str(assets.playbooks() / "module_utils"))

GUARD = {"fleet": "dev", "lineage": "L1", "serial": 1}


def uuid_of(pci: str) -> str:
    """The UUID of the card that FakeNvml has at that address."""
    return f"GPU-00000000-0000-0000-0000-0000000000{pci[9:11].lower()}"


class FakeNvml(types.ModuleType):
    """NVML with two cards, listed against the order of their PCI addresses, each with its own range and steps."""

    class NVMLError(Exception):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    class NVMLError_FunctionNotFound(NVMLError):
        pass

    class NVMLError_LibraryNotFound(NVMLError):
        pass

    class NVMLError_DriverNotLoaded(NVMLError):
        pass

    class NVMLError_GpuIsLost(NVMLError):
        pass

    class NVMLError_InvalidArgument(NVMLError):
        pass

    NVML_CLOCK_GRAPHICS, NVML_NVLINK_MAX_LINKS, NVML_P2P_CAPS_INDEX_NVLINK = 0, 18, 2

    def __init__(self) -> None:
        super().__init__("pynvml")
        idle = {"persistence": 0, "power": 700_000, "lock": 0}
        self.cards = {0: dict(idle, pci="00000000:43:00.0"), 1: dict(idle, pci="00000000:1B:00.0")}
        self.writes: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> object:
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetPciInfo": lambda card: types.SimpleNamespace(busId=card["pci"]),
            "nvmlSystemGetDriverVersion": lambda: "550.54.15",
            "nvmlDeviceGetName": lambda card: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUUID": lambda card: card.get("uuid") or uuid_of(card["pci"]),
            "nvmlDeviceGetMemoryAffinity": lambda card, size, scope: [1] + [0] * (size - 1),
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda card: 700_000,
            "nvmlDeviceGetPowerManagementLimitConstraints": lambda card: [200_000, 700_000],
            "nvmlDeviceGetComputeRunningProcesses": lambda card: [
                types.SimpleNamespace(pid=pid) for pid in card.get("pids", ())
            ],
            "nvmlDeviceGetMigMode": lambda card: [0, 0],
            "nvmlDeviceGetNvLinkState": self._link,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda card, link: types.SimpleNamespace(busId=card["links"][link]),
            "nvmlDeviceGetP2PStatus": lambda one, other, what: 0 if one.get("links") and other.get("links") else 5,
            "nvmlDeviceGetTopologyCommonAncestor": lambda one, other: 10 if one.get("behind") == other.get("behind", 0) else 50,
            "nvmlDeviceGetMemoryInfo": lambda card: types.SimpleNamespace(total=80 * 2**30),
            "nvmlDeviceGetPersistenceMode": lambda card: card["persistence"],
            "nvmlDeviceGetPowerManagementLimit": lambda card: card["power"],
            "nvmlDeviceGetClockInfo": lambda card, kind: card["lock"] or 345,
            "nvmlDeviceGetSupportedMemoryClocks": lambda card: [2619],
            "nvmlDeviceGetSupportedGraphicsClocks": lambda card, memory: list(range(210, 1981, 15)),
            "nvmlDeviceSetPersistenceMode": lambda card, value: self._set(card, "persistence", value),
            "nvmlDeviceSetPowerManagementLimit": lambda card, value: self._set(card, "power", value),
            "nvmlDeviceSetGpuLockedClocks": lambda card, least, most: self._set(card, "lock", least),
            "nvmlDeviceResetGpuLockedClocks": lambda card: self._set(card, "lock", 0),
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def _handle(self, index: int) -> dict[str, object]:
        if self.cards[index].get("lost"):
            raise self.NVMLError_GpuIsLost("GPU is lost")
        if self.cards[index].get("mute"):
            raise self.NVMLError("Unknown Error")
        return self.cards[index]

    def _link(self, card: dict[str, object], link: int) -> int:
        links = card.get("links")
        if not isinstance(links, list):
            raise self.NVMLError_NotSupported("Not Supported")
        if link >= len(links):
            raise self.NVMLError_InvalidArgument("Invalid Argument")
        return int(bool(links[link]))

    def _set(self, card: dict[str, object], field: str, value: object) -> None:
        self.writes.append((card["pci"], field, value))
        card[field] = value


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver with two cards in place of the machine's."""
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for `/` of a machine."""
    from swarm_node.machine.run import Context

    poke = Context.poke

    def kernel(self: Context, path: str, text: str) -> None:
        """Where the kernel lists all choices, it marks the one that is written, and takes no other."""
        listed = self.read(path) or ""
        words = listed.translate({ord(letter): None for letter in "[]"}).split()
        if "[" in listed and text not in words:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        poke(self, path, " ".join(f"[{one}]" if one == text else one for one in words) if "[" in listed else text)

    monkeypatch.setattr(Context, "poke", kernel)
    for path, text in {
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    yield tmp_path
