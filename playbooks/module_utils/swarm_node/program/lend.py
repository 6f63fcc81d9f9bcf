"""What moves lent memory between two runs? This process, which asks nobody: it looks every second, and when somebody is slowed down.

It takes the ledger's lock for each move, and does nothing while a run has it: limits stay as they are. Killed anywhere, the next
one goes on from the limits that it finds.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ..concerns import loans
from ..machine.run import Context, NodeError
from ..records import ledger

#: Between two looks, at most and at least. [s]
INTERVAL_S, PAUSE_S = 1.0, 0.1

#: The ledger as it was read last, and how its file looked then.
_Known = Tuple[Optional[Tuple[int, int, int]], Optional[ledger.Ledger]]


def run(root: str = "/") -> int:
    """Without end."""
    known: _Known = (None, None)
    told = ""
    while True:
        try:
            known = _read(root, known)
            for one in moved(root, known[1]):
                print(loans.told(one), flush=True)
            told = ""
        except (NodeError, OSError, ValueError) as error:
            if str(error) != told:
                told = str(error)
                print(told, file=sys.stderr, flush=True)
        _wait(root, known[1])


def moved(root: str, seen: Optional[ledger.Ledger]) -> List[Dict[str, Any]]:
    """One look; the certificates of what was moved. `seen`: the ledger as it was read last, which need not be locked."""
    if seen is None or not any(map(loans.moves, loans.pools(Context(seen, check=True, root=root)).values())):
        return []
    try:
        with ledger.opened(check=False, root=root, wait_s=0) as book:
            return list(loans.move(Context(book, root=root)))
    except ledger.Busy:
        return []


def _read(root: str, known: _Known) -> _Known:
    """Read again only if the file is another one."""
    try:
        found = os.stat(ledger.below(root, ledger.LEDGER))
    except FileNotFoundError:
        return None, None
    stamp = found.st_ino, found.st_mtime_ns, found.st_size
    return known if stamp == known[0] else (stamp, ledger.load(root))


def _wait(root: str, seen: Optional[ledger.Ledger]) -> None:
    """Until the next look, or until the kernel tells that somebody is above memory.high."""
    time.sleep(PAUSE_S)
    with contextlib.ExitStack() as opened:
        poll = select.poll()
        for name in loans.borrowers(Context(seen, check=True, root=root)) if seen else ():
            with contextlib.suppress(OSError):
                file = opened.enter_context(open(ledger.below(root, f"{loans.folder(name)}/memory.events"), "rb", buffering=0))
                file.read(4096)
                poll.register(file, select.POLLPRI)
        poll.poll(int(1000 * (INTERVAL_S - PAUSE_S)))
