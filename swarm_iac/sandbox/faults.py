"""Which misfortunes can befall a node, and how is each caused?

power-off | power-on | reboot     the machine
dark | light                      both networks are cut; the node runs on, unseen
slow MS                           every answer of the node to this host takes MS milliseconds longer
nvml-error GPU CALL CODE          the NVML call answers CODE for this GPU ('*': every GPU)
gpu-lost GPU                      the card has fallen off the bus
gpu-busy GPU PID MIB              a process computes on the card
clear                             end all of them, except that a machine without power stays so
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from swarm_iac.sandbox.failure import SandboxError
from swarm_iac.sandbox.spec import Say

_FOLDER = "/run/swarm-nvml"
#: Short names of the calls that a change makes; any full name of NVML's serves as well.
CALLS = {
    "set-power": "nvmlDeviceSetPowerManagementLimit",
    "get-power": "nvmlDeviceGetPowerManagementLimit",
    "set-clocks": "nvmlDeviceSetGpuLockedClocks",
    "reset-clocks": "nvmlDeviceResetGpuLockedClocks",
    "set-memory-clocks": "nvmlDeviceSetMemoryLockedClocks",
    "get-clock": "nvmlDeviceGetClockInfo",
    "set-persistence": "nvmlDeviceSetPersistenceMode",
    "get-handle": "nvmlDeviceGetHandleByIndex_v2",
}


class Fleet(Protocol):
    """What a fault needs of the sandbox."""

    def power_off(self, node: str) -> None: ...
    def power_on(self, node: str, say: Say) -> None: ...
    def reboot(self, node: str, say: Say) -> None: ...
    def link(self, node: str, up: bool) -> None: ...
    def run(self, node: str, command: str, seconds: float = 60) -> str: ...


def _write(fleet: Fleet, node: str, name: str, line: str) -> None:
    fleet.run(node, f"mkdir -p {_FOLDER} && echo '{line}' >> {_FOLDER}/{name}")


def _slow(fleet: Fleet, node: str, delay: str) -> None:
    fleet.run(node, f"tc qdisc replace dev eth0 root netem delay {int(delay)}ms")


def _nvml_error(fleet: Fleet, node: str, gpu: str, call: str, code: str) -> None:
    function = CALLS.get(call, call)
    if not re.fullmatch(r"nvml\w+", function):
        raise SandboxError(f"unknown NVML call {call}", f"short names: {', '.join(CALLS)}")
    _write(fleet, node, "faults", f"error {function} {_gpu(gpu)} {int(code)}")


def _gpu(which: str) -> str:
    return which if which == "*" else str(int(which))


def _clear(fleet: Fleet, node: str) -> None:
    fleet.link(node, True)
    fleet.run(node, f"rm -f {_FOLDER}/faults {_FOLDER}/processes; tc qdisc del dev eth0 root 2>/dev/null || true")


def cause(fleet: Fleet, node: str, name: str, args: tuple[str, ...], say: Say) -> None:
    """Cause the fault `name` on `node`."""
    ways: dict[str, tuple[int, Callable[..., None]]] = {
        "power-off": (0, lambda: fleet.power_off(node)),
        "power-on": (0, lambda: fleet.power_on(node, say)),
        "reboot": (0, lambda: fleet.reboot(node, say)),
        "dark": (0, lambda: fleet.link(node, False)),
        "light": (0, lambda: fleet.link(node, True)),
        "slow": (1, lambda delay: _slow(fleet, node, delay)),
        "nvml-error": (3, lambda gpu, call, code: _nvml_error(fleet, node, gpu, call, code)),
        "gpu-lost": (1, lambda gpu: _write(fleet, node, "faults", f"lost {_gpu(gpu)}")),
        "gpu-busy": (3, lambda gpu, pid, mib: _write(fleet, node, "processes", f"{_gpu(gpu)} {int(pid)} {int(mib)}")),
        "clear": (0, lambda: _clear(fleet, node)),
    }
    if name not in ways:
        raise SandboxError(f"unknown fault {name}", f"faults: {', '.join(ways)}")
    wanted, way = ways[name]
    if len(args) != wanted:
        raise SandboxError(f"fault {name} takes {wanted} arguments, not {len(args)}")
    try:
        way(*args)
    except ValueError as error:
        raise SandboxError(f"fault {name}: {error}") from None
    say(f"{node}: {' '.join((name, *args))}")
