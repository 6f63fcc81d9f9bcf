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
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from ..concerns import loans
from ..machine import systemd
from ..machine.run import Context, NodeError
from ..records import ledger

#: Between two looks, at most and at least. [s]
INTERVAL_S, PAUSE_S = 1.0, 0.1
#: Between two moves: each has systemd read its files again, and whoever allocates and frees must not keep it at that. [s]
GAP_S = 3.0
#: A trouble of a kind is told once in so long, and so many kinds are told apart. [s]
TOLD_S, _KINDS = 3600.0, 20


class Lender:
    """What one such process knows: the ledger as it was read last, and how its file looked then; when it tried to move something;
    whether what the last try left is whole."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.seen: Optional[ledger.Ledger] = None
        self.stamp: Optional[Tuple[int, int, int]] = None
        self.tried_at = float("-inf")
        self.whole = False

    def look(self, now: float) -> List[Dict[str, Any]]:
        """The certificates of what was moved. `now`: of a clock that is never set. [s]"""
        self._read()
        if self.seen is None or now - self.tried_at < GAP_S:
            return []
        wanted = any(map(loans.moves, loans.pools(Context(self.seen, check=True, root=self.root)).values()))
        if self.whole and not wanted:
            return []
        try:
            with ledger.opened(check=False, root=self.root, wait_s=0, whole=False) as book:
                # Also if it comes to nothing: each has the kernel reclaim of somebody.
                before, self.tried_at = self.tried_at, now
                context = Context(book, root=self.root)
                if not self.whole:
                    loans.settle(context)
                self.whole = False
                found = list(loans.move(context))
                self.whole = True
                self.tried_at = now if wanted else before
        except ledger.Busy:
            return []
        return found

    def _read(self) -> None:
        """Again only if the file is another one."""
        try:
            found = os.stat(ledger.below(self.root, ledger.LEDGER))
        except FileNotFoundError:
            self.seen = self.stamp = None
            return
        stamp = found.st_ino, found.st_mtime_ns, found.st_size
        if stamp != self.stamp:
            self.seen = ledger.load(self.root, whole=False)  # one damaged record is no reason to move nothing
            self.stamp = stamp

    def wait(self) -> None:
        """Until the next look, or until the kernel tells that somebody is above memory.high."""
        time.sleep(PAUSE_S)
        names = loans.borrowers(Context(self.seen, check=True, root=self.root)) if self.seen else []
        with contextlib.ExitStack() as opened:
            poll = select.poll()
            for path in (ledger.below(self.root, f"{loans.folder(name)}/memory.events") for name in names):
                with contextlib.suppress(OSError):
                    file = opened.enter_context(open(path, "rb", buffering=0))
                    file.read(4096)
                    poll.register(file, select.POLLPRI)
            poll.poll(int(1000 * (INTERVAL_S - PAUSE_S)))


class Troubles:
    """Which troubles have been told: the same again, or with other figures and names in it, would be a line every few seconds."""

    def __init__(self) -> None:
        self.told: Dict[str, float] = {}

    def new(self, words: str, now: float) -> bool:
        """Is it one to tell? `now`: of a clock that is never set. [s]"""
        kind = _kind(words)
        self.told = {each: when for each, when in self.told.items() if now - when < TOLD_S}
        if kind in self.told or len(self.told) >= _KINDS:
            return False
        self.told[kind] = now
        return True


def _kind(words: str) -> str:
    """A text without what changes from one time to the next: figures, and words with figures or a path in them."""
    return " ".join(word for word in words.split() if word.isalpha() or word.rstrip(":,;.").isalpha())[:200]


def run(root: str = "/") -> NoReturn:
    """Without end."""
    lender, troubles, works = Lender(root), Troubles(), False
    while True:
        now = time.monotonic()
        try:
            for one in lender.look(now):
                print(loans.told(one), flush=True)
        except (NodeError, OSError, ValueError) as error:
            if troubles.new(str(error), now):
                print(str(error), file=sys.stderr, flush=True)
        if not works:
            works = True
            systemd.ready()
        lender.wait()
