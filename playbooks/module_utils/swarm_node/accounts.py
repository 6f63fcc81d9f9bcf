"""May a workload run as this account? Never as root, by whatever name; never as an account of the system."""

from __future__ import annotations

import grp
import os
import pwd
import re

from .run import Context, NodeError

#: Groups whose members are root by another name, or may read or use what is other users' here.
PRIVILEGED = {
    "root": "root's own group",
    "sudo": "its members run anything as root",
    "wheel": "its members run anything as root",
    "admin": "its members run anything as root",
    "docker": "it starts containers as root",
    "podman": "it starts containers as root",
    "lxd": "it starts containers as root",
    "lxc": "it starts containers as root",
    "incus": "it starts containers as root",
    "incus-admin": "it starts containers as root",
    "microk8s": "it starts containers as root",
    "libvirt": "it starts virtual machines as root",
    "disk": "it reads and writes raw disks",
    "kmem": "it reads the kernel's memory",
    "shadow": "it reads the hashes of passwords",
    "staff": "it writes /usr/local, from where root runs programs",
    "adm": "it reads the logs of all users",
    "systemd-journal": "it reads the journals of all users",
    "swarm-gpu": "it opens GPUs outside the slices",
}
#: Where /etc/login.defs does not say it.
_FIRST_UID = 1000
#: Files of accounts that are unknown on this machine, and processes of many services, bear it.
_NOBODY = 65534


def judge(context: Context, name: str, account: pwd.struct_passwd) -> None:
    """NodeError, with the reason, when no workload may run as it."""
    uid, first = account.pw_uid, _first_uid(context)
    if uid == 0:
        raise NodeError(f"{name} is another name for root on this machine, and a workload never runs as root")
    if uid < first or uid == _NOBODY:
        raise NodeError(
            f"{name} (uid {uid}) is an account of the system, and a workload runs as a person's (from uid {first} on)"
        )
    for gid in sorted({account.pw_gid, *os.getgrouplist(name, account.pw_gid)}):
        group = _group(gid)
        if group in PRIVILEGED or gid == 0:
            reason = PRIVILEGED.get(group, PRIVILEGED["root"])
            raise NodeError(f"{name} is in the group {group}, and {reason}; take it out of there, or run this as another user")


def _first_uid(context: Context) -> int:
    found = re.search(r"^UID_MIN\s+([0-9]+)", context.read("/etc/login.defs") or "", re.MULTILINE)
    return int(found[1]) if found else _FIRST_UID


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
