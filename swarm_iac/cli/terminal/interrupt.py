"""How does a command end on Ctrl-C? With one line and 130, whatever its other threads are doing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

from swarm_iac.errors import SwarmError

CODE = 128 + signal.SIGINT
WORD = "interrupted\n"
#: Name of the thread in which a command decides, while another one shows how far it is.
WORKER = "swarm decides"
_begun = threading.Event()


class Interrupted(SwarmError):
    """The user ended the command; the message says what became of its work."""

    exit_code = CODE


def raised(number: int, frame: FrameType | None) -> None:
    """Handler of SIGINT: KeyboardInterrupt, as Python's own; but where a module is being loaded the process ends here.

    Who loads code may swallow the exception (compiled modules do), or leave half a module behind. Nothing is begun there
    yet: who begins something that must be ended well calls `begun` first.
    """
    if not _begun.is_set():
        while frame is not None and "importlib" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            os.write(2, WORD.encode())
            os._exit(CODE)
    raise KeyboardInterrupt


def begun() -> None:
    """From here on an interrupt is an exception wherever it comes, since something has to be ended well."""
    _begun.set()


def by_hand(end: BaseException) -> bool:
    """Is it an exit that a KeyboardInterrupt was turned into on its way up?"""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def leave(code: int) -> NoReturn:
    """End the process. A thread that is deep in a solver is not waited for, nor is what it works on taken away from it."""
    if all(thread.name != WORKER for thread in threading.enumerate()):
        raise SystemExit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
