"""Which run may change the fleet now? A claim on this node, held by a connection and gone with it.

A run asks a few nodes for a claim before it acts. On each only one run has it at a time; when all is granted the run says
`go`, and its serial is recorded as its first step would. The claim ends with the connection that asked for it, and when
nothing was heard there for a while: a run that was killed holds nobody up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import sys
import time
from typing import Any, Dict, Iterator, Optional

from ..machine.run import NodeError
from . import ledger

#: Whoever holds a claim says so every few seconds. After so long without a word it is gone. [s]
SILENCE_S = 30.0
#: The ledger may be in use by a step that outlived its run: the other nodes decide then. [s]
_WAIT_S = 5.0
#: The most of a request. [bytes]
_MOST = 1 << 16


def hold(source: int = 0, sink: Any = None, root: str = "/", silence: float = SILENCE_S) -> None:
    """Talk with a run, a line of JSON each: {lineage, serial, fleet, run, who} brings {granted}, {held} or {refused}.

    held: {who, serial, since} of the run that has it. `go` then brings {recorded}, {refused} or {busy}; empty lines are
    signs of life, and the end of the input gives the claim back.
    """
    sink = sink or sys.stdout
    heard = _lines(source, silence)
    asked = json.loads(next(heard, "null"))
    if not isinstance(asked, dict):
        return
    guard = {name: asked[name] for name in ("lineage", "serial", "fleet", "run")}
    me = {"who": str(asked.get("who") or ""), "serial": asked["serial"], "since": round(time.time(), 1)}
    with _taken(root, me) as holder:
        if holder is not None:
            _say(sink, held=holder)
            return
        try:
            ledger.load(root).guard(**guard)
        except NodeError as error:
            _say(sink, refused=str(error))
            return
        _say(sink, granted=True)
        for line in heard:
            if line == "go":
                _say(sink, **_record(root, guard))


def _record(root: str, guard: Dict[str, Any]) -> Dict[str, Any]:
    """As a step does; a node that is nobody's yet gets its ledger by its first step."""
    try:
        if ledger.load(root).head():
            with ledger.opened(check=False, root=root, wait_s=_WAIT_S) as book:
                book.guard(**guard)
        return {"recorded": True}
    except ledger.Busy as error:
        return {"busy": str(error)}
    except NodeError as error:
        return {"refused": str(error)}
    except OSError as error:  # a disk that is full
        return {"busy": str(error)}


@contextlib.contextmanager
def _taken(root: str, me: Dict[str, Any]) -> Iterator[Optional[Dict[str, Any]]]:
    """None with the claim, else who has it. Nothing of it is left."""
    path = ledger.below(root, ledger.CLAIM)
    while True:
        ledger.private(os.path.dirname(path))
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the folder went at this moment
            continue
        with open(handle, "r+", encoding="utf-8") as file:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield _holder(path)
                return
            # Whoever had it removed the file meanwhile: then we hold what nobody else will look at.
            if not os.path.exists(path) or os.stat(path).st_ino != os.fstat(handle).st_ino:
                continue
            try:
                file.truncate()
                json.dump(me, file)
                file.flush()
                yield None
            finally:
                os.unlink(path)
                with contextlib.suppress(OSError):  # a ledger's lock is in there, where the node is ours
                    os.rmdir(os.path.dirname(path))
            return


def _holder(path: str) -> Dict[str, Any]:
    """Who has it, as they wrote; one that has only just got it has not written yet."""
    for _ in range(10):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            found: Dict[str, Any] = json.load(file)
            return found
        time.sleep(0.05)
    return {"who": "", "serial": 0, "since": 0}


def _lines(source: int, silence: float) -> Iterator[str]:
    """What is said, line by line, until its end or a silence."""
    left = b""
    while select.select([source], [], [], silence)[0]:
        piece = os.read(source, 65536)
        if not piece or len(left) > _MOST:
            return
        *whole, left = (left + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").strip()


def _say(sink: Any, **words: Optional[Any]) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone, and the end of the input is next
        sink.write(json.dumps(words) + "\n")
        sink.flush()
