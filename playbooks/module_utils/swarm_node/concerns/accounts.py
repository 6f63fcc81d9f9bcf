"""Which accounts do workloads run as? Never root, by whatever name, nor one of the system; one that is missing is made."""

from __future__ import annotations

import grp
import os
import pwd
import re
from typing import Any, Dict, List

from ..machine.run import Change, Context, NodeError

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
    "swarm-telemetry": "it reads who holds what on the node",
}
#: Where /etc/login.defs does not say it.
_FIRST_UID = 1000
#: Files of accounts that are unknown on this machine, and processes of many services, bear it.
_NOBODY = 65534


def account(context: Context, user: str) -> None:
    """Create the unix account when it is missing; what we made is known, so that it can go again.

    NodeError when it is root by another name, or an account of the system.
    """
    if user == "root":
        raise NodeError("a workload never runs as root")
    try:
        judge(context, user, pwd.getpwnam(user))
    except KeyError:
        context.ledger.save_original(f"account:{user}", "absent")
        context.act(["useradd", "--no-create-home", "--user-group", "--shell", "/bin/bash", "--", user])
        if not context.check:
            made = pwd.getpwnam(user)
            if not os.path.lexists(made.pw_dir):
                os.makedirs(made.pw_dir, 0o700)
                os.chown(made.pw_dir, made.pw_uid, made.pw_gid)


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


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Accounts that we created go; a home that holds anything stays."""
    changes = []
    for user in context.ledger.originals("account:"):
        try:
            home = pwd.getpwnam(user).pw_dir
        except KeyError:
            home = ""
        if home:
            context.act(["userdel", "--", user], ok=(0, 6))
            context.remove_folder(home)
            changes.append({"path": f"accounts.{user}", "old": user, "new": None})
        context.ledger.forget_original(f"account:{user}")
    return changes
