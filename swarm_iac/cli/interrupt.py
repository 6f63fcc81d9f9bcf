"""How does a command end on Ctrl-C? With one line and 130, whatever its other threads are doing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import NoReturn

from swarm_iac.errors import SwarmError

CODE = 128 + signal.SIGINT
#: Name of the thread in which a command decides, while another one shows how far it is.
WORKER = "swarm decides"


class Interrupted(SwarmError):
    """The user ended the command; the message says what became of its work."""

    exit_code = CODE


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
