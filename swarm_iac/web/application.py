"""Which address shows what? The routes, and how a page is made and compressed."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import html
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from swarm_iac.errors import SwarmError
from swarm_iac.pluralize import pluralize
from swarm_iac.printable import printable
from swarm_iac.web import cards, past, views
from swarm_iac.web.border import SIGN_IN, SIGN_OUT, Border, Gate
from swarm_iac.web.questions import CommandAnswer
from swarm_iac.web.rights import Viewer
from swarm_iac.web.service import Service

_HERE = Path(__file__).parent
_STATIC = {"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
#: Pages in the order of the navigation.
PAGES = (
    ("/", "Fleet"), ("/workloads", "Workloads"), ("/pending", "Pending"), ("/plan", "Plan"), ("/shares", "Shares"),
    ("/limits", "Limits"), ("/usage", "Usage"), ("/changes", "Changes"),
)  # fmt: skip
_POLICY = re.compile(r'<meta http-equiv="?Content-Security-Policy"? content="([^"]+)"')
_PAGE_BYTES = 64 << 20


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "template"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    found.filters["pluralize"] = pluralize
    return found


def _shown(value: Any) -> Any:
    """Text of others without characters that turn its order; what is escaped already has none."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class Pages:
    """The pages of one stack, for those whom the border lets pass."""

    def __init__(self, service: Service, border: Border) -> None:
        self.service, self.border = service, border
        self.plans = tempfile.TemporaryDirectory(prefix="swarm-web-")

    def routes(self) -> list[Route]:
        """All of them; a test asks each one of them as somebody of another team."""
        return [
            Route("/", self.fleet), Route("/nodes/{node}", self.node), Route("/workloads", self.workloads),
            Route("/workloads/{workload}", self.workload), Route("/pending", self.pending), Route("/plan", self.plan),
            Route("/plan/picture", self.picture), Route("/shares", self.shares), Route("/limits", self.limits),
            Route("/usage", self.usage), Route("/changes", self.changes), Route("/events", self.events),
            Route(SIGN_IN, self.sign_in, methods=["GET", "POST"]), Route(SIGN_OUT, self.sign_out, methods=["POST"]),
            Route("/static/{file}", self.static),
        ]  # fmt: skip

    async def fleet(self, request: Request) -> Response:
        """Racks, nodes, cards."""
        by = request.query_params.get("by", "team")
        if by not in cards.WAYS:
            raise HTTPException(404, "There is no such colouring.")
        found = await self.service.kept(lambda: self._map(by), "map", by)
        attention = list(views.attention(self.service.standing, self.service.measured))
        return await self._page(request, "fleet.html", "Fleet", map=found, by=by, ways=cards.WAYS, attention=attention)

    def _map(self, by: str) -> Markup:
        """The same for everyone: names of teams and nodes alone."""
        found = cards.cards(self.service.standing, by, self.service.measured.nodes)
        return Markup(_templates().get_template("map.html").render(fleet=found, count=len(self.service.standing.stack.nodes)))

    async def node(self, request: Request) -> Response:
        """One node."""
        name, standing = request.path_params["node"], self.service.standing
        if name not in standing.stack.nodes:
            raise HTTPException(404, "There is no such node in the stack file.")
        about = views.node(standing, self._viewer(request), name, self.service.measured)
        return await self._page(request, "node.html", name, node=about)

    async def workloads(self, request: Request) -> Response:
        """The list, with a search."""
        return await self._list(request, "Workloads", pending=False)

    async def pending(self, request: Request) -> Response:
        """What waits."""
        return await self._list(request, "Pending", pending=True)

    async def _list(self, request: Request, title: str, *, pending: bool) -> Response:
        words, viewer, standing = request.query_params.get("q", ""), self._viewer(request), self.service.standing
        rows, count = await asyncio.to_thread(views.workloads, standing, viewer, words, pending)
        waits = {row.name: standing.waits(row.name) for row in rows if row.mine} if pending else {}
        reasons = {name: [each.text for each in one.reasons] for name, one in waits.items() if one}
        return await self._page(request, "workloads.html", title, rows=rows, count=count, words=words, reasons=reasons,
                                pending=pending, action=request.url.path)  # fmt: skip

    async def workload(self, request: Request) -> Response:
        """One workload; `swarm why` of it only for those who may see it."""
        name, standing, viewer = request.path_params["workload"], self.service.standing, self._viewer(request)
        if name not in standing.stack.workloads:
            raise HTTPException(404, "There is no such workload in the stack file.")
        about, why, no_past = views.workload(standing, viewer, name), None, ""
        before: tuple[past.Placed, ...] = ()
        if about["mine"]:
            why = self.service.ask("why", name, "--stack", self.service.name, "--json", "--offline")
            try:
                work = partial(past.placements, self.service.reader.root, self.service.reader.files, name)
                before = await self.service.kept(work, "past", name)
            except (SwarmError, ValueError) as error:
                no_past = str(error)
        stack = self.service.name
        return await self._page(request, "workload.html", name, work=about, why=why, waiting=about["mine"] and why is None,
                                past=before, no_past=no_past, option="" if stack == "dev" else f" --stack {stack}")  # fmt: skip

    def _planned(self, viewer: Viewer) -> tuple[CommandAnswer | None, Path]:
        """`swarm plan --offline`: with all details for administrators, with names alone for others."""
        kind = "all" if viewer.admin else "names"
        file = Path(self.plans.name) / f"{self.service.version}-{kind}.html"
        words = ["plan", self.service.name, "--offline", "--json", "--no-candidate", "--html", str(file)]
        return self.service.ask(*words, *([] if viewer.admin else ["--no-details"])), file

    async def plan(self, request: Request) -> Response:
        """What `swarm up` would do."""
        answer, _ = self._planned(self._viewer(request))
        return await self._page(request, "plan.html", "Plan", answer=answer, waiting=answer is None)

    async def picture(self, request: Request) -> Response:
        """The page that a pull request's check writes, under its own policy, which allows its own script by digest."""
        answer, file = self._planned(self._viewer(request))
        if answer is None or not file.is_file():
            raise HTTPException(404, "This plan is not there yet; open Plan first.")
        text = await asyncio.to_thread(file.read_text)
        own = _POLICY.search(text)
        if own is None or len(text) > _PAGE_BYTES:
            raise HTTPException(500, "The page of this plan cannot be shown.")
        policy = f"{html.unescape(own[1])}; frame-ancestors 'none'"
        return _answered(request, text, headers={"content-security-policy": policy})

    async def shares(self, request: Request) -> Response:
        """What each team is due."""
        answer = self.service.ask("shares", self.service.name, "--json")
        return await self._page(request, "shares.html", "Shares", answer=answer, waiting=answer is None)

    async def limits(self, request: Request) -> Response:
        """What is used of each limit."""
        standing, viewer = self.service.standing, self._viewer(request)
        rows = await asyncio.to_thread(views.limits, standing, viewer, datetime.date.today())
        return await self._page(request, "limits.html", "Limits", rows=rows)

    async def usage(self, request: Request) -> Response:
        """GPU-hours of the last 30 days by team."""
        answer = self.service.ask("usage", self.service.name, "--json", "--since", "30d", "--by", "team")
        return await self._page(request, "usage.html", "Usage", answer=answer, waiting=answer is None)

    async def changes(self, request: Request) -> Response:
        """Commits of the stack file and the lock; of administrators' questions to the nodes, their runs and differences."""
        service, viewer = self.service, self._viewer(request)
        found, error = tuple[past.Commit, ...](), ""
        try:
            work = partial(past.commits, service.reader.root, service.reader.files)
            found = await service.kept(work, "commits")
        except SwarmError as wrong:
            error = str(wrong)
        asks = viewer.admin and service.every is not None
        drift = service.ask("drift", "--stack", service.name, "--json", "--dry-run") if asks else None
        runs = service.ask("history", service.name, "--json") if asks else None
        return await self._page(request, "changes.html", "Changes", commits=found, error=error, asks=asks, drift=drift,
                                rows=list(views.runs(runs.document or [])) if runs else [],
                                runs=runs, waiting=asks and (drift is None or runs is None))  # fmt: skip

    async def events(self, request: Request) -> Response:
        """Server-sent events; what changed is then asked for as a page."""
        who = self._viewer(request).name
        if self.service.live.full(who):
            return Response("Too many pages are open.\n", 503, media_type="text/plain")
        headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
        return StreamingResponse(self.service.live.events(who), media_type="text/event-stream", headers=headers)

    async def sign_in(self, request: Request) -> Response:
        """The form, and where it is sent."""
        if request.method == "POST":
            return await self.border.sign_in(request, lambda why, code: self._form(request, why, code))
        return self._form(request, "", 200)

    async def sign_out(self, request: Request) -> Response:
        """Ends the session."""
        return self.border.sign_out(request)

    def _form(self, request: Request, why: str, code: int) -> Response:
        return _answered(request, _templates().get_template("sign_in.html").render(why=why), code)

    async def static(self, request: Request) -> Response:
        """Style and script, which have nothing of anybody in them."""
        name = request.path_params["file"]
        if name not in _STATIC:
            raise HTTPException(404, "There is no such file.")
        text = (_HERE / "static" / name).read_text()
        return _answered(request, text, headers={"content-type": _STATIC[name], "cache-control": "max-age=300"})

    async def wrong(self, request: Request, error: Exception) -> Response:
        """An address that shows nothing."""
        code, why = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "This page failed.")
        return await self._page(request, "wrong.html", "Not shown", code, why=why)

    def _viewer(self, request: Request) -> Viewer:
        found: Viewer = request.scope["viewer"]
        return found.within(self.service.standing.stack)

    async def _page(self, request: Request, template: str, title: str, code: int = 200, **values: Any) -> Response:
        service = self.service
        known = {
            "title": title, "pages": PAGES, "path": request.url.path, "viewer": request.scope.get("viewer"),
            "fleet": service.standing.stack.fleet, "stack": service.name, "stale": service.standing.stale,
            "error": service.standing.error, "measured": service.measured, "every": service.every, "waiting": False,
            "number": service.live.number, "signs_out": self.border.tokens is not None, "urlencode": urlencode,
        }  # fmt: skip
        text = await asyncio.to_thread(_templates().get_template(template).render, {**known, **values})
        return _answered(request, text, code)


def _answered(request: Request, text: str, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """As HTML, compressed where the browser takes that. No page has a secret beside text that somebody else chooses."""
    data, found = text.encode(), {"content-type": "text/html; charset=utf-8", "vary": "accept-encoding", **(headers or {})}
    if "gzip" in request.headers.get("accept-encoding", ""):
        data, found["content-encoding"] = gzip.compress(data, 6, mtime=0), "gzip"
    return Response(data, code, found)


def application(service: Service, border: Border) -> Starlette:
    """The whole of it, as ASGI."""
    pages = Pages(service, border)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield
        pages.plans.cleanup()

    return Starlette(
        routes=pages.routes(), middleware=[Middleware(Gate, border=border)], lifespan=lifespan,
        exception_handlers={HTTPException: pages.wrong, 500: pages.wrong},
    )  # fmt: skip
