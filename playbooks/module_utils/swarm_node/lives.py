"""How did it end, and may it start by itself? What outlives a reboot of one allocation's life, and what does not.

A unit that came to its end is forgotten by systemd at the next boot, so its own last command writes the end down:
`/var/lib/swarm/ends/ALLOCATION` holds systemd's word for it (`success`, `exit-code`, `oom-kill` and so on). Nothing is
written when the unit was asked to stop, by us, by a person or by a machine that shuts down.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from . import systemd
from .ledger import private
from .run import Context

ENDS = "/var/lib/swarm/ends"
#: The same where the disk could not take it; lost at a reboot.
SPARE = "/run/swarm/ends"
#: Of each allocation that was asked to stop: systemd's id of that run.
ASKED = "/run/swarm/asked"
#: Of each allocation that a boot did not start: when the machine booted. [s since 1970]
WAITING = "/run/swarm/waiting"

# $MAINPID is empty when the command had ended before systemd thought of stopping it. Nothing here forks before it wrote:
# a slice may have no task or memory left.
_ON_STOP = '[ -z "$MAINPID" ] || echo "$INVOCATION_ID" > "$1"'
_ON_END = """\
asked=; { read -r asked < "$1"; } 2> /dev/null
[ "$asked" != "$INVOCATION_ID" ] || exit 0
%s{ echo "$SERVICE_RESULT" > "$2"; } 2> /dev/null && sync "$2" || echo "$SERVICE_RESULT" > "$3"
"""
#: Who is started again after a failure has come to no end by it.
_ONLY_SUCCESS = '[ "$SERVICE_RESULT" = success ] || exit 0\n'


def properties(allocation: str, want: Dict[str, Any]) -> List[str]:
    """Lines of a service's unit file that write its end down. They run as root, and a failure of theirs is none of its."""
    on_end = _ON_END % (_ONLY_SUCCESS if want.get("restart", True) else "")
    asked = f"{ASKED}/{allocation}"
    stop = ["/bin/sh", "-c", _ON_STOP, "swarm", asked]
    end = ["/bin/sh", "-c", on_end, "swarm", asked, f"{ENDS}/{allocation}", f"{SPARE}/{allocation}"]
    return [f"ExecStop=-:+{systemd.words(stop)}", f"ExecStopPost=-:+{systemd.words(end)}"]


def prepare(context: Context, allocation: str) -> None:
    """Called before a start: what was written of an earlier life is no longer true."""
    for folder in (ENDS, SPARE, ASKED, WAITING):
        if not context.check:
            private(context.path(folder))
        context.remove(f"{folder}/{allocation}")


def end(context: Context, allocation: str) -> str:
    """`done` or `failed` when its command ended by itself; else empty."""
    word = context.read(f"{ENDS}/{allocation}") or context.read(f"{SPARE}/{allocation}")
    return "" if not word else "done" if word == "success" else "failed"


def asked(context: Context, allocation: str, invocation: str) -> bool:
    """Was this run of it asked to stop? One that had to be killed then has not failed, though systemd calls it so."""
    return bool(invocation) and context.read(f"{ASKED}/{allocation}") == invocation


def wait(context: Context, allocation: str) -> None:
    """It is not started at this boot, because only a run can tell whether it goes on elsewhere."""
    context.write(f"{WAITING}/{allocation}", f"{round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))}\n", 0o600)


def waits(context: Context, allocation: str) -> int:
    """When the machine booted, if the allocation has waited since; else 0. [s since 1970]"""
    return int(context.read(f"{WAITING}/{allocation}") or 0)


def release(context: Context, allocation: str) -> None:
    """Forget everything of it."""
    for folder in (ENDS, SPARE, ASKED, WAITING):
        context.remove(f"{folder}/{allocation}")


def restore(context: Context) -> None:
    """Remove the folders."""
    for folder in (ENDS, SPARE, ASKED, WAITING):
        path = context.path(folder)
        for name in os.listdir(path) if os.path.isdir(path) else ():
            context.remove(f"{folder}/{name}")
        if os.path.isdir(path) and not context.check:
            os.rmdir(path)
