"""Which disk holds scratch and caches? A blank one becomes XFS with project quotas; any other is never formatted."""

from __future__ import annotations

import os
import stat
import uuid
from typing import Any, BinaryIO, Dict, List, Optional

from ..machine.run import Change, Context, NodeError, change
from ..machine.systemd import setting

MOUNT = "/srv/swarm"
UNIT = "/etc/systemd/system/srv-swarm.mount"
#: A disk counts as blank when no tool knows a signature on it and these parts hold nothing but zeros.
_HEAD, _TAIL, _SAMPLE, _SAMPLES = 4 << 20, 1 << 20, 4096, 64


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Mount {disk} at MOUNT, formatted when blank. An empty disk gives it back. NodeError when it holds anything else."""
    disk, found = str(want.get("disk") or ""), read(context, "", {"disk": want.get("disk")})["disk"]
    if found == disk:
        return []
    changes = [change("disk", found or None, disk or None)]
    if disk:
        _usable(context, disk)  # before the old one is given back, with all that is on it
    if found or not disk:
        changes = restore(context, "", {"disk": found}) or changes
    if not disk:
        return changes
    identity = _format(context, disk)
    context.write(UNIT, _render(identity))
    if not context.check:
        os.makedirs(MOUNT, exist_ok=True)
        context.act(["systemctl", "daemon-reload"], timeout=120)
        context.act(["udevadm", "settle", "--timeout=20"], ok=(0, 1))
        context.act(["systemctl", "enable", "--now", os.path.basename(UNIT)], timeout=180)
        os.chmod(MOUNT, 0o755)
        if read(context, "", want)["disk"] != disk:
            raise NodeError(f"{MOUNT} did not become {disk}")
    return changes


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    disk = want.get("disk")
    if disk:
        changes = apply(context, allocation, {"disk": disk})
    else:
        changes = restore(context, "", {"disk": context.ledger.get("disk") or ""})
    context.ledger.record("disk", value=disk or None)
    return changes


STEPS = {"storage": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Mount it again."""
    if recorded["disk"]:
        apply(context, "", {"disk": recorded["disk"]})


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, str]:
    """{disk}."""
    return read(context, "", {"disk": recorded["disk"]}) if recorded["disk"] else {}


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, str]:
    """{disk}: what is mounted at MOUNT with project quotas; empty when nothing is. Spelled as recorded when it is that."""
    device = mounted(context)
    was = str(recorded.get("disk") or "")
    return {"disk": was if device and was and os.path.realpath(was) == os.path.realpath(device) else device}


