"""What measures this node between two runs, and who may read it? Two services with no right but to look, in a slice of their own.

The sampler may open the cards and sees no network; the server answers the network and may open nothing. Neither can read the
ledger: what they need to know of allocations is left for them in LABELS, after each step.
"""

from __future__ import annotations

import contextlib
import grp
import ipaddress
import json
import os
import pwd
import shutil
from typing import Any, Dict, List, Optional

from ..machine import systemd
from ..machine.nvml_users import SAMPLER
from ..machine.run import Change, Context, NodeError, differences
from . import devices, traffic

GROUP = "swarm-telemetry"
#: Of the sampler. A name in /etc/passwd, and no account of systemd's own: where libnss-systemd is missing, the system's bus answers
#: nobody whose name it does not find, and nothing would be known of units.
USER = "swarm-sampler"
#: For the sampler: {interface, instances, allocations}; its folder lets the group's members in, and their files be the group's.
LABELS = "/run/swarm-telemetry/labels.json"
SERVER = "swarm-exporter.service"
#: Not below `swarm.slice`, where only allocations are.
SLICE = "swarmtelemetry.slice"
UNITS = (SAMPLER, SERVER)
_RUN = "/usr/bin/python3 -I -S /usr/local/lib/swarm/current"
#: Hard: whatever either does, or is made to do, the node's work loses no more than that.
_SLICE = """\
# kept by swarm; changes by hand are undone
[Unit]
Description=swarm: what measures this node

[Slice]
CPUQuota=50%
CPUWeight=20
MemoryMax=256M
MemorySwapMax=0
TasksMax=64
"""
_CLOSED = f"""\
Slice={SLICE}
Group={GROUP}
UMask=0027
Restart=always
RestartSec=2
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
RemoveIPC=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
"""
_SAMPLER = f"""\
# kept by swarm; changes by hand are undone
[Unit]
Description=swarm: samples the cards and cgroups of this node
After=nvidia-persistenced.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={_RUN} sample
User={USER}
RuntimeDirectory=swarm-sampler
RuntimeDirectoryMode=0750
SupplementaryGroups={devices.GROUP}
DevicePolicy=closed
DeviceAllow=char-nvidia rw
DeviceAllow=char-nvidia-frontend rw
DeviceAllow=char-nvidia-caps r
IPAddressDeny=any
RestrictAddressFamilies=AF_UNIX AF_NETLINK
{_CLOSED}
[Install]
WantedBy=multi-user.target
"""
_SERVER = f"""\
# kept by swarm; changes by hand are undone
[Unit]
Description=swarm: answers what the sampler measured
After=network.target
StartLimitIntervalSec=0

[Service]
Type=notify
TimeoutStartSec=150
ExecStart=%s
DynamicUser=yes
PrivateDevices=yes
ProtectProc=invisible
MemoryDenyWriteExecute=yes
IPAddressDeny=any
IPAddressAllow=%s
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
{_CLOSED}
[Install]
WantedBy=multi-user.target
"""


def _texts(wanted: Dict[str, Any]) -> Dict[str, str]:
    """Unit → its file. NodeError for a port or scraper that is none."""
    port, scrapers = wanted.get("port"), list(wanted.get("scrapers") or ())
    if not isinstance(port, int) or isinstance(port, bool) or not 1024 <= port < 1 << 16:
        raise NodeError(f"{str(port)[:60]!r} is no port of a service without rights")
    try:
        plain = [str(ipaddress.ip_network(str(one), strict=False)) for one in scrapers]
    except ValueError as error:
        raise NodeError(f"telemetry: {str(error)[:200]}") from None
    answer = " ".join([f"{_RUN} serve {port}", *plain])
    return {SLICE: _SLICE, SAMPLER: _SAMPLER, SERVER: _SERVER % (answer, " ".join(plain) or "localhost")}


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Make {telemetry: TelemetryState} so. NodeError in the server's own words, if it cannot have the port."""
    wanted = want["telemetry"]
    changes = differences("telemetry", read(context, wanted) or {}, wanted)
    texts = _texts(wanted)
    if not context.check:
        _group(context)
        _user(context)
        devices.group(context)
    written = [unit for unit, text in texts.items() if context.write(f"{systemd.UNITS}/{unit}", text)]
    linked = [_enable(context, unit) for unit in UNITS]
    if context.check:
        return changes
    if written or any(linked):
        context.act(["systemctl", "daemon-reload"], timeout=120)
    for unit in UNITS:
        if unit in written or SLICE in written:
            context.act(["systemctl", "stop", unit], timeout=60, ok=(0, 5))
        _start(context, unit)
    return changes


def _start(context: Context, unit: str) -> None:
    """NodeError with the last words of its journal. Longer than systemd waits: its word is what counts."""
    try:
        context.act(["systemctl", "start", unit], timeout=180)
    except NodeError as error:
        raise NodeError(f"{error}\n{systemd.journal(context, unit)}".strip()) from None


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    if not want.get("telemetry"):
        changes = restore(context, "", context.ledger.state)
        context.ledger.record("telemetry", value=None)
        return changes
    # Recorded before it is made: of a run that is killed half-way, a restore still finds it.
    before = context.ledger.get("telemetry")
    context.ledger.record("telemetry", value=before or want["telemetry"])
    if not context.check:
        publish(context, want["telemetry"])
    changes = apply(context, "", want)
    context.ledger.record("telemetry", value=want["telemetry"])
    return changes


