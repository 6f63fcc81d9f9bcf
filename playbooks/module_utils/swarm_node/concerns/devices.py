"""Who may open which GPU? An allocation's slice its own; everything outside all slices none."""

from __future__ import annotations

import glob
import grp
import os
import re
import stat
from typing import Any, Dict, List, Set, Tuple

from .. import device
from ..machine import systemd
from ..machine.run import Change, Context, NodeError, unit_name
from . import instances

GROUP = "swarm-gpu"
#: How SliceState calls it when the files of its cards are wider than `protect` leaves them.
OPEN = "gpus_open"
#: What CUDA needs beside the cards.
CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
#: Where the files of MIG instances begin.
CAPS = "/dev/nvidia-caps/"
#: The driver's own files; also loaded when it makes its device files anew.
MODPROBE = "/etc/modprobe.d/swarm-gpu.conf"
TMPFILES = "/etc/tmpfiles.d/swarm-gpu.conf"
USERS = f"{systemd.UNITS}/user-.slice.d/50-swarm.conf"
ROOT_USER = f"{systemd.UNITS}/user-0.slice.d/60-swarm.conf"


def node_of(context: Context, index: int) -> str:
    """Device file of a GPU, by our index (the order of PCI addresses). The driver numbers its files as it likes."""
    pci = str(context.ledger.data.get("gpus_pci", {}).get(str(index)) or "")
    text = context.read(f"/proc/driver/nvidia/gpus/{pci[-12:]}/information") if pci else None
    minor = re.search(r"^Device Minor:\s*([0-9]+)", text or "", re.MULTILINE)
    return f"/dev/nvidia{minor[1] if minor else int(index)}"


def properties(context: Context, gpus: List[device.Plain]) -> List[str]:
    """systemd's properties for a slice or a service that holds these GPUs, or parts of them."""
    lines = ["DevicePolicy=closed"]
    if gpus:
        lines += [systemd.setting("DeviceAllow", node_of(context, index), "rw") for index in device.cards(gpus)]
        files = sorted({path for one in device.gpus(gpus) for path in instances.known(context, one).get("files", ())})
        lines += [systemd.setting("DeviceAllow", path, "r") for path in files]
        lines += [systemd.setting("DeviceAllow", path, "rw") for path in CONTROL]
    return lines


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Close the GPUs to everything outside the slices. (An allocation's own rights stand in its slice's file.)"""
    for index in device.cards(want.get("gpus", ())):
        if not os.path.exists(context.path(node_of(context, index))):
            raise NodeError(f"{node_of(context, index)} of gpu {index} is not there")
    return protect(context)


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Close them again: the driver made its files anew."""
    if recorded.get("slice") is not None:
        apply(context, allocation, {"gpus": recorded["gpus"]})


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{gpus}; without a slice nothing is closed, and what is recorded stands."""
    return {"gpus": read(context, allocation, recorded, else_recorded=True)} if recorded.get("slice") is not None else {}


def protect(context: Context) -> List[Change]:
    """Device files for root and the group alone, now and when the driver makes them anew; users' sessions without."""
    cards = [*_files(context), *_capabilities(context)]
    if not cards:
        return []
    changes: List[Change] = []
    gid = group(context)
    for path in cards:
        found = os.stat(context.path(path))
        if (found.st_gid, stat.S_IMODE(found.st_mode)) != (gid, 0o660):
            context.ledger.save_original(f"device:{path}", [found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)])
            changes.append({"path": f"devices.{path}", "old": f"{stat.S_IMODE(found.st_mode):04o}", "new": "0660"})
            if not context.check:
                context.ledger.confirm()
                os.chown(context.path(path), 0, gid)
                os.chmod(context.path(path), 0o660)
    context.write(MODPROBE, f"options nvidia NVreg_DeviceFileUID=0 NVreg_DeviceFileGID={gid} NVreg_DeviceFileMode=0660\n")
    # Not the folder /dev/nvidia-caps, which everybody has to get through to their own files.
    context.write(TMPFILES, f"z /dev/nvidia[!-]* 0660 root {GROUP}\nz /dev/nvidia-[!c]* 0660 root {GROUP}\n")
    written = context.write(USERS, user_policy(context.read("/proc/devices") or ""))
    # Root's own sessions administer the machine (this program comes over ssh): they keep every device.
    written = context.write(ROOT_USER, "[Slice]\nDevicePolicy=auto\nDeviceAllow=\n") or written
    if written:
        context.act(["systemctl", "daemon-reload"], timeout=120)
    return changes


