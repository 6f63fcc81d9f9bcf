"""Where does an allocation keep its files, and how much may it keep? Directories with an XFS project quota."""

from __future__ import annotations

import array
import fcntl
import os
import pwd
import re
import stat
import struct
import zlib
from typing import Any, Dict, List, Optional, Tuple

from ..machine import mounts
from ..machine.run import Change, Context, NodeError, change
from ..records import holdings
from .accounts import account
from .storage import MOUNT, mounted

KINDS = ("scratch", "cache")
#: linux/fs.h: struct fsxattr {u32 xflags, extsize, nextents, projid, cowextsize; char pad[8]} and its two ioctls.
_FSXATTR = struct.Struct("=5I8s")
_GET, _SET, _INHERIT = 0x801C581F, 0x401C5820, 0x200


def directory(kind: str, allocation: str) -> str:
    """Path of an allocation's scratch or cache."""
    return f"{MOUNT}/{kind}/{allocation}"


def held(context: Context, allocation: str) -> Dict[str, str]:
    """Those of an allocation, by kind. They are made, and recorded, before it starts."""
    return {kind: directory(kind, allocation) for kind in KINDS if context.ledger.get("allocations", allocation, kind)}


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make {scratch, cache: DirectoryState or None} so. One that is no longer wanted is removed with its content."""
    changes: List[Change] = []
    found = read(context, allocation, want)
    for kind in KINDS:
        path, wanted, was = f"allocations.{allocation}.{kind}", want.get(kind), found[kind]
        if wanted is None:
            changes += _remove(context, allocation, kind)
        elif was != _whole(wanted):
            changes.append(change(path, was, _whole(wanted)))
            if not context.check:
                _make(context, allocation, kind, _whole(wanted))
    return changes


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    whole = holdings.of(context, allocation, want)
    holdings.claim(context, allocation, {"workload": whole.get("workload")})
    changes = apply(context, allocation, {kind: whole.get(kind) for kind in KINDS})
    for kind in KINDS:
        context.ledger.record("allocations", allocation, kind, value=whole.get(kind))
    return changes


STEPS = {"directories": _step}


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{scratch, cache}, those that are recorded."""
    folders = {kind: recorded[kind] for kind in KINDS if recorded.get(kind)}
    return dict(read(context, allocation, folders)) if folders else {}


def _whole(wanted: Dict[str, Any]) -> Dict[str, Any]:
    return {"quota": int(wanted["quota"]), "owner": wanted["owner"], "mode": wanted.get("mode", "0700")}


def read(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Optional[Dict[str, Any]]]:
    """{scratch, cache}: quota in force [bytes], owner and mode; None where there is no directory.

    A quota of 0 is what has none: no limit set, or a directory whose files are not counted. XFS keeps whole blocks,
    so a recorded quota within the last block reads as recorded.
    """
    found: Dict[str, Optional[Dict[str, Any]]] = {}
    for kind in KINDS:
        path = context.path(directory(kind, allocation))
        try:
            seen = os.lstat(path)
        except OSError:
            found[kind] = None
            continue
        project = _project(path)
        quota = _limit(context, project[0]) if project and project[1] and project[0] else 0
        was = (recorded.get(kind) or {}).get("quota")
        if was is not None and quota and quota // 4096 == int(was) // 4096:
            quota = int(was)
        found[kind] = {"quota": quota, "owner": _name(seen.st_uid), "mode": f"{stat.S_IMODE(seen.st_mode):04o}"}
    return found


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _make(context: Context, allocation: str, kind: str, wanted: Dict[str, Any]) -> None:
    if not mounted(context):
        raise NodeError(f"{kind} needs the node's data disk, and {MOUNT} is not mounted with project quotas")
    if wanted["quota"] < 4096:
        raise NodeError(f"a quota of {wanted['quota']} bytes is less than one block of 4096")
    account(context, wanted["owner"])
    path, user = directory(kind, allocation), pwd.getpwnam(wanted["owner"])
    context.ledger.confirm()
    os.makedirs(os.path.dirname(path), mode=0o711, exist_ok=True)
    mounts.clear(context, path)
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
        raise NodeError(f"{path} is there and is no directory")
    fresh = not os.path.isdir(path)
    if fresh:
        os.mkdir(path, 0o700)
    number = _number(context, allocation, kind)
    if _project(path) != (number, True):
        _count_under(context, path, number, fresh=fresh)
    context.act(["xfs_quota", "-x", "-c", f"limit -p bhard={wanted['quota'] // 4096 * 4}k {number}", MOUNT])
    os.chown(path, user.pw_uid, user.pw_gid)
    os.chmod(path, int(wanted["mode"], 8))