STEPS = {"telemetry": _step}


def boot(context: Context, allocation: str, recorded: Dict[str, Any]) -> None:
    """Leave the labels again, and start what does not run."""
    publish(context, recorded["telemetry"])
    apply(context, "", {"telemetry": recorded["telemetry"]})


def renewed(context: Context) -> List[Change]:
    """Both run the version of before: its files are gone."""
    recorded = context.ledger.get("telemetry")
    if recorded is None or context.check:
        return []
    changes = apply(context, "", {"telemetry": recorded})
    context.act(["systemctl", "restart", *UNITS], timeout=240)
    return changes


def observed(context: Context, allocation: str, recorded: Dict[str, Any]) -> Dict[str, Any]:
    """{telemetry}, where both services run as they were made."""
    return {"telemetry": read(context, recorded["telemetry"])} if recorded.get("telemetry") else {}


def read(context: Context, recorded: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """What is recorded, where both services are as it says and run; else None."""
    try:
        texts = _texts(recorded)
    except NodeError:
        return None
    same = all(context.read(f"{systemd.UNITS}/{unit}") == text.strip() for unit, text in texts.items())
    if not same or not all(os.path.islink(context.path(_link(unit))) for unit in UNITS):
        return None
    for unit in UNITS:
        shown = systemd.show(context, unit)
        if shown.get("ActiveState") != "active" or shown.get("DropInPaths"):
            return None
    return dict(recorded)


def publish(context: Context, recorded: Dict[str, Any]) -> None:
    """Leave for the sampler what it has to know of the allocations that are recorded."""
    folder = context.path(os.path.dirname(LABELS))
    gid = _group(context)
    os.makedirs(folder, mode=0o750, exist_ok=True)
    if context.root == "/":
        os.chown(folder, 0, gid)
        os.chmod(folder, 0o2750)
    context.write(LABELS, json.dumps(_labels(context, recorded), sort_keys=True), 0o640)


def published(context: Context) -> None:
    """The same after a step, if anything is measured here. What cannot be left is left with the next step: no step fails of it."""
    recorded = context.ledger.get("telemetry")
    if recorded is not None and not context.check:
        with contextlib.suppress(NodeError, OSError):
            publish(context, recorded)


def _labels(context: Context, recorded: Dict[str, Any]) -> Dict[str, Any]:
    ledger, teams = context.ledger, recorded.get("teams") or {}
    numbers = traffic.numbers(context) if ledger.get("interface") else {}
    allocations: Dict[str, Dict[str, Any]] = {}
    for name, whole in sorted((ledger.get("allocations") or {}).items()):
        user = str((whole.get("unit") or {}).get("user") or "")
        allocations[name] = {
            "workload": whole.get("workload") or "", "user": user, "team": teams.get(user) or "",
            "gpus": list(whole.get("gpus") or ()), "class": numbers.get(name, 0),
            "quotas": {kind: whole[kind]["quota"] for kind in ("scratch", "cache") if whole.get(kind)},
        }  # fmt: skip
    instances = {one["uuid"]: plain for plain, one in ledger.instances().items() if one.get("uuid")}
    interface = str(ledger.get("interface") or "")
    return {"interface": interface, "instances": instances, "allocations": allocations}


def _group(context: Context) -> int:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        if context.root != "/":
            return -1
        context.ledger.save_original("telemetry_group", "absent")
        context.act(["groupadd", "--system", GROUP])
        return grp.getgrnam(GROUP).gr_gid


def _user(context: Context) -> None:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        context.ledger.save_original("telemetry_user", "absent")
        account = ["--system", "--no-create-home", "--home-dir", "/", "--shell", "/usr/sbin/nologin", "--gid", GROUP, USER]
        context.act(["useradd", *account])


def _link(unit: str) -> str:
    return f"{systemd.UNITS}/multi-user.target.wants/{unit}"


def _enable(context: Context, unit: str) -> bool:
    link = context.path(_link(unit))
    if os.path.islink(link):
        return False
    if not context.check:
        context.ledger.confirm()
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(f"../{unit}", link)
    return True


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Both services, their files, the labels, the user and the group are gone."""
    there = [unit for unit in (*UNITS, SLICE) if os.path.lexists(context.path(f"{systemd.UNITS}/{unit}"))]
    folder = os.path.dirname(LABELS)
    if there:
        context.act(["systemctl", "stop", *there], timeout=120, ok=(0, 5))
        for unit in UNITS:
            context.remove(_link(unit))
        for unit in there:
            systemd.drop_file(context, unit)
            context.remove_folder(f"{systemd.UNITS}/{unit}.d")
        context.act(["systemctl", "daemon-reload"], timeout=120)
    if not context.check:
        context.ledger.confirm()
        shutil.rmtree(context.path(folder), ignore_errors=True)
        # The user first: nobody removes a group that is somebody's own.
        for what, command in (("user", ["userdel", USER]), ("group", ["groupdel", GROUP])):
            if context.ledger.has_original(f"telemetry_{what}"):
                context.act(command, ok=(0, 6))
                context.ledger.forget_original(f"telemetry_{what}")
    return [{"path": "telemetry", "old": recorded.get("telemetry"), "new": None}] if there else []
