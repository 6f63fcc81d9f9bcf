"""Which faults can be injected into a node, and how?

power-off | power-on | reboot     the machine
unreachable | reachable           both networks are cut; the node keeps running
slow MS                           every answer of the node to this host takes MS milliseconds longer
ssh-drop                          every ssh session is cut; the next one is served
disk-full                         no byte is left on the root file system
read-only                         every disk is read-only, as the kernel makes it after an error
clock SECONDS                     the clock is that far ahead of this host's (behind, if negative)
nvml-error GPU CALL CODE          the NVML call answers CODE for this GPU ('*': every GPU)
gpu-lost GPU                      the card has fallen off the bus
link-down GPU                     all NVLink links of the card are down
gpu-busy GPU PID MIB              a process computes on the card
clear                             clear all of them; a machine without power stays off
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Protocol

from swarm_iac.pluralize import pluralize
from swarm_iac.sandbox.spec import Say
from swarm_iac.sandbox.tool import SandboxError

_FOLDER = "/run/swarm-nvml"
_FILL = "/var/swarm-sandbox-fill"
#: How far a node's clock may drift by itself, since emulation is slow at times. [s]
_CLOCK_OFF = 30
#: Short names of the calls that a change makes; full NVML names work as well.
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


class SandboxFleet(Protocol):
    """What a fault needs of the sandbox."""

    def power_off(self, node: str) -> None: ...
    def power_on(self, node: str, say: Say) -> None: ...
    def reboot(self, node: str, say: Say) -> None: ...
    def link(self, node: str, up: bool) -> None: ...
    def run(self, node: str, command: str, seconds: float = 60) -> str: ...


def _write(fleet: SandboxFleet, node: str, name: str, line: str) -> None:
    fleet.run(node, f"mkdir -p {_FOLDER} && echo '{line}' >> {_FOLDER}/{name}")


def _slow(fleet: SandboxFleet, node: str, delay: str) -> None:
    fleet.run(node, f"tc qdisc replace dev eth0 root netem delay {int(delay)}ms")


def _ssh_drop(fleet: SandboxFleet, node: str) -> None:
    # Run by systemd, because this session is killed as well; the listener is not.
    fleet.run(node, "systemd-run -q --collect sh -c 'sleep 0.3; pkill -KILL -f \"^sshd: root\"'")


def _disk_full(fleet: SandboxFleet, node: str) -> None:
    # Other programs free or write a few blocks meanwhile; twice, so that these are taken too.
    take = f"fallocate -l $(df -B1 --output=avail / | tail -1) {_FILL}"
    fleet.run(node, f"{take}; cat /dev/zero >> {_FILL} 2>/dev/null; sync; [ $(df --output=avail / | tail -1) -lt 256 ]")


def _read_only(fleet: SandboxFleet, node: str) -> None:
    # The kernel's own way. `mount -o remount,ro` refuses while anything is open for writing.
    fleet.run(node, "sync; echo u > /proc/sysrq-trigger; until ! touch /var/lib 2>/dev/null; do sleep 0.2; done")


def _clock(fleet: SandboxFleet, node: str, seconds: str) -> None:
    fleet.run(node, f"date -s @{time.time() + int(seconds):.0f}")


def _nvml_error(fleet: SandboxFleet, node: str, gpu: str, call: str, code: str) -> None:
    function = CALLS.get(call, call)
    if not re.fullmatch(r"nvml\w+", function):
        raise SandboxError(f"unknown NVML call {call}", f"short names: {', '.join(CALLS)}")
    _write(fleet, node, "faults", f"error {function} {_gpu(gpu)} {int(code)}")


def _gpu(which: str) -> str:
    return which if which == "*" else str(int(which))


def _clear(fleet: SandboxFleet, node: str) -> None:
    fleet.link(node, True)
    # Files last: they cannot be removed from a disk that is read-only.
    writable = "for disk in / /srv/swarm; do mountpoint -q $disk && mount -o remount,rw $disk; done"
    fleet.run(node, f"tc qdisc del dev eth0 root 2>/dev/null; {writable}; rm -f {_FOLDER}/faults {_FOLDER}/processes {_FILL}")
    if abs(float(fleet.run(node, "date +%s.%N")) - time.time()) > _CLOCK_OFF:
        _clock(fleet, node, "0")


def cause(fleet: SandboxFleet, node: str, name: str, args: tuple[str, ...], say: Say) -> None:
    """Inject the fault `name` into `node`."""
    ways: dict[str, tuple[int, Callable[..., None]]] = {
        "power-off": (0, lambda: fleet.power_off(node)),
        "power-on": (0, lambda: fleet.power_on(node, say)),
        "reboot": (0, lambda: fleet.reboot(node, say)),
        "unreachable": (0, lambda: fleet.link(node, False)),
        "reachable": (0, lambda: fleet.link(node, True)),
        "ssh-drop": (0, lambda: _ssh_drop(fleet, node)),
        "disk-full": (0, lambda: _disk_full(fleet, node)),
        "read-only": (0, lambda: _read_only(fleet, node)),
        "clock": (1, lambda seconds: _clock(fleet, node, seconds)),
        "slow": (1, lambda delay: _slow(fleet, node, delay)),
        "nvml-error": (3, lambda gpu, call, code: _nvml_error(fleet, node, gpu, call, code)),
        "gpu-lost": (1, lambda gpu: _write(fleet, node, "faults", f"lost {_gpu(gpu)}")),
        "link-down": (1, lambda gpu: _write(fleet, node, "faults", f"unlinked {_gpu(gpu)}")),
        "gpu-busy": (3, lambda gpu, pid, mib: _write(fleet, node, "processes", f"{_gpu(gpu)} {int(pid)} {int(mib)}")),
        "clear": (0, lambda: _clear(fleet, node)),
    }
    if name not in ways:
        raise SandboxError(f"unknown fault {name}", f"faults: {', '.join(ways)}")
    wanted, way = ways[name]
    if len(args) != wanted:
        raise SandboxError(f"fault {name} takes {pluralize(wanted, 'argument')}, not {len(args)}")
    try:
        way(*args)
    except ValueError as error:
        raise SandboxError(f"fault {name}: {error}") from None
    say(f"{node}: {' '.join((name, *args))}")
