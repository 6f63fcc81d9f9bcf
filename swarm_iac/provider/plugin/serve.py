"""How does a plugin of the engine start, and how does it exit silently?

The engine starts it, reads a port from its first line, and stops it with SIGINT and, a second later, SIGKILL. Ctrl-C reaches
it too, because it shares the terminal. So SIGINT stops an idle plugin at once, and asks a busy one to finish its current
step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc.aio

from swarm_iac.provider.plugin import in_flight, process_identity
from swarm_iac.provider.plugin.caller import OnlyOwner
from swarm_iac.provider.plugin.engine_log import UNLIMITED
from swarm_iac.run_options import RunOptions

#: How often to check whether the engine is still there. [s]
_WATCH = 1.0


class Busy:
    """Is a change in flight, and has it been asked to stop? `file`: see in_flight."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.stop = threading.Event()
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """The plugin does not exit inside."""
        self._count += 1
        self._idle.clear()
        in_flight.began(self._file)
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                in_flight.ended(self._file)
                self._idle.set()

    @property
    def idle(self) -> bool:
        return self._idle.is_set()

    async def until_idle(self) -> None:
        """Wait for the current step."""
        await self._idle.wait()


async def serve(
    register: Callable[[grpc.aio.Server, Busy], None], options: RunOptions, warm: Callable[[], object] | None = None
) -> None:
    """Serve until the engine is done. `warm` loads what the first calls need while the engine is still busy."""
    busy = Busy(options.in_flight)
    process_identity.note(os.getppid(), options.state_home)
    owner = OnlyOwner()
    server = grpc.aio.server(interceptors=(owner,), options=UNLIMITED)
    register(server, busy)
    port = owner.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupted, busy)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    if warm is not None:
        threading.Thread(target=warm, daemon=True).start()
    await _until_engine_gone()
    busy.stop.set()
    await busy.until_idle()


def _interrupted(busy: Busy) -> None:
    busy.stop.set()
    if busy.idle:
        # Nothing needs closing, and threads that only read must not block the terminal.
        os._exit(0)


async def _until_engine_gone() -> None:
    """Returns when the parent process is gone (kill -9): there is nobody left to serve."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(_WATCH)
