"""How did it end, and may it start by itself? What outlives a reboot of one allocation's life, and what does not.

A unit that came to its end is forgotten by systemd at the next boot, so its own last command writes the end down:
`/var/lib/swarm/ends/ALLOCATION` holds systemd's word for it (`success`, `exit-code`, `oom-kill` and so on). Nothing is
written when the unit was asked to stop, by us, by a person or by a machine that shuts down, be it so slow that its grace
is over before that could be noted. Only with a time limit that counts as an end: a job that has no memory left could else keep
the limit from being noted, and start again.

A time limit is systemd's own (`RuntimeMaxSec=`), so it holds whoever is away. Reaching it is an end for good: the unit
starts again neither by itself nor at a boot.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from ..machine import systemd
from ..machine.run import Context, NodeError
from ..records.ledger import private

#: The word for an end by the time limit. systemd's own, `timeout`, is also that of a stop that took too long.
TIME_LIMIT = "time-limit"
#: Ten years: systemd passes over what is too large for it, and a limit would be none. [s]
_MOST = 3650 * 86400
ENDS = "/var/lib/swarm/ends"
#: The same where the disk could not take it; lost at a reboot.
SPARE = "/run/swarm/ends"
#: Of each allocation that was stopped: systemd's id of that run, after `limit` or `ended` where nobody asked for it.
ASKED = "/run/swarm/asked"
#: Of each allocation that a boot did not start: when the machine booted. [s since 1970]
WAITING = "/run/swarm/waiting"

# $MAINPID is empty when the command had ended before systemd thought of stopping it. Nothing here forks before it wrote:
# a slice may have no task or memory left.
_ON_STOP = 'if [ -n "$MAINPID" ]; then echo "$INVOCATION_ID"; else echo "ended $INVOCATION_ID"; fi > "$1"'
_ON_END = """\
asked=; { read -r asked < "$1"; } 2> /dev/null
[ "$asked" != "$INVOCATION_ID" ] || exit 0
%s{ echo "$SERVICE_RESULT" > "$2"; } 2> /dev/null && sync "$2" || echo "$SERVICE_RESULT" > "$3"
"""
# A `timeout` of which nothing was noted: it was stopped, and that took its whole grace. Where its command had ended, and left
# processes that did not, this was noted.
_NOTED = '[ "$SERVICE_RESULT" != timeout ] || [ "$asked" = "ended $INVOCATION_ID" ] || exit 0\n'
#: Who is started again after a failure has come to no end by it.
_ONLY_SUCCESS = '[ "$SERVICE_RESULT" = success ] || exit 0\n'
# The same with a time limit. Only at that is its command alive when systemd stops it for a `timeout`.
_ON_STOP_LIMITED = """\
[ -n "$MAINPID" ] || exit 0
if [ "$SERVICE_RESULT" = timeout ]; then echo "limit $INVOCATION_ID" > "$1"; else echo "$INVOCATION_ID" > "$1"; fi
"""
_LIMITED = f'[ "$asked" != "limit $INVOCATION_ID" ] || SERVICE_RESULT={TIME_LIMIT}\n'
_ONLY_SUCCESS_OR_LIMIT = f'case "$SERVICE_RESULT" in success | {TIME_LIMIT}) ;; *) exit 0 ;; esac\n'
#: Fails, and so keeps systemd from starting it again, once it ended at its limit. A start of ours has removed the word.
_GOES_ON = f"""\
for end; do
  word=; {{ read -r word < "$end"; }} 2> /dev/null
  [ "$word" != {TIME_LIMIT} ] || exit 1
done
"""


def properties(allocation: str, want: Dict[str, Any]) -> List[str]:
    """Lines of a service's unit file that limit its time and write its end down.

    They run as root, nothing of the user's is in them, and a failure of theirs is none of its. NodeError for a time limit
    that systemd cannot carry.
    """
    again, limit = want.get("restart", True), run_time(want)
    only = _NOTED if limit is None else _LIMITED
    if again:
        only += _ONLY_SUCCESS if limit is None else _ONLY_SUCCESS_OR_LIMIT
    asked, ends = f"{ASKED}/{allocation}", [f"{ENDS}/{allocation}", f"{SPARE}/{allocation}"]
    stop = ["/bin/sh", "-c", _ON_STOP if limit is None else _ON_STOP_LIMITED, "swarm", asked]
    end = ["/bin/sh", "-c", _ON_END % only, "swarm", asked, *ends]
    lines = [f"ExecStop=-:+{systemd.words(stop)}", f"ExecStopPost=-:+{systemd.words(end)}"]
    if limit is not None:
        lines.append(systemd.setting("RuntimeMaxSec", str(limit)))
        lines += [f"ExecCondition=:+{systemd.words(['/bin/sh', '-c', _GOES_ON, 'swarm', *ends])}"] if again else []
    return lines


def run_time(want: Dict[str, Any]) -> Optional[int]:
    """After how long it is asked to end: its grace before its time limit. None without a limit. [s]"""
    limit, grace = want.get("time_limit_s"), want.get("grace_s", 30)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not grace < limit <= _MOST:
        raise NodeError(f"{str(limit)[:40]!r} s is no time limit of a run whose grace is {grace} s")
    return limit - int(grace)


def time_limit(runtime_usec: int, grace_s: int) -> Optional[int]:
    """The limit again, from the property RuntimeMaxUSec as D-Bus has it. [s]"""
    return None if runtime_usec >= 1 << 63 else runtime_usec // 1_000_000 + grace_s


def prepare(context: Context, allocation: str) -> None:
    """Called before a start: what was written of an earlier life is no longer true."""
    for folder in (ENDS, SPARE, ASKED, WAITING):
        if not context.check:
            private(context.path(folder))
        context.remove(f"{folder}/{allocation}")


def end(context: Context, allocation: str) -> str:
    """`done` or `failed` when its command ended by itself; else empty."""
    word = word_of(context, allocation)
    return "" if not word else "done" if word == "success" else "failed"


def word_of(context: Context, allocation: str) -> str:
    """systemd's word for how it ended by itself, or TIME_LIMIT; else empty."""
    return context.read(f"{ENDS}/{allocation}") or context.read(f"{SPARE}/{allocation}") or ""


def asked(context: Context, allocation: str, shown: Dict[str, str], want: Dict[str, Any]) -> bool:
    """Was this run of it asked to stop? One that had to be killed then has not failed, though systemd calls it so.

    `shown`: what systemd says of it. A `timeout` of which nothing was noted was a stop that took its whole grace.
    """
    noted, invocation = context.read(f"{ASKED}/{allocation}") or "", shown.get("InvocationID", "")
    slow = shown.get("Result") == "timeout" and noted.split()[-1:] != [invocation] and want.get("time_limit_s") is None
    return bool(invocation) and (noted == invocation or slow)


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
