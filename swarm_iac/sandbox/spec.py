"""Which nodes does the virtual fleet have, and what is in each?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]

#: Names of this folder's GPUs stay the same from one sandbox to the next, as stack files may name them.
_NAMESPACE = uuid.UUID("6f9b2a0e-3c51-5d2b-9e57-5a1c0b7d4e21")
_BUSES = {
    "H100": (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF),
    "L40S": (0x21, 0x41, 0x81, 0xA1),
}
_NUMA_NODES = 2


def silent(_line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class NodeSpec:
    """One virtual machine; `number` (1..99) makes its port and addresses, `memory` is in MiB."""

    name: str
    number: int
    gpu_model: str
    gpus: int
    vcpus: int = 4
    memory: int = 2048

    @property
    def address(self) -> str:
        """Its address on the fleet's own network."""
        return f"192.168.77.{10 + self.number}"

    def inventory(self) -> str:
        """The stand-in's list of cards: `INDEX MODEL BUS_ID UUID NUMA_NODE`, the first half on the first NUMA node."""
        half = max(1, self.gpus // _NUMA_NODES)
        rows = [
            f"{i} {self.gpu_model} 00000000:{bus:02X}:00.0 GPU-{uuid.uuid5(_NAMESPACE, f'{self.name}/{i}')}"
            f" {min(i // half, _NUMA_NODES - 1)}"
            for i, bus in enumerate(_BUSES[self.gpu_model][: self.gpus])
        ]
        return "\n".join(rows) + "\n"


DEFAULT_NODES = (
    NodeSpec("gpu-01", 1, "H100", 8),
    NodeSpec("gpu-02", 2, "H100", 8),
    NodeSpec("gpu-03", 3, "L40S", 4),
)
DEFAULT_BASE_PORT = 2200
