"""What makes a machine right again after a reboot? A unit that applies what the ledger holds, and starts what may."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any, Callable, Dict, List

from . import install, ledger
from .run import Change, Context, NodeError, change

UNIT = "/etc/systemd/system/swarm-boot.service"
_LINK = "/etc/systemd/system/multi-user.target.wants/swarm-boot.service"
#: There once this boot's restore has run its course, or once a node was prepared in this boot.
_DONE = "/run/swarm/booted"
#: How long one part may take; the slowest is a disk whose log is replayed. [s]
_PART_S = 150.0
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
        context.write(_DONE, "")
    return changes


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


def run(root: str = "/", *, apart: bool = False) -> int:
    """Apply everything the ledger holds; what fails is told and the rest goes on. Exit status 1 when something failed.

    `apart`: each part runs in a process of its own, so that one that hangs does not keep the rest from running.
    """
    try:
        with ledger.opened(check=False, root=root, wait_s=300, whole=False) as book:
            return _restored(book, root, apart=apart)
    except NodeError as error:  # a ledger that cannot be read, or is not to be had
        print(error, file=sys.stderr)
        return 1


def _restored(book: ledger.Ledger, root: str, *, apart: bool) -> int:
    failed, context = 0, Context(book, root=root)
    try:
        for name, act in _acts(context):
            try:
                _apart(context, act) if apart else act()
            except Exception as error:  # one part's surprise must not keep the rest from running
                failed = 1
                words = str(error) if isinstance(error, (NodeError, OSError)) else f"{type(error).__name__}: {error}"
                print(f"{name}: {words}", file=sys.stderr)
    finally:
        context.write(_DONE, "")
    return failed


def _apart(context: Context, act: Callable[[], Any]) -> None:
    from . import watch

    def told() -> str:
        try:
            act()
        except Exception as error:
            return f"{type(error).__name__}: {error}" if not isinstance(error, (NodeError, OSError)) else str(error)
        return ""

    try:
        words = watch.apart(told, _PART_S)
    finally:
        context.ledger.data = ledger.load(context.root, check=False).data  # it wrote there
    if words:
        raise NodeError(words)


def _acts(context: Context) -> List[Any]:
    """What is to be done after a boot, in order: the machine, then the disk, then each place, then what runs there."""
    from . import devices, gpus, settings, slices, storage, traffic

    state = context.ledger.state
    acts: List[Any] = []

    def add(name: str, call: Callable[..., Any], allocation: str, want: Any) -> None:
        acts.append((name, lambda: call(context, allocation, want)))

    if state.get("settings"):
        add("settings", settings.apply, "", state["settings"])
    if state.get("gpus"):
        add("gpus", gpus.apply, "", state["gpus"])
    if state.get("disk"):
        add("storage", storage.apply, "", {"disk": state["disk"]})
    held = sorted((state.get("allocations") or {}).items())
    # One that is damaged keeps no other from starting, and is told.
    acts += [(name, partial(_damaged, ledger.torn(name, whole))) for name, whole in held if ledger.torn(name, whole)]
    allocations = [(name, whole) for name, whole in held if not ledger.torn(name, whole)]
    for name, whole in allocations:
        if whole.get("slice") is not None:
            part = {"slice": whole["slice"], "gpus": whole.get("gpus") or []}
            add(f"{name}: slice", slices.apply, name, part)
            add(f"{name}: devices", devices.apply, name, part)
    for name, whole in allocations:
        acts.append((f"{name}: unit", lambda name=name, whole=whole: _start(context, name, whole)))
    if state.get("interface"):
        classes = {name: whole["bandwidth"] for name, whole in allocations if any((whole.get("bandwidth") or {}).values())}
        want = {"interface": state["interface"], "interface_bps": state.get("interface_bps", 0), "allocations": classes}
        add("traffic", traffic.apply, "", want)
    return acts


def _damaged(words: str) -> None:
    raise NodeError(f"{ledger.LEDGER} is damaged: {words}")


def _start(context: Context, allocation: str, whole: Dict[str, Any]) -> None:
    """Start what ran here, unless it came to its end or only a run can tell whether it goes on elsewhere."""
    from . import lives, units

    unit = whole.get("unit")
    if not unit or not unit.get("active") or lives.end(context, allocation):
        return
    if unit.get("on_boot") == "wait":
        # Given up as lost, this machine may come back when the job has long been running elsewhere.
        lives.wait(context, allocation)
    else:
        units.apply(context, allocation, dict(unit, gpus=whole.get("gpus") or [], workload=whole.get("workload")))
