"""Which requests are answered at all, by whom, and with which headers? Everything passes here before a page is made."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_iac.provider.plugin.caller import account
from swarm_iac.web.rights import Viewer
from swarm_iac.web.sign_in import SESSION_S, Listen, Proxy, Sessions, Throttle, Tokens

#: Nothing from elsewhere, no script or style in a page, no frame around one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin", "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}  # fmt: skip
COOKIE = "swarm_session"
#: The largest form, and how long somebody may take to send it. [bytes], [s]
_FORM_BYTES, _FORM_S = 4096, 10.0
SIGN_IN, SIGN_OUT, STATIC = "/sign-in", "/sign-out", "/static/"
#: Who may look without signing in: the account that runs this, from this machine.
OWNER = Viewer("operator", admin=True)


@dataclass
class Border:
    """How people sign in, and under which names this is reached. Neither tokens nor a proxy: only the own account."""

    listen: Listen
    tokens: Tokens | None = None
    proxy: Proxy | None = None
    hosts: frozenset[str] = frozenset()
    secure: bool = False
    sessions: Sessions = field(default_factory=lambda: Sessions(time.monotonic))
    throttle: Throttle = field(default_factory=lambda: Throttle(time.monotonic))

    def on(self, port: int) -> None:
        """The port that the kernel gave, where 0 was asked for."""
        self.listen = replace(self.listen, port=port)

    def viewer(self, request: Request) -> Viewer | None:
        """Who is asking, if that is known."""
        peer = request.client.host if request.client else ""
        if self.proxy:
            return self.proxy.of(peer, request.headers.getlist(self.proxy.header))
        if self.tokens:
            return self.sessions.of(request.cookies.get(COOKIE, ""))
        port = request.client.port if request.client else 0
        return OWNER if account(f"{peer}:{port}", self.listen.port) == os.geteuid() else None  # unknown is nobody

    def known(self, host: str) -> bool:
        """Is this one of our names? A page elsewhere could have its own name lead to this address."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        ours = {"localhost", "127.0.0.1", "::1"} if self.listen.loopback else {self.listen.host}
        return name in ours | self.hosts

    def from_here(self, request: Request) -> bool:
        """Was a form sent by a page of ours? Browsers say so themselves; without a referrer their origin is `null`."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")

    async def sign_in(self, request: Request, refused: Callable[[str, int], Response]) -> Response:
        """Takes a form with a token. `refused`: makes the page that says why it was not."""
        peer = request.client.host if request.client else ""
        if self.tokens is None or not self.from_here(request):
            return refused("This form was not sent by this page.", 403)
        if self.throttle.waits(peer):
            return refused("Too many attempts. Wait a minute.", 429)
        data = await _body(request)
        given = parse_qs((data or b"").decode("utf-8", "replace")).get("token", [""])[0].strip()
        found = self.tokens.of(given)
        if found is None:
            self.throttle.failed(peer)
            return refused("There is no such token.", 403)
        answer = RedirectResponse("/", 303)
        word = self.sessions.begin(found)
        answer.set_cookie(COOKIE, word, SESSION_S, path="/", secure=self.secure, httponly=True, samesite="strict")
        return answer

    def sign_out(self, request: Request) -> Response:
        """Ends the session of this browser."""
        if not self.from_here(request):
            return PlainTextResponse("This form was not sent by this page.\n", 403)
        self.sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse(SIGN_IN, 303)
        answer.delete_cookie(COOKIE, path="/", secure=self.secure, httponly=True, samesite="strict")
        return answer


async def _body(request: Request) -> bytes | None:
    """A form, if it is small and comes soon."""
    found = bytearray()

    async def read() -> bytes | None:
        async for part in request.stream():
            found.extend(part)
            if len(found) > _FORM_BYTES:
                return None
        return bytes(found)

    try:
        return await asyncio.wait_for(read(), _FORM_S)
    except TimeoutError:
        return None


class Gate:
    """Answers what may not pass, puts who asks into `scope["viewer"]`, and adds the headers to each answer."""

    def __init__(self, app: ASGIApp, border: Border) -> None:
        self.app, self.border = app, border

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Each request, by the protocol of ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                has = {name.lower() for name, _ in headers}
                extra = {**_HEADERS, "content-security-policy": POLICY, "cache-control": "no-store"}
                headers += [(key.encode(), value.encode()) for key, value in extra.items() if key.encode() not in has]
            await send(message)

        request = Request(scope, receive)
        await (self._refusal(request) or self.app)(scope, receive, sent)

    def _refusal(self, request: Request) -> Response | None:
        path, method = request.url.path, request.method
        if not self.border.known(request.headers.get("host", "")):
            return PlainTextResponse("Not served under this name; see: swarm web --help (--host)\n", 421)
        allowed = ("GET", "HEAD") if path not in (SIGN_IN, SIGN_OUT) else ("GET", "HEAD", "POST")
        if method not in allowed:
            return PlainTextResponse("This page is read-only.\n", 405, {"allow": ", ".join(allowed)})
        if path.startswith(STATIC):
            return None
        request.scope["viewer"] = viewer = self.border.viewer(request)
        if viewer or (path == SIGN_IN and self.border.tokens):
            return None
        if self.border.tokens and method != "POST" and path != "/events":
            return RedirectResponse(SIGN_IN, 303)
        return PlainTextResponse("Sign in first.\n" if self.border.tokens else "Not for you.\n", 403)
