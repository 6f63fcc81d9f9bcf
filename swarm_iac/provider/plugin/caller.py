"""Who may call a plugin's port? Only the account that runs it, although the port is open to every account of this host.

The engine calls its plugins without credentials, but the kernel knows the owner of each loopback connection.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class OnlyOwner(grpc.aio.ServerInterceptor):  # type: ignore[misc, type-arg, unused-ignore]
    """Rejects calls from other accounts than `owner`. Without the kernel's tables, it rejects none."""

    def __init__(self, owner: int | None = None) -> None:
        self._owner = os.geteuid() if owner is None else owner
        self.port = 0
        """The served port, once known: two connections may share the port number of their other end."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Wraps what answers the call."""
        found = await continuation(details)
        if found is None or not found.unary_unary:
            return None  # the engine's protocols that we serve have no streams

        async def answer(request: Any, context: Any) -> Any:
            if account(context.peer(), self.port) not in (self._owner, None):
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this port is for the engine of another account")
            return await found.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, found.request_deserializer, found.response_serializer)


def account(peer: str, served: int = 0) -> int | None:
    """The account at the other end of a connection to the served port; -1: nobody's, None: unknown."""
    if not _TABLES[0].exists():
        return None
    port = peer.rpartition(":")[2]
    if not port.isdecimal():
        return -1
    for table in _TABLES:
        try:
            rows = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            # Its own end, on the loopback, of a connection that is open.
            (host, own), other = words[1].split(":"), words[2].split(":")[1]
            here = host.endswith(("00007F", "01000000")) and words[3] == "01"
            if here and int(own, 16) == int(port) and int(other, 16) == (served or int(other, 16)):
                return int(words[7])
    return -1
