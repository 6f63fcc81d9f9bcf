"""How is a command run that asks a node, so that none says too much, and none outlives who asked?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from swarm_iac.reach.answer import MOST


async def call(argv: tuple[str, ...], sent: bytes) -> tuple[int, bytes, bytes]:
    """Run a command with `sent` as its input: exit status, output, error output. Killed when cancelled.

    Raises ValueError when it says more than any answer of a node may hold.
    """
    # A session of its own: an interrupt at the terminal is for the command that asked, which ends us in its own way.
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE if sent else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout and process.stderr
        out, err, _ = await asyncio.gather(_all_of(process.stdout), _all_of(process.stderr), _send(process.stdin, sent))
        await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # What is left in its pipes is never read, and without that its exit would go unnoticed.
        for pipe in (1, 2):
            process._transport.get_pipe_transport(pipe).close()  # type: ignore[attr-defined]
        await process.wait()
        raise
    return process.returncode or 0, out, err


async def _all_of(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while part := await stream.read(1 << 16):
        found += part
        if len(found) > MOST:
            raise ValueError(f"the node's answer is larger than {MOST >> 20} MiB")
    return bytes(found)


async def _send(stream: asyncio.StreamWriter | None, sent: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading: its status says why
            stream.write(sent)
            await stream.drain()
        stream.close()