def mounted(context: Context) -> str:
    """Device at MOUNT, when it is XFS that enforces project quotas; else empty."""
    for line in (context.read("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        kind, device, options = [*right.split(" "), "", "", ""][:3]
        if left.split(" ")[4] == MOUNT and kind == "xfs" and "prjquota" in options.split(","):
            return device
    return ""


def _render(identity: str) -> str:
    return ("# kept by swarm\n[Unit]\nDescription=swarm scratch and caches\n\n[Mount]\n"
            f"{setting('What', f'/dev/disk/by-uuid/{identity}')}\nWhere={MOUNT}\n"
            "Type=xfs\nOptions=prjquota,nosuid,nodev,noatime\n\n[Install]\nWantedBy=multi-user.target\n")  # fmt: skip


def _usable(context: Context, disk: str) -> str:
    """UUID of our file system on the disk; empty when it is blank. NodeError when it holds anything else."""
    known = str(context.ledger.original(f"disk:{disk}") or "")
    if not os.path.exists(disk) or not stat.S_ISBLK(os.stat(disk).st_mode):
        raise NodeError(f"{disk} is no block device of this machine")
    _unused(context, disk)
    seen = _signature(context, disk)
    if known and seen.get("UUID") == known and seen.get("TYPE") == "xfs":
        return known
    trouble = not_blank(context, disk)
    if trouble and not _half_made(context, disk, seen):
        raise NodeError(f"{disk} is not blank ({trouble}); it is never formatted. To give it away: blkdiscard -z {disk}")
    return ""


def _format(context: Context, disk: str) -> str:
    """UUID of our file system on the disk, made when it is blank."""
    there = _usable(context, disk)
    if there:
        return there
    identity = context.ledger.original(f"disk:{disk}") or str(uuid.uuid4())
    context.ledger.save_original(f"disk:{disk}", identity)
    context.ledger.save_original(f"making:{disk}", _piece(context, disk))
    context.act(["mkfs.xfs", "-q", "-f", "-L", "swarm", "-m", f"uuid={identity}", disk], timeout=600)
    context.ledger.forget_original(f"making:{disk}")
    return str(identity)


def _half_made(context: Context, disk: str, seen: Dict[str, str]) -> bool:
    """Is this what a killed run of ours left? Only on the very piece of hardware, with nothing on it that has a name.

    The name alone says little: after a reboot or a repair another disk may bear it.
    """
    begun = context.ledger.original(f"making:{disk}")
    return bool(begun) and begun == _piece(context, disk) and not (seen.get("TYPE") or seen.get("PTTYPE"))


def _piece(context: Context, disk: str) -> List[str]:
    """What tells this piece of hardware from others: size and, where it has them, serial number and world-wide name."""
    home = f"/sys/class/block/{os.path.basename(os.path.realpath(disk))}"
    return [context.read(f"{home}/{name}") or "" for name in ("size", "serial", "device/serial", "wwid", "device/wwid")]


def _unused(context: Context, disk: str) -> None:
    real = os.path.realpath(disk)
    for line in (context.read("/proc/self/mounts") or "").splitlines() + (context.read("/proc/swaps") or "").splitlines():
        if os.path.realpath(line.split()[0]) == real:
            raise NodeError(f"{disk} is in use: {line[:80]}")
    home = f"/sys/class/block/{os.path.basename(real)}"
    holders = f"{home}/holders"
    parts = [child for child in os.listdir(home) if os.path.exists(f"{home}/{child}/partition")]
    if parts or (os.path.isdir(holders) and os.listdir(holders)):
        raise NodeError(f"{disk} is in use: it has partitions or is part of another device ({', '.join(parts) or 'holders'})")


def _signature(context: Context, disk: str) -> Dict[str, str]:
    text = context.run(["blkid", "-p", "-o", "export", disk], ok=(0, 2, 8))
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def not_blank(context: Context, disk: str) -> str:
    """Why a disk is not blank; empty when it is."""
    seen = _signature(context, disk)
    kind = seen.get("TYPE") or seen.get("PTTYPE")
    if kind:
        return f"it carries {kind}" + (f" labelled {seen['LABEL']}" if seen.get("LABEL") else "")
    if context.run(["wipefs", "--noheadings", disk]).strip():
        return "it carries a signature"
    with open(disk, "rb") as file:
        place = dirty(file)
    return "" if place is None else f"bytes that are not zero near {place}"


def places(size: int) -> List[range]:
    """Which bytes are looked at: head, tail, and samples between."""
    step = max(size // (_SAMPLES + 1), 1)
    spots = [range(0, min(_HEAD, size)), range(max(size - _TAIL, 0), size)]
    return spots + [range(at, min(at + _SAMPLE, size)) for at in range(step, size, step)]


def dirty(file: BinaryIO) -> Optional[int]:
    """Start of the first of those places that holds anything but zeros."""
    for spot in places(file.seek(0, os.SEEK_END)):
        file.seek(spot.start)
        if file.read(len(spot)).strip(b"\0"):
            return spot.start
    return None


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Unmount, and make a disk that we formatted blank again."""
    disks, changes = context.ledger.originals("disk:"), []
    if mounted(context) or os.path.exists(context.path(UNIT)):
        context.act(["systemctl", "disable", "--now", os.path.basename(UNIT)], timeout=120, ok=(0, 1, 5))
        context.remove(UNIT)
        context.act(["systemctl", "daemon-reload"], timeout=120)
        if not context.check and mounted(context):
            raise NodeError(f"{MOUNT} cannot be unmounted: something uses it")
        if not context.check and os.path.isdir(MOUNT) and not os.listdir(MOUNT):
            os.rmdir(MOUNT)
        changes.append(change("disk", recorded.get("disk") or next(iter(disks), None), None))
    for disk, identity in disks.items():
        if os.path.exists(disk) and _signature(context, disk).get("UUID") == identity:
            _blank(context, disk)
        for key in ("disk", "making"):
            context.ledger.forget_original(f"{key}:{disk}")
    return changes


def _blank(context: Context, disk: str) -> None:
    context.act(["wipefs", "--all", "--quiet", disk])
    context.act(["blkdiscard", "--quiet", "--force", disk], ok=(0, 1), timeout=600)
    if context.check:
        return
    # A discard need not read as zeros, and the file system wrote where wipefs does not look.
    with open(disk, "r+b") as file:
        for spot in places(file.seek(0, os.SEEK_END)):
            file.seek(spot.start)
            file.write(bytes(len(spot)))
        file.flush()
        os.fsync(file.fileno())