def _remove(context: Context, allocation: str, kind: str) -> List[Change]:
    path = directory(kind, allocation)
    mounts.clear(context, path)
    if not os.path.lexists(context.path(path)):
        return []
    project = _project(path)
    context.act(["rm", "-rf", "--one-file-system", "--", path], timeout=3600)
    if project and project[0] and mounted(context):
        context.act(["xfs_quota", "-x", "-c", f"limit -p bhard=0 {project[0]}", MOUNT])
    return [change(f"allocations.{allocation}.{kind}", path, None)]


def release(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Remove both, with what is in them."""
    return [one for kind in KINDS for one in _remove(context, allocation, kind)]


def _number(context: Context, allocation: str, kind: str) -> int:
    """Id of the project: from the name, past those that other directories here hold."""
    taken = set()
    for other in KINDS:
        folder = context.path(f"{MOUNT}/{other}")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if (other, name) != (kind, allocation):
                project = _project(os.path.join(folder, name))
                taken.add(project[0] if project else 0)
    number = 10_000 + zlib.crc32(f"{kind}/{allocation}".encode()) % 2_000_000_000
    while number in taken:
        number += 1
    return number


def _project(path: str) -> Optional[Tuple[int, bool]]:
    """Project of a directory, and whether what is made in it belongs there too; None when its file system has none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        buffer = array.array("B", bytes(_FSXATTR.size))
        fcntl.ioctl(handle, _GET, buffer, True)
    except OSError:
        return None
    finally:
        os.close(handle)
    flags, _, _, project, _, _ = _FSXATTR.unpack(buffer.tobytes())
    return project, bool(flags & _INHERIT)


def _count_under(context: Context, path: str, number: int, *, fresh: bool) -> None:
    """Count what is in the directory under the project: the directory alone when it is new, else all that is in it."""
    if not fresh:
        context.act(["xfs_quota", "-x", "-c", f"project -s -p {path} {number}", MOUNT], timeout=3600)
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        buffer = array.array("B", bytes(_FSXATTR.size))
        fcntl.ioctl(handle, _GET, buffer, True)
        flags, size, count, _, cow, pad = _FSXATTR.unpack(buffer.tobytes())
        fcntl.ioctl(handle, _SET, array.array("B", _FSXATTR.pack(flags | _INHERIT, size, count, number, cow, pad)))
    finally:
        os.close(handle)


def _limit(context: Context, number: int) -> int:
    return limits(_report(context)).get(number, 0)


def _report(context: Context) -> str:
    """One report serves all directories of a reading."""
    if context.check and "quota_report" in context.__dict__:
        return str(context.__dict__["quota_report"])
    text = context.run(["xfs_quota", "-x", "-c", "report -p -n -N -b", MOUNT]) if mounted(context) else ""
    context.__dict__["quota_report"] = text
    return text


def limits(report: str) -> Dict[int, int]:
    """Hard limits [bytes] by project in an `xfs_quota report -p -n -N -b`, whose columns are of 1 KiB."""
    rows = (re.match(r"#([0-9]+)\s+[0-9]+\s+[0-9]+\s+([0-9]+)\s", line) for line in report.splitlines())
    return {int(row[1]): int(row[2]) * 1024 for row in rows if row}
