"""How does a command end on Ctrl-C? With one line and exit code 130, whatever its other threads are doing."""

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
#: Name of the thread that decides while another one shows progress.
WORKER = "swarm decides"
_begun = threading.Event()


class Interrupted(SwarmError):
    """The user stopped the command; the message says what became of its work."""

    exit_code = CODE


def raised(number: int, frame: FrameType | None) -> None:
    """Handler of SIGINT: KeyboardInterrupt, like Python's own, except that the process exits while a module is loading.

    A loader may swallow the exception (compiled modules do) or leave half a module behind. Nothing has been started yet:
    code that starts something which needs cleaning up calls `begun` first.
    """
    if not _begun.is_set():
        while frame is not None and "importlib" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            os.write(2, WORD.encode())
            os._exit(CODE)
    raise KeyboardInterrupt


def begun() -> None:
    """From here on an interrupt is always an exception, since something needs cleaning up."""
    _begun.set()


def by_hand(end: BaseException) -> bool:
    """Is this exit a KeyboardInterrupt that was converted on its way up?"""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def leave(code: int) -> NoReturn:
    """Exit. A thread deep in the solver is neither waited for nor deprived of its data."""
    if all(thread.name != WORKER for thread in threading.enumerate()):
        raise SystemExit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