def user_policy(proc_devices: str) -> str:
    """Users' sessions may have every kind of device but the GPUs; systemd can allow only, so all others are named."""
    lines, kind = ["# kept by swarm: no GPU outside the allocations' slices", "[Slice]", "DevicePolicy=closed"], ""
    for line in proc_devices.splitlines():
        if line.endswith("devices:"):
            kind = "char" if line.startswith("Character") else "block"
        match = re.fullmatch(r"\s*[0-9]+ ([A-Za-z0-9_.-]+)", line)
        if match and not match[1].startswith("nvidia"):
            lines.append(f"DeviceAllow={kind}-{match[1]} rwm")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _files(context: Context) -> List[str]:
    prefix = "" if context.root == "/" else context.root
    found = [path[len(prefix) :] for path in sorted(glob.glob(context.path("/dev/nvidia*")))]
    return [path for path in found if stat.S_ISCHR(os.stat(context.path(path)).st_mode)]


def _capabilities(context: Context) -> List[str]:
    """The files of the MIG instances that allocations hold."""
    found = {path for one in context.ledger.instances().values() for path in one.get("files", ())}
    return [
        path
        for path in sorted(found)
        if os.path.exists(context.path(path)) and stat.S_ISCHR(os.stat(context.path(path)).st_mode)
    ]


def group(context: Context) -> int:
    """Number of the group that may open the cards, made where it is missing."""
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        context.ledger.save_original("group", "absent")
        context.act(["groupadd", "--system", GROUP])
        return -1 if context.check else grp.getgrnam(GROUP).gr_gid


def read(context: Context, allocation: str, recorded: Dict[str, Any], *, else_recorded: bool = False) -> List[device.Plain]:
    """The cards that its slice may open; the kernel's own rules cannot be read back, so systemd's.

    A device file is open or not, so a card that is recorded as held in part reads as that part; any other is whole. A
    slice that is not closed reads as every card of the machine: that is the truth. A MIG instance is read where it is, its
    files may be opened, and those of no other are. `else_recorded`: see `instances.live`.
    """
    held = device.gpus(recorded.get("gpus") or ())
    cut = {one.index for one in held if one.profile}
    parts = {one.index: one.part for one in held if not one.profile}
    cards, files = _open(context, allocation)
    found = [device.Device("gpu", index, parts.get(index, device.WHOLE)) for index in cards if index not in cut]
    mine = [one for one in held if one.profile and one.index in cards]
    there = instances.live(context, else_recorded=else_recorded) if mine else {}
    known = {one: instances.known(context, one) for one in mine}
    whole = [
        one for one in mine
        if known[one].get("uuid") and there.get((one.index, one.start, one.size)) == known[one]["uuid"]
        if files.issuperset(known[one].get("files", ()))
    ]  # fmt: skip
    if files - {path for each in known.values() for path in each.get("files", ())}:
        whole = []  # it may open what is another's
    return [one.plain for one in sorted((*found, *whole))]


def _open(context: Context, allocation: str) -> Tuple[List[int], Set[str]]:
    """The cards, and the files of MIG instances."""
    shown = systemd.show(context, unit_name(allocation) + ".slice")
    cards = [path for path in _files(context) if re.fullmatch(r"/dev/nvidia[0-9]+", path)]
    index_of = {node_of(context, number): number for number in range(len(cards))}
    if shown.get("DevicePolicy") not in ("closed", "strict"):
        return sorted(index_of.values()), set()
    allowed = [line.split()[0] for line in shown.get("DeviceAllow", "").splitlines() if line.strip()]
    files = {path for path in allowed if path.startswith(CAPS)}
    return sorted(index_of[path] for path in allowed if path in index_of), files


def wide(context: Context, gpus: List[device.Plain]) -> bool:
    """Could others than root and the slices open one of these cards? The driver's own tools may set the modes anew."""
    try:
        group = grp.getgrnam(GROUP).gr_gid
    except KeyError:
        group = -1
    for index in device.cards(gpus):
        try:
            seen = os.stat(context.path(node_of(context, index)))
        except OSError:
            continue
        if not stat.S_ISCHR(seen.st_mode):
            continue  # `protect` leaves it alone too
        if seen.st_mode & 0o007 or seen.st_uid or (seen.st_mode & 0o070 and seen.st_gid not in (0, group)):
            return True
    return False


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Device files, group and files as they were."""
    changes: List[Change] = []
    for path, (uid, gid, mode) in context.ledger.originals("device:").items():
        if os.path.exists(context.path(path)):
            changes.append({"path": f"devices.{path}", "old": "0660", "new": f"{mode:04o}"})
            if not context.check:
                context.ledger.confirm()
                os.chown(context.path(path), uid, gid)
                os.chmod(context.path(path), mode)
        context.ledger.forget_original(f"device:{path}")
    gone = [context.remove(path) for path in (MODPROBE, TMPFILES, USERS, ROOT_USER)]
    if any(gone):
        for path in (USERS, ROOT_USER):
            context.remove_folder(os.path.dirname(path))
        context.act(["systemctl", "daemon-reload"], timeout=120)
    if context.ledger.has_original("group"):
        context.act(["groupdel", GROUP], ok=(0, 6))
        context.ledger.forget_original("group")
    return changes
