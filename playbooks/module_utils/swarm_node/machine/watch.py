"""Does everything end that is begun here, whatever it hangs in? Each in a process of its own, which is ended at its limit.

First it is asked: an exception where it waits, so that it puts back what it set. A driver that hangs inside the kernel
hears nothing of that, and is killed. What even that does not end is left, and told: only a reboot does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict

from .run import NodeError

#: What was asked to end may put values back for so long. [s]
GRACE_S = 20.0
#: How long a killed process may take to be gone. [s]
_GONE_S = 2.0


class Hung(NodeError):
    """It did not end. `ended`: it was killed, and is gone."""

    def __init__(self, words: str, ended: bool) -> None:
        super().__init__(words)
        self.ended = ended


def apart(call: Callable[[], Any], seconds: float, grace: float = GRACE_S) -> Any:
    """What `call` returns (as JSON has it), from a process of its own; NodeError in its words for what it raises.

    After `seconds` a NodeError is raised where it waits; Hung when it has not ended `grace` seconds later.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        _child(call, seconds, source, sink)
    os.close(sink)
    try:
        answer = _read(source, time.monotonic() + seconds + grace)
    finally:
        os.close(source)
    if answer is None:
        where = _where(child)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        ended = _reaped(child)
        words = (
            "and was ended" if ended else "and cannot be ended: the kernel holds it, and only a reboot of this machine helps"
        )
        raise Hung(f"no end within {seconds:g} s{where}, {words}", ended)
    os.waitpid(child, 0)
    if not answer:
        raise NodeError("it ended without a word, perhaps for want of memory")
    found = json.loads(answer)
    if "raised" in found:
        raise NodeError(found["raised"])
    return found["result"]


def _child(call: Callable[[], Any], seconds: float, source: int, sink: int) -> None:
    """Never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.close(source)
        # One that cannot be killed must not hold the pipe that whoever asked us reads to its end.
        null = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(null, handle)
        signal.signal(signal.SIGALRM, lambda *_: _late(seconds))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        text = json.dumps(_outcome(call)).encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        while text:
            text = text[os.write(sink, text) :]
        code = 0
    finally:
        os._exit(code)


def _outcome(call: Callable[[], Any]) -> Dict[str, Any]:
    try:
        return {"result": call()}
    except NodeError as error:
        return {"raised": str(error)}
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}


def _late(seconds: float) -> None:
    raise NodeError(f"no end within {seconds:g} s")


def _read(source: int, end: float) -> Any:
    """All that comes; None when it is not over at `end`."""
    found = b""
    while True:
        if not select.select([source], [], [], max(0.0, end - time.monotonic()))[0]:
            return None
        piece = os.read(source, 65536)
        if not piece:
            return found
        found += piece


def _reaped(child: int) -> bool:
    end = time.monotonic() + _GONE_S
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


def _where(child: int) -> str:
    """In what it waits, in words: its command, or the kernel's function."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{child}/task/{child}/children", encoding="ascii") as file:
            command = int(file.read().split()[-1])
        with open(f"/proc/{command}/comm", encoding="utf-8", errors="replace") as file:
            return f" (in {file.read().strip()})"
    with contextlib.suppress(OSError):
        with open(f"/proc/{child}/wchan", encoding="ascii") as file:
            name = file.read().strip()
        return f" (in the kernel's {name})" if name not in ("", "0") else ""
    return ""
