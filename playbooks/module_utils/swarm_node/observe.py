"""What is this machine, and what is really set on what we manage here? JSON in the shape of Observed."""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

from . import boot, gpus, install, ledger, settings
from .run import Context, NodeError, unit_name

#: With less than this nothing of ours is sure to be written. [bytes]
_ROOM = 1 << 20
#: Whoever observes waits for 20 s in all. By then every workload has been asked, though the machine had just booted. [s]
_ASKED_S, _ASKED_LEAST_S = 12.0, 4.0
#: How long one that is asked for by hand may take. [s]
_ALONE_S = 60.0
_NO_UNIT = {"user": "", "active": False}


def watched(wait_s: float = 0, root: str = "/") -> Dict[str, Any]:
    """`observe`, ended when it hangs: by then whoever asked (for twice `wait_s`) still hears why."""
    from . import watch

    try:
        found: Dict[str, Any] = watch.apart(lambda: observe(root, wait_s), 1.6 * wait_s or _ALONE_S, grace=0)
        return found
    except NodeError as error:
        return {"agent": install.installed(root), "error": f"this machine cannot be read: {error}"}


def observe(root: str = "/", wait_s: float = 0) -> Dict[str, Any]:
    """Facts, ledger head, true state, health and what nobody recorded. `error` names what could not be read, `troubles`
    what is wrong with the machine although it could be read; `clock` is its own time. [s since 1970]

    `wait_s`: how long a machine that has just booted may take to finish what its boot unit puts right. [s]
    """
    began = time.monotonic()
    errors: List[str] = []
    lost: List[str] = []
    result: Dict[str, Any] = {"agent": install.installed(root)}
    try:
        book = ledger.load(root)
    except NodeError as error:
        return dict(result, error=str(error))
    context = Context(book, check=True, root=root)
    if wait_s:
        boot.wait(context, wait_s)
        book = ledger.load(root)
        context = Context(book, check=True, root=root)
    result["ledger"] = book.head()
    result["setbacks"] = book.data["setbacks"]
    try:
        with gpus.cards() as cards:
            lost = [gpus.fallen(index) for index in cards.lost]
            result["facts"] = facts(context, cards)
            result["state"] = _state(context, cards, errors)
    except NodeError as error:
        errors.append(str(error))
    result["health"] = _health(context, max(_ASKED_LEAST_S, _ASKED_S - (time.monotonic() - began)))
    result["started"], result["ends"] = _runs(context)
    result["booted"] = _booted(context)
    result["foreign"] = _foreign(context)
    result["troubles"] = lost + _unwritable(context)
    result["clock"] = time.time()
    if errors:
        result["error"] = "; ".join(errors)
    return result


def _unwritable(context: Context) -> List[str]:
    """Why the ledger could not be written here. Nothing is changed without it."""
    folder = os.path.dirname(ledger.LEDGER)
    place = context.path(folder)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    held = os.statvfs(place)
    if held.f_flag & os.ST_RDONLY:
        return [f"the file system of {folder} is read-only, so nothing can be changed here"]
    free = held.f_bavail * held.f_frsize
    if free < _ROOM:
        return [f"the file system of {folder} is full ({free >> 10} KiB free), so changes here may fail"]
    return []


def facts(context: Context, cards: gpus.Cards) -> Dict[str, Any]:
    """Facts: what the machine is, whatever is wanted of it."""
    name = os.uname()
    memory = next((line for line in (context.read("/proc/meminfo") or "").splitlines() if line.startswith("MemTotal:")), "x 0")
    governors = context.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors") or ""
    return {
        "hostname": name.nodename,
        "kernel": name.release,
        "cpus": os.cpu_count() or 0,
        "memory": int(memory.split()[1]) * 1024,
        "numa": _numa(context),
        "gpus": [card.facts() for card in cards.by_index.values()],
        "driver": cards.driver,
        "disks": _disks(context),
        "interfaces": _interfaces(context),
        "governors": governors.split(),
    }


def _list(context: Context, folder: str) -> List[str]:
    try:
        return sorted(os.listdir(context.path(folder)))
    except OSError:
        return []


def _numa(context: Context) -> Dict[str, str]:
    home = "/sys/devices/system/node"
    nodes = [name for name in _list(context, home) if name.startswith("node") and name[4:].isdigit()]
    return {name[4:]: context.read(f"{home}/{name}/cpulist") or "" for name in nodes}


def _disks(context: Context) -> Dict[str, int]:
    """Whole disks that are writable and either carry nothing that is mounted, or our own mount."""
    mounted = {line.split()[0]: line.split()[1] for line in (context.read("/proc/mounts") or "").splitlines() if line[0] == "/"}
    found = {}
    for name in _list(context, "/sys/block"):
        home = f"/sys/block/{name}"
        real = os.path.exists(context.path(f"{home}/device")) and context.read(f"{home}/ro") == "0"
        parts = [part for part in _list(context, home) if part.startswith(name)]
        used = any(mounted.get(f"/dev/{part}", "/srv/swarm") != "/srv/swarm" for part in [name, *parts])
        if real and not used and not parts and not _list(context, f"{home}/holders"):
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
    for name in _list(context, "/sys/class/net"):
        if os.path.exists(context.path(f"/sys/class/net/{name}/device")):
            speed = context.read(f"/sys/class/net/{name}/speed") or "0"  # EINVAL while down, -1 when unknown [Mbit/s]
            found[name] = int(speed) * 10**6 if speed.isdigit() else 0
    return found


