"""What may one allocation use of the machine's CPUs, memory, tasks and disk? A systemd slice, read back from its cgroup."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Optional, Set

from .. import device, shape
from ..machine import hugetlb, systemd
from ..machine.run import Change, Context, NodeError, differences, unit_name
from ..records import holdings
from . import devices, gpus, instances, loans

CGROUPS = loans.CGROUPS
#: The slice above all others.
ROOF = "swarm.slice"
#: Ceilings of the disk: in SliceState, for systemd, and in io.max.
DISK = (
    ("io_read_bps", "IOReadBandwidthMax", "rbps"), ("io_write_bps", "IOWriteBandwidthMax", "wbps"),
    ("io_read_iops", "IOReadIOPSMax", "riops"), ("io_write_iops", "IOWriteIOPSMax", "wiops"),
)  # fmt: skip
#: Huge pages, which systemd knows nothing of: in SliceState, and as the kernel's files begin.
PAGES = (("hugetlb_2m", "hugetlb.2MB"), ("hugetlb_1g", "hugetlb.1GB"))
#: Values that a record leaves out where there is none.
SILENT = ("io_read_iops", "io_write_iops", "memory_most", *(key for key, _ in PAGES))


def unit(allocation: str) -> str:
    """Name of the slice: swarm-ALLOC.slice with '-' escaped."""
    return unit_name(allocation) + ".slice"


def cgroup(allocation: str) -> str:
    """Folder of its cgroup."""
    return f"{CGROUPS}/{unit(allocation)}"


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make {slice: SliceState, gpus: [GPU]} so, live. NodeError when memory that is in use would have to be taken."""
    wanted: Dict[str, Any] = {
        key: value for key, value in {**dict.fromkeys(SILENT), **want["slice"]}.items() if key != devices.OPEN
    }
    found = read(context, allocation, wanted)
    path = f"allocations.{allocation}"
    changes = differences(f"{path}.slice", found or {}, wanted)
    held = context.ledger.get("allocations", allocation, "gpus") or want.get("gpus", ())
    opened, cards = devices.read(context, allocation, {"gpus": held}) if found else None, device.gpus(want.get("gpus", ()))
    if opened != [one.plain for one in cards]:
        changes += [{"path": f"{path}.gpus", "old": opened, "new": [one.plain for one in cards]}]
    text = render(context, allocation, want)
    # Before the file: whoever reloads systemd for another reason would apply it, and the kernel would kill.
    loans.make_room(context, allocation, wanted.get("memory_max"), wanted.get("memory_high"))
    roof = _protect(context, {allocation: wanted})
    written = context.write(f"{systemd.UNITS}/{unit(allocation)}", text) or roof
    if context.check or not (changes or written or found is None):
        if not context.check:
            loans.serve(context, {allocation: wanted})  # a step that was killed before its last act is done again
        return changes
    # A limit changed by hand in the cgroup alone is written again by any reload.
    systemd.settle(context, unit(allocation), force=found is not None or roof)
    if found is None:
        systemd.start(context, unit(allocation))
    hugetlb.limit(context, CGROUPS, cgroup(allocation), {name: wanted.get(key) for key, name in PAGES})
    loans.serve(context, {allocation: wanted})
    left = differences("", read(context, allocation, wanted) or {}, wanted)
    if left:
        words = ", ".join(f"{one['path'][1:]} is {one['old']}, not {one['new']}" for one in left)
        raise NodeError(f"{unit(allocation)} did not take it: {words}")
    return changes or differences(path, {}, {"slice": wanted})


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """The slice, and with it the devices that may be opened in it."""
    whole = _with_recorded(context, allocation, holdings.of(context, allocation, want))
    holdings.nobody_elses(context, allocation, whole)
    claimed = context.ledger.get("allocations", allocation, "slice") is not None
    before = device.gpus(context.ledger.get("allocations", allocation, "gpus") or ()) if claimed else []
    wanted = device.gpus(whole.get("gpus") or ())
    taken = [one for one in wanted if not _had(before, one)]
    gpus.vacant(context, {one.index: [unit(allocation), *_beside(context, allocation, one.index)] for one in taken})
    # Claimed before it is made, so that a run killed half-way leaves nothing that nobody knows of.
    holdings.claim(context, allocation, whole)
    part = {"slice": whole.get("slice") or {}, "gpus": list(whole.get("gpus") or ())}
    # First, for what it takes may lie there; and as long as the ledger says that it holds them, a run that is killed does it again.
    cut = instances.unmake(context, [one for one in [*before, *instances.unheld(context)] if one not in wanted])
    cut += instances.make(context, wanted)
    instances.whole(context, taken)
    limited = dict(part, slice=loans.granted(context, allocation, part["slice"]))
    changes = apply(context, allocation, limited) + devices.apply(context, allocation, part)
    context.ledger.record("allocations", allocation, "slice", value=part["slice"])
    context.ledger.record("allocations", allocation, "gpus", value=part["gpus"])
    return cut + changes


