"""Who may read this node's values over the network, and how are they answered? HTTP from the sampler's files, to the scrapers.

It has no rights: an account of its own for as long as it runs, no device, no capability. It parses one line, answers, and
closes; whoever is slow is cut off, and whoever is not a scraper is closed on before a byte is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import Any, List, Tuple, Union

from ..machine import systemd
from .answer import Files
from .families import CONTENT_TYPE
from .sampler import FOLDER

#: From the connection to the end of the answer, and the most that a request may be. [s], [bytes]
_DEADLINE_S, _MOST = 5.0, 8192
#: Connections at the same time.
_AT_ONCE = 16
_LOOPBACK = ("127.0.0.0/8", "::1/128")
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Server:
    """One listening exporter. `scrapers`: addresses or networks; none: this machine alone may ask."""

    def __init__(self, scrapers: List[str], folder: str = FOLDER, root: str = "/") -> None:
        self.allowed: List[Network] = [ipaddress.ip_network(one, strict=False) for one in scrapers or _LOOPBACK]
        self.files = Files(folder, root)
        self.open = 0

    def may(self, peer: str) -> bool:
        """Is this address one of the scrapers'? An IPv4 address may come in the form of IPv6."""
        try:
            address: Any = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address.version == network.version and address in network for network in self.allowed)

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        peer = writer.get_extra_info("peername")
        self.open += 1
        try:
            if peer and self.may(peer[0]) and self.open <= _AT_ONCE:
                await asyncio.wait_for(self._answer(reader, writer), _DEADLINE_S)
        except (asyncio.TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.open -= 1
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path = self._asked(head)
        status, kind, body = self._page(method, path)
        lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close", "", "")
        writer.write("\r\n".join(lines).encode("ascii") + (b"" if method == "HEAD" else body))
        await writer.drain()

    @staticmethod
    def _asked(head: bytes) -> Tuple[str, str]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        return (words[0], words[1].partition("?")[0]) if len(words) == 3 and words[2].startswith("HTTP/1.") else ("", "")

    def _page(self, method: str, path: str) -> Tuple[str, str, bytes]:
        """Status, type and text. What was asked for is never repeated."""
        plain = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return ("405 Method Not Allowed", plain, b"GET /metrics\n") if method else ("400 Bad Request", plain, b"")
        if path != "/metrics":
            return "404 Not Found", plain, b"GET /metrics\n"
        return "200 OK", CONTENT_TYPE, self.files.page().encode()

    async def listen(self, port: int) -> asyncio.AbstractServer:
        """Loopback alone without scrapers, else every address of this machine."""
        loopback = [str(network.network_address + (1 if network.version == 4 else 0)) for network in self.allowed]
        where = None if self.allowed != [ipaddress.ip_network(one) for one in _LOOPBACK] else loopback
        try:
            return await asyncio.start_server(self.client, where, port, limit=_MOST)
        except OSError:
            if where is None:
                raise
            return await asyncio.start_server(self.client, where[0], port, limit=_MOST)  # a machine without IPv6


def serve(port: int, scrapers: List[str], folder: str = FOLDER, root: str = "/") -> int:
    """Answer until the process is ended."""

    async def forever() -> None:
        server = await Server(scrapers, folder, root).listen(port)
        async with server:
            systemd.ready()  # the port is ours: whoever started us waits for it, and hears why if it is not to be had
            await server.serve_forever()

    asyncio.run(forever())
    return 0
