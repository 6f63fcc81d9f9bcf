"""What is this machine, whatever is wanted of it?"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..concerns import gpus, instances
from ..machine.run import Context
from . import links


def facts(context: Context, cards: gpus.Cards, unread: List[str]) -> Dict[str, Any]:
    """Facts. What a driver fails to tell of them is named in `unread`."""
    name = os.uname()
    memory = next((line for line in (context.read("/proc/meminfo") or "").splitlines() if line.startswith("MemTotal:")), "x 0")
    linked = links.peers(cards, unread)
    governors = context.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors") or ""
    return {
        "hostname": name.nodename,
        "kernel": name.release,
        "cpus": os.cpu_count() or 0,
        "memory": int(memory.split()[1]) * 1024,
        "numa": _numa(context),
        "gpus": [
            {**card.facts(unread), **instances.layout(card, unread), **linked.get(index, {})}
            for index, card in cards.by_index.items()
        ],
        "driver": cards.driver,
        "disks": _disks(context),
        "interfaces": _interfaces(context),
        "governors": governors.split(),
    }


def _numa(context: Context) -> Dict[str, str]:
    home = "/sys/devices/system/node"
    nodes = [name for name in context.names(home) if name.startswith("node") and name[4:].isdecimal()]
    return {name[4:]: context.read(f"{home}/{name}/cpulist") or "" for name in nodes}


def _disks(context: Context) -> Dict[str, int]:
    """Whole disks that are writable and either carry nothing that is mounted, or our own mount."""
    mounted = {line.split()[0]: line.split()[1] for line in (context.read("/proc/mounts") or "").splitlines() if line[0] == "/"}
    found = {}
    for name in context.names("/sys/block"):
        home = f"/sys/block/{name}"
        real = os.path.exists(context.path(f"{home}/device")) and context.read(f"{home}/ro") == "0"
        parts = [part for part in context.names(home) if part.startswith(name)]
        used = any(mounted.get(f"/dev/{part}", "/srv/swarm") != "/srv/swarm" for part in [name, *parts])
        if real and not used and not parts and not context.names(f"{home}/holders"):
            found[f"/dev/{name}"] = int(context.read(f"{home}/size") or 0) * 512
    root = next((line.split()[0] for line in (context.read("/proc/mounts") or "").splitlines() if line.split()[1] == "/"), "")
    if root == "/dev/root":
        found.pop(_device_of_root(), None)
    return found


def _device_of_root() -> str:
    number = os.stat("/").st_dev
    link = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    return "/dev/" + os.path.basename(os.path.realpath(link))


def _interfaces(context: Context) -> Dict[str, int]:
    found = {}
    for name in context.names("/sys/class/net"):
        if os.path.exists(context.path(f"/sys/class/net/{name}/device")):
            speed = context.read(f"/sys/class/net/{name}/speed") or "0"  # EINVAL while down, -1 when unknown [Mbit/s]
            found[name] = int(speed) * 10**6 if speed.isdecimal() else 0
    return found