def _with_recorded(context: Context, allocation: str, wanted: Dict[str, Any]) -> Dict[str, Any]:
    """What a step leaves out stays as it is recorded, whatever was changed by hand: a recall names its memory alone."""
    if "gpus" in wanted:
        return wanted
    recorded = context.ledger.get("allocations", allocation) or {}
    if recorded.get("slice") is None:
        raise NodeError(f"{allocation} has no slice here of which the rest could stay as it is")
    own, was = wanted.get("slice") or {}, dict(recorded["slice"])
    if "memory_max" in own:  # a step leaves this out where there is none of it
        was.pop("memory_most", None)
    return dict(recorded, slice=dict(was, **own))


def _had(before: List[device.Device], one: device.Device) -> bool:
    """Had it that already, or more of it?"""
    same = (each for each in before if each.index == one.index)
    return one in before if one.profile else any(not each.profile and each.part >= one.part for each in same)


def _beside(context: Context, allocation: str, index: int) -> List[str]:
    """The slices of those that hold other parts of a GPU."""
    return [unit(name) for name in sorted(holdings.holders(context, allocation, index))]


STEPS = {"slice": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Make it again, and before it the MIG instances that it may use: a reboot takes them away."""
    instances.make(context, device.gpus(recorded.get("gpus") or ()))
    own = loans.granted(context, allocation, recorded["slice"])  # by hand, while others run
    apply(context, allocation, {"slice": own, "gpus": recorded.get("gpus") or []})


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{slice}."""
    found = read(context, allocation, recorded["slice"])
    if found and devices.wide(context, recorded.get("gpus") or []):
        found[devices.OPEN] = True
    return {"slice": found}


def render(context: Context, allocation: str, want: Dict[str, Any]) -> str:
    """The slice's unit file."""
    lines = [
        "# kept by swarm; changes by hand are undone",
        "[Unit]",
        systemd.setting("Description", "swarm", allocation),
        "",
        "[Slice]",
    ]
    lines += properties(want["slice"], str(context.ledger.get("disk") or ""), check=context.check)
    lines += devices.properties(context, list(want.get("gpus", ())))
    return "\n".join(lines) + "\n"


def properties(wanted: Dict[str, Any], disk: str, *, check: bool = False) -> List[str]:
    """SliceState as systemd's properties. NodeError when the disk is to be limited and there is none."""
    lines = []
    for key, name in (("cpus", "AllowedCPUs"), ("mems", "AllowedMemoryNodes")):
        if wanted.get(key):
            lines.append(f"{name}={_list(wanted[key])}")
    lines.append(f"CPUWeight={int(wanted.get('cpu_weight') or 100)}")
    if wanted.get("cpu_quota_m") is not None:
        lines.append(f"CPUQuota={int(wanted['cpu_quota_m']) // 10}.{int(wanted['cpu_quota_m']) % 10}%")
    for key, name in (("memory_low", "MemoryLow"), ("memory_high", "MemoryHigh"), ("memory_max", "MemoryMax"), ("swap_max", "MemorySwapMax"),
                      ("tasks_max", "TasksMax")):  # fmt: skip
        if wanted.get(key) is not None:
            lines.append(f"{name}={int(wanted[key])}")
    if wanted.get("io_weight") is not None:
        lines.append(f"IOWeight={int(wanted['io_weight'])}")
    for key, name, _ in DISK:
        if wanted.get(key) is not None:
            if not disk and check:
                continue  # its own step, which comes first, has not made it
            if not disk:
                raise NodeError("its disk throughput is to be limited, and no disk is managed on this node")
            lines.append(systemd.setting(name, disk, str(int(wanted[key]))))
    return lines


def _list(text: str) -> str:
    if not re.fullmatch(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", text):
        raise NodeError(f"{text!r} is no list such as 0-3,8")
    return text


def numbers(text: str) -> Set[int]:
    """'0-2,8' to {0, 1, 2, 8}."""
    found: Set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def _protect(context: Context, changed: Dict[str, Optional[Dict[str, Any]]]) -> bool:
    """Let the slice above all others protect what those in it are to have; True when that changed. `changed`: not yet recorded.

    What a cgroup is protected from counts only as far as the one above it is, so that one has the sum. It has no more: what
    nobody within claims is shared out by use, and would protect those who borrow.
    """
    total, file = _total(context, changed), f"{systemd.UNITS}/{ROOF}"
    if not total:
        return context.remove(file)
    lines = ["# kept by swarm; changes by hand are undone", "[Slice]", f"MemoryLow={total}"]
    return context.write(file, "\n".join(lines) + "\n")


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """SliceState from the kernel's own files, of the SliceState that is recorded; None when there is no such cgroup.

    Where a value is the recorded one but for the kernel's rounding (memory to pages, lists to its spelling), the
    recorded one is given.
    """
    folder = cgroup(allocation)
    if not os.path.isdir(context.path(folder)):
        return None
    was = recorded
    found: Dict[str, Any] = {}
    for key, file in (("cpus", "cpuset.cpus"), ("mems", "cpuset.mems")):
        text = context.read(f"{folder}/{file}") or ""
        same = numbers(text) == numbers(str(was.get(key) or ""))
        found[key] = was.get(key, "") if same else text
    found["cpu_weight"] = int(context.read(f"{folder}/cpu.weight") or 100)
    found["cpu_quota_m"] = quota(context.read(f"{folder}/cpu.max"))
    for key, file in (("memory_high", "memory.high"), ("memory_max", "memory.max"), ("swap_max", "memory.swap.max")):
        limit = context.read(f"{folder}/{file}")
        # Without the file the kernel has no such controller (no swap accounting): there is nothing to differ.
        found[key] = was.get(key) if limit is None else _paged(limit, was.get(key))
    found["memory_low"] = _protected(context, allocation, was.get("memory_low"))
    found.update(loans.as_recorded(context, allocation, was, found))
    found["tasks_max"] = _number(context.read(f"{folder}/pids.max"))
    limits = io_limits(context.read(f"{folder}/io.max"), device_number(str(context.ledger.get("disk") or "")))
    found.update((key, limits.get(word)) for key, _, word in DISK)
    found.update((key, hugetlb.read(context, folder, name, was.get(key))) for key, name in PAGES)
    # Nobody's weight is managed where nothing is declared of the disk; without the file the kernel knows none.
    weight = context.read(f"{folder}/io.weight") if was.get("io_weight") is not None else None
    found["io_weight"] = (
        was.get("io_weight") if weight is None else _number(weight.split("\n")[0].replace("default", "").strip())
    )
    return found


def _protected(context: Context, allocation: str, was: Optional[int]) -> Optional[int]:
    """memory.low, where the slice above has as much as all those in it together; None: nothing is protected."""
    own = _paged(context.read(f"{cgroup(allocation)}/memory.low") or "0", was)
    above = _number(context.read(f"{CGROUPS}/memory.low") or "0")
    return own or None if above is None or above >= _total(context, {allocation: {"memory_low": was}}) else None


def _total(context: Context, changed: Dict[str, Optional[Dict[str, Any]]]) -> int:
    """The sum of what is to be protected, in whole pages. `changed`: not recorded yet. A bent record counts nothing. [bytes]"""
    held = (context.ledger.get("allocations") or {}).items()
    recorded = {name: one.get("slice") if isinstance(one, dict) else None for name, one in held}
    lows = [one.get("memory_low") if isinstance(one, dict) else None for one in {**recorded, **changed}.values()]
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(low // page * page for low in lows if shape.natural(low))


def quota(text: Optional[str]) -> Optional[int]:
    """cpu.max ('QUOTA PERIOD' in microseconds) in thousandths of a CPU."""
    if not text or text.startswith("max"):
        return None
    spend, period = (int(word) for word in text.split())
    return round(spend * 1000 / period)


def _number(text: Optional[str]) -> Optional[int]:
    return None if text in (None, "", "max") else int(text or 0)


def _paged(text: str, was: Optional[int]) -> Optional[int]:
    found, page = _number(text), os.sysconf("SC_PAGE_SIZE")
    return was if found is not None and was is not None and was // page * page == found else found


def io_limits(text: Optional[str], device: str) -> Dict[str, int]:
    """Finite limits of one device ('8:0') in an io.max file."""
    for line in (text or "").splitlines():
        name, *pairs = line.split()
        if name == device:
            split = (pair.split("=") for pair in pairs)
            return {key: int(value) for key, value in split if value != "max"}
    return {}


def device_number(disk: str) -> str:
    """'MAJOR:MINOR' of a block device; empty when it is not there."""
    try:
        number = os.stat(disk).st_rdev
    except OSError:
        return ""
    return f"{os.major(number)}:{os.minor(number)}"


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """End whatever still runs in the slice, and remove it. NodeError when something cannot be ended."""
    folder, there = cgroup(allocation), os.path.isdir(context.path(cgroup(allocation)))
    if there:
        context.act(["systemctl", "stop", unit(allocation)], timeout=120)
        empty(context, folder)
    gone = systemd.drop_file(context, unit(allocation))
    roof = _protect(context, {allocation: None})
    if roof or gone:
        systemd.forget(context, unit(allocation), unit_name(allocation) + ".service", force=roof)
    cut = instances.unmake(context, device.gpus(recorded.get("gpus") or ()))
    slice_ = [{"path": f"allocations.{allocation}.slice", "old": recorded.get("slice"), "new": None}] if there or gone else []
    return slice_ + cut


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """The slice above all others goes, when nothing is left in it."""
    if os.path.isdir(context.path(CGROUPS)) and not processes(context, CGROUPS):
        context.act(["systemctl", "stop", os.path.basename(CGROUPS)], timeout=120)
    hugetlb.restore(context, CGROUPS)
    return []


def processes(context: Context, folder: str) -> List[int]:
    """Processes in a cgroup and below it."""
    found: List[int] = []
    for place, _, _ in os.walk(context.path(folder)):
        try:
            with open(os.path.join(place, "cgroup.procs"), encoding="ascii") as file:
                found += [int(line) for line in file]
        except OSError:
            continue
    return found


def empty(context: Context, folder: str, wait_s: float = 10) -> None:
    """Kill what is left in a cgroup, and see it gone. Nothing in check mode."""
    deadline = time.monotonic() + wait_s
    while not context.check and processes(context, folder):
        if time.monotonic() > deadline:
            raise NodeError(f"{folder}: processes {processes(context, folder)[:5]} cannot be ended")
        if os.path.exists(context.path(f"{folder}/cgroup.kill")):
            context.poke(f"{folder}/cgroup.kill", "1")
        time.sleep(0.1)
