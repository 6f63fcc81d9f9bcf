"""Which program of ours is on this machine, and what starts it after a reboot?"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from ..machine import install
from ..machine.run import Change, Context, change
from ..table import walk

UNIT = "/etc/systemd/system/swarm-boot.service"
_LINK = "/etc/systemd/system/multi-user.target.wants/swarm-boot.service"
#: There once this boot's restore has run its course, or once a node was prepared in this boot.
_DONE = "/run/swarm/booted"
_TEXT = """\
# kept by swarm
[Unit]
Description=swarm: settings, slices and workloads of this node, from its ledger
After=local-fs.target network.target systemd-sysctl.service nvidia-persistenced.service
Before=multi-user.target
ConditionPathExists=/var/lib/swarm/ledger.json

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 -I /usr/local/lib/swarm/current boot
TimeoutStartSec=10min

[Install]
WantedBy=multi-user.target
"""


def apply(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    """Install the program and the boot unit."""
    changes = install.apply(context)
    if context.write(UNIT, _TEXT):
        changes.append(change("boot_unit", None, "swarm-boot.service"))
        _reload(context)
    if not os.path.islink(context.path(_LINK)):
        changes.append(change("boot_unit.enabled", False, True))
        if not context.check:
            context.ledger.confirm()
            os.makedirs(os.path.dirname(context.path(_LINK)), exist_ok=True)
            os.symlink("../swarm-boot.service", context.path(_LINK))
            _reload(context)
    if not context.check:
        booted(context)
    return changes


def _step(context: Context, allocation: str, want: Dict[str, Any]) -> List[Change]:
    # Recorded before: once the program is the new one, nothing else would tell of a run that is killed here.
    if install.outdated(context):
        context.ledger.renew(begun=True)
    changes = apply(context, allocation, want)
    if not context.ledger.renewing:
        return changes
    try:  # what an earlier version wrote is written as this one does
        return changes + walk("renewed", context)
    finally:  # one that fails says so, and keeps no step from changing what it failed at
        context.ledger.renew(begun=False)


STEPS = {"prepare": _step}


def booted(context: Context) -> None:
    """This boot's restore has run its course: nobody needs to wait for it any more."""
    context.write(_DONE, "")


def wait(context: Context, seconds: float) -> None:
    """Let the restore of a machine that has just booted finish: half of it seen would be reported as drift."""
    end = time.monotonic() + seconds
    while os.path.islink(context.path(_LINK)) and not os.path.exists(context.path(_DONE)) and time.monotonic() < end:
        time.sleep(0.25)


def restore(context: Context, allocation: str, recorded: Dict[str, Any]) -> List[Change]:
    """Remove the boot unit and the program."""
    changes = []
    context.remove(_LINK)
    context.remove(_DONE)
    if context.root == "/":
        # It stays "active" since boot; left so, systemd would list it without a file until the next one.
        context.act(["systemctl", "stop", "swarm-boot.service"], ok=(0, 5))
    if context.remove(UNIT):
        changes.append(change("boot_unit", "swarm-boot.service", None))
        _reload(context)
    return changes + install.restore(context)


def _reload(context: Context) -> None:
    if context.root == "/":
        context.act(["systemctl", "daemon-reload"], timeout=120)
