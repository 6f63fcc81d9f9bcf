"""How does the plugin report to the engine: rows, progress, warnings?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc.aio
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, resource_status_pb2_grpc
from pulumi.runtime.proto import resource_status_pb2 as rs

from swarm_iac.printable import printable

#: A message about 1,000 nodes exceeds gRPC's default of 4 MiB.
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def publish(request: Any, steps: Sequence[rs.ViewStep]) -> None:
    """Publish rows of the operation that `request` started."""
    if not steps:
        return
    async with grpc.aio.insecure_channel(request.resource_status_address, options=UNLIMITED) as channel:
        stub = resource_status_pb2_grpc.ResourceStatusStub(channel)
        await stub.PublishViewSteps(rs.PublishViewStepsRequest(token=request.resource_status_token, steps=steps))


class EngineLog:
    """Messages on the row of one resource."""

    def __init__(self, address: str, urn: str) -> None:
        self._address = address
        self._urn = urn
        self._loop = asyncio.get_running_loop()
        self._channel: Any = grpc.aio.insecure_channel(address) if address else None

    async def warn(self, message: str) -> None:
        """A warning that stays in the output."""
        await self._send(engine_pb2.WARNING, message, ephemeral=False)

    async def note(self, message: str) -> None:
        """A line that stays in the output."""
        await self._send(engine_pb2.INFO, message, ephemeral=False)

    def progress(self, message: str) -> None:
        """A line that the next one replaces. May be called from any thread; never waits."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._send(engine_pb2.INFO, message, ephemeral=True), self._loop)

    async def _send(self, severity: engine_pb2.LogSeverity.ValueType, message: str, *, ephemeral: bool) -> None:
        if self._channel is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=printable(message), urn=self._urn, ephemeral=ephemeral)
        try:
            stub: Any = engine_pb2_grpc.EngineStub(self._channel)
            await stub.Log(request)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):
            # An engine that disappears during a run must not stop the current step.
            return

    async def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            await self._channel.close()