def _state(context: Context, cards: gpus.Cards, errors: List[str]) -> Dict[str, Any]:
    """NodeState: the true value of everything that the ledger says we manage."""
    recorded = context.ledger.state

    def ask(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(context, *arguments)
        except (NodeError, OSError, ValueError) as error:
            errors.append(f"{what}: {error}")
            return None

    state: Dict[str, Any] = {"gpus": gpus.read(context, "", recorded.get("gpus") or {}, cards)}
    state["settings"] = ask("settings", settings.read, "", recorded.get("settings") or {}) or {}
    # What is not managed here is not imported: most of an observation's time is Python starting.
    if recorded.get("disk"):
        from . import storage

        state.update(ask("storage", storage.read, "", {"disk": recorded["disk"]}) or {})
    allocations = {name: _allocation(name, whole, ask) for name, whole in (recorded.get("allocations") or {}).items()}
    if recorded.get("interface"):
        from . import traffic

        classes = {name: whole.get("bandwidth") or {} for name, whole in (recorded.get("allocations") or {}).items()}
        want = {key: recorded.get(key) for key in ("interface", "interface_bps")}
        found = ask("traffic", traffic.read, "", dict(want, allocations=classes)) or {}
        for name, bandwidth in (found.pop("allocations", None) or {}).items():
            if name in allocations:
                allocations[name]["bandwidth"] = bandwidth
        state.update(found)
    state["allocations"] = allocations
    return state


def _allocation(name: str, recorded: Dict[str, Any], ask: Callable[..., Any]) -> Dict[str, Any]:
    from . import devices, directories, slices, units

    found: Dict[str, Any] = {"workload": recorded["workload"], "gpus": recorded.get("gpus") or []}
    if recorded.get("slice") is not None:
        found["slice"] = ask(f"{name}: slice", slices.read, name, recorded["slice"])
        opened = ask(f"{name}: devices", devices.read, name, recorded)
        found["gpus"] = opened if opened is not None else found["gpus"]
        if found["slice"] and ask(f"{name}: devices", devices.wide, recorded.get("gpus") or []):
            found["slice"][devices.OPEN] = True
    folders = {kind: recorded[kind] for kind in ("scratch", "cache") if recorded.get(kind)}
    if folders:
        found.update(ask(f"{name}: directories", directories.read, name, folders) or {})
    unit = ask(f"{name}: unit", units.read, name, recorded["unit"]) if recorded.get("unit") else None
    found["unit"] = unit or _NO_UNIT
    return {key: value for key, value in found.items() if value is not None}


def _health(context: Context, seconds: float) -> Dict[str, str]:
    """How each allocation is. What cannot be told of one within `seconds` is `unknown`, and costs the others nothing."""
    allocations = context.ledger.get("allocations") or {}
    if not allocations:
        return {}
    from . import probes, units

    found: Dict[str, str] = {}
    checks: Dict[str, Callable[[float], str]] = {}
    for name, whole in allocations.items():
        try:
            unit = whole.get("unit") or {}
            found[name] = units.health_of(context, name, {**unit, "healthy": ""}) if unit else "stopped"
            if found[name] == "healthy" and unit.get("healthy"):
                checks[name] = partial(_probe, context, name, unit)
        except Exception:
            found[name] = "unknown"
    return {**found, **(probes.ask(checks, seconds) if checks else {})}


def _probe(context: Context, name: str, unit: Dict[str, Any], seconds: float) -> str:
    from . import units

    return units.probe(context, name, unit, most=seconds)


def _runs(context: Context) -> Tuple[Dict[str, int], Dict[str, str]]:
    """Of each allocation that runs when it began [s since 1970], and of each that ended systemd's word for how."""
    allocations = context.ledger.get("allocations") or {}
    if not allocations:
        return {}, {}
    from . import lives, units

    began: Dict[str, int] = {}
    for name in allocations:
        with contextlib.suppress(NodeError, OSError, ValueError):  # who cannot be asked is not known to run
            moment = units.started(context, name)
            began.update({name: moment} if moment is not None else {})
    words = {name: lives.word_of(context, name) for name in allocations}
    return began, {name: word for name, word in words.items() if word}


def _booted(context: Context) -> int:
    """When a machine booted on which something has waited since for a run; 0 when nothing waits. [s since 1970]"""
    from . import lives

    return max((lives.waits(context, name) for name in context.ledger.get("allocations") or {}), default=0)


def _foreign(context: Context) -> List[str]:
    """Units and slices that bear our prefix and are in no ledger."""
    ours = {unit_name(name) for name in context.ledger.get("allocations") or {}} | {"swarm-boot", "swarm"}
    if not context.ledger.head():
        ours.discard("swarm-boot")
    found = set()
    for home in ("/etc/systemd/system", "/sys/fs/cgroup/swarm.slice"):
        for name in _list(context, home):
            stem, kind = os.path.splitext(name)
            if name.startswith("swarm-") and kind in (".service", ".slice") and stem not in ours:
                found.add(name)
    return sorted(found)
