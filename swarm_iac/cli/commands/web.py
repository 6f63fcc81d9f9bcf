"""Which command shows the fleet in a browser? web."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.terminal.screen import say
from swarm_iac.errors import Refused, SwarmError

if TYPE_CHECKING:
    from swarm_iac.web.border import Border
    from swarm_iac.web.sign_in import Listen, Proxy

#: Requests and streams at one time.
_MOST = 600


def web(
    named: Positional = "",
    stack: Stack = "dev",
    listen: Annotated[str, typer.Option("--listen", help="ADDRESS:PORT.")] = "127.0.0.1:8470",
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Who may sign in: NAME TEAM,TEAM TOKEN a line, mode 0600.")
    ] = None,
    proxy_header: Annotated[str, typer.Option("--proxy-header", help="Header with the name that a proxy signed in.")] = "",
    proxy_from: Annotated[str, typer.Option("--proxy-from", help="Address of that proxy; of others it is not believed.")] = "",
    admin: Annotated[
        list[str] | None, typer.Option("--admin", help="With --proxy-header: a name that sees everything; repeat it.")
    ] = None,
    host: Annotated[list[str] | None, typer.Option("--host", help="A name under which browsers reach it; repeat it.")] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="TLS certificate with its key and chain, as PEM.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Ask the nodes, as swarm top does; without it, only files are read.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=5, max=3600, help="With --measure: seconds between two readings.")
    ] = 15.0,
) -> None:
    """Show the fleet in a browser: nodes and cards, workloads and why, plan, shares, limits, usage. Read-only and live.

    Without sign-in it is served on this machine alone, to the account that runs it. People who sign in see commands and reasons
    of their own teams, and names of others; docs/web.md has both ways to sign in. Ctrl-C ends it.

    Examples: swarm web; swarm web prod --measure; swarm web --listen 127.0.0.1:9000 --token-file people
    swarm web --listen 10.0.0.5:8470 --proxy-header X-Remote-User --proxy-from 10.0.0.2 --admin ada --host fleet.example.org
    """
    from swarm_iac.web.sign_in import listen as listening

    place = listening(listen)
    border = _border(place, token_file, _proxy(proxy_header, proxy_from, admin or []), host or [], certificate)
    root, name = engine.repository(), deciding.inside(named or stack)
    from swarm_iac.web.service import Service

    service = Service(root, name, interval if measure else None)
    if measure and service.standing.stack.telemetry is None:
        raise SwarmError(f"nothing is measured in {name}", hint="add `telemetry: {}` to the stack file; see docs/telemetry.md")
    _serve(service, border, certificate)


def _proxy(header: str, address: str, admins: list[str]) -> Proxy | None:
    import ipaddress

    from swarm_iac.web.sign_in import Proxy

    if bool(header) != bool(address):
        raise SwarmError("--proxy-header and --proxy-from go together", hint="a header is believed from one address alone")
    if not header:
        if admins:
            raise SwarmError("--admin needs --proxy-header", hint="in a token file the second word is `admin`")
        return None
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", header) or header.lower() in ("host", "cookie", "authorization"):
        raise SwarmError(f"{header[:64]!r} is no header with a name in it", hint="for example: --proxy-header X-Remote-User")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise SwarmError(f"--proxy-from {address[:64]!r} is no address", hint="for example: --proxy-from 10.0.0.2") from None
    return Proxy(header.lower(), address, frozenset(admins))


def _border(place: Listen, token_file: Path | None, proxy: Proxy | None, hosts: list[str], certificate: Path | None) -> Border:
    """Raises Refused where others could reach it and nobody would ask who they are, or tokens would be sent in clear."""
    from swarm_iac.web.border import Border
    from swarm_iac.web.sign_in import tokens

    if token_file and proxy:
        raise SwarmError("--token-file or --proxy-header, not both")
    if not place.loopback and not token_file and not proxy:
        raise Refused(
            f"{place.host} is reached from other machines, and nobody would have to sign in",
            hint="add --token-file or --proxy-header, or listen on 127.0.0.1",
        )
    if not place.loopback and token_file and not certificate:
        raise Refused(
            "tokens would cross the network in clear", hint="add --certificate, or listen on 127.0.0.1 behind a proxy with TLS"
        )
    people = tokens(token_file) if token_file else None
    return Border(place, people, proxy, frozenset(one.lower() for one in hosts), secure=certificate is not None)


def _serve(service: object, border: Border, certificate: Path | None) -> None:
    import uvicorn

    from swarm_iac.web.application import application
    from swarm_iac.web.service import Service

    assert isinstance(service, Service)
    place = border.listen
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((place.host, place.port))
            taken.listen(256)  # who reads the line below may connect at once
        except OSError as error:
            raise SwarmError(f"{place.host}:{place.port}: {error.strerror}", hint="choose another with --listen") from None
        border.on(taken.getsockname()[1])
        try:
            config = uvicorn.Config(
                application(service, border), log_config=None, access_log=False, server_header=False, date_header=False,
                proxy_headers=False, limit_concurrency=_MOST, timeout_keep_alive=10, timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=16384, ws="none", http="h11", loop="asyncio",
                ssl_certfile=str(certificate) if certificate else None,
            )  # fmt: skip
            config.load()
        except OSError as error:
            raise SwarmError(f"--certificate {certificate}: {error.strerror or error}") from None
        shown = f"[{place.host}]" if ":" in place.host else place.host
        say(f"http{'s'[: certificate is not None]}://{shown}:{border.listen.port}/ shows {service.name}; Ctrl-C ends it")
        uvicorn.Server(config).run(sockets=[taken])


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(web)
