"""Does a program that is started from a busy plugin always begin? A child lost at the fork is a wave of steps not done."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_BUSY = """
import asyncio, os, pty, sys
from swarm_iac.provider.plugin.lazy_imports import without_fork_handlers
without_fork_handlers()
import grpc.aio

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ask = grpc.aio.insecure_channel(f"127.0.0.1:{port}").unary_unary("/none/none")

    async def chat():
        while True:
            try:
                await ask(b"")
            except grpc.aio.AioRpcError:
                pass

    def forks():
        lost = 0
        for _ in range(200):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execv("/bin/true", ["true"])
            lost += os.waitpid(pid, 0)[1] != 0
            os.close(terminal)
        return lost

    talk = asyncio.create_task(chat())
    print(await asyncio.to_thread(forks), flush=True)
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.engine
def test_no_child_is_lost_at_the_fork() -> None:
    # Not as this process has it: then it would hold without the call above.
    kept = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    done = subprocess.run([sys.executable, "-c", _BUSY], capture_output=True, text=True, timeout=120, env=kept)
    assert done.stdout.strip() == "0", done.stdout + done.stderr[-2000:]


def test_too_late_is_said() -> None:
    late = "import grpc; from swarm_iac.provider.plugin.lazy_imports import without_fork_handlers; without_fork_handlers()"
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, timeout=60)
    assert "gRPC is imported already" in done.stderr, done.stderr
