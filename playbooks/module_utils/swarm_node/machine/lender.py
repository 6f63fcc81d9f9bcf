"""How is the service that moves lent memory set up, and is it as we left it?"""

from __future__ import annotations

import os
from typing import List, Mapping

from . import systemd
from .run import Change, Context

UNIT = "swarm-lender.service"
_FILE = f"{systemd.UNITS}/{UNIT}"
_LINK = f"{systemd.UNITS}/multi-user.target.wants/{UNIT}"
#: It writes limits and the files of slices, and asks systemd to read them again; that is all.
_TEXT = """\
# kept by swarm; changes by hand are undone
[Unit]
Description=swarm: moves lent memory to who needs it
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
TimeoutStartSec=110
ExecStart=/usr/bin/python3 -I -S /usr/local/lib/swarm/current lend
Restart=always
RestartSec=2
OOMScoreAdjust=-900
MemoryMax=128M
TasksMax=16
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
ProtectSystem=strict
ReadWritePaths=/run /sys/fs/cgroup /etc/systemd/system
ProtectHome=yes
PrivateTmp=yes
ProtectKernelModules=yes
ProtectClock=yes
RestrictNamespaces=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


def whole(context: Context) -> bool:
    """Does it run as our file says, and as nothing else does?"""
    if context.read(_FILE) != _TEXT.strip() or not os.path.islink(context.path(_LINK)):
        return False
    shown = systemd.show(context, UNIT)
    return _works(shown) and not _by_hand(shown)


def _works(shown: Mapping[str, str]) -> bool:
    """Not one that systemd is about to start again."""
    return shown.get("ActiveState") == "active"


def _by_hand(shown: Mapping[str, str]) -> bool:
    """Has somebody hung something on it, or does systemd hold another file than the one that is there?"""
    return bool(systemd.drop_ins(shown, UNIT)) or shown.get("NeedDaemonReload") == "yes"


def serve(context: Context) -> bool:
    """Have it run as our file says. True when that changed."""
    written = context.write(_FILE, _TEXT)
    linked = os.path.islink(context.path(_LINK))
    shown = systemd.show(context, UNIT)
    bent = written or _by_hand(shown)
    if context.check or (not bent and linked and _works(shown)):
        return bent
    if not linked:
        context.ledger.confirm()
        os.makedirs(os.path.dirname(context.path(_LINK)), exist_ok=True)
        os.symlink(f"../{UNIT}", context.path(_LINK))
    if bent:
        # Before systemd holds our file alone: after that nobody could tell that what runs began with another one.
        context.act(["systemctl", "stop", UNIT], timeout=60, ok=(0, 5))
        systemd.settle(context, UNIT, force=True)
    systemd.start(context, UNIT)
    return True


def remove(context: Context) -> List[Change]:
    """It is gone."""
    if not os.path.lexists(context.path(_FILE)) and not os.path.islink(context.path(_LINK)):
        return []
    context.act(["systemctl", "stop", UNIT], timeout=60, ok=(0, 5))
    context.remove(_LINK)
    systemd.drop_file(context, UNIT)
    context.act(["systemctl", "daemon-reload"], timeout=120)
    return [{"path": "lender", "old": UNIT, "new": None}]
