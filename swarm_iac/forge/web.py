"""How is a forge asked over http? As one account, in bounded answers, with a token that goes to this forge only."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from swarm_iac.errors import Refused, Retryable
from swarm_iac.printable import printable

#: The largest answer that is read. [bytes]
MAX_BYTES = 8 << 20
#: The most that is read of one list, in pages of so many. [entries]
MAX_ENTRIES, PAGE = 3_000, 50
#: Waits before the second and third try of a question that may be asked twice. [s]
_WAITS = (0.5, 2.0)
_TIMEOUT = 30
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Reply(BaseModel):
    """A part of a forge's answer: the fields that are used, with their types; what else it says is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


_Some = TypeVar("_Some", bound=Reply)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: urllib would send the token along, also to another host."""

    def redirect_request(self, *_: Any) -> None:
        """None: do not follow."""


class Web:
    """One forge's interface. `header`: name and value that carry the token; neither is ever shown. `more`: further headers."""

    def __init__(
        self, root: str, header: tuple[str, str], more: Mapping[str, str] | None = None, *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        where = urlsplit(root)
        if where.scheme not in ("http", "https") or not where.hostname or where.username or where.query or where.fragment:
            raise Refused("the address of the forge is not one", hint="write https://HOST, without an account or a token in it")
        near = where.hostname in _LOOPBACK
        if where.scheme == "http" and not near:
            raise Refused(
                f"{printable(root, 80)} is not encrypted, and the token would be readable on its way", hint="use https"
            )
        self.root, self.host, self._secret, self._pause = root.rstrip("/"), where.hostname, header[1], pause
        self._headers = {"Accept": "application/json", "User-Agent": "swarm-iac", **(more or {}), header[0]: header[1]}
        proxies = [urllib.request.ProxyHandler({})] if near else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def get(self, path: str, what: type[_Some], **query: object) -> _Some:
        """One answer, checked."""
        return self.checked(path, what, self._repeated("GET", path, query=query))

    def find(self, path: str, what: type[_Some], **query: object) -> _Some | None:
        """The same; None if there is no such thing (404)."""
        try:
            return self.get(path, what, **query)
        except NotFound:
            return None

    def all(self, path: str, what: type[_Some], *, size: str = "per_page", **query: object) -> Iterator[_Some]:
        """Every entry of a list, page by page, in the order of the forge. `size`: its name for the length of a page."""
        for page in range(1, MAX_ENTRIES // PAGE + 1):
            found = self.list(path, what, **query, **{size: PAGE, "page": page})
            yield from found
            if not found:  # not at the first short page: a forge may have a lower limit of its own
                return
        raise Refused(f"{self.host}: {path} has more than {MAX_ENTRIES} entries", hint="that many are not read")

    def list(self, path: str, what: type[_Some], **query: object) -> tuple[_Some, ...]:
        """A list that comes in one answer."""
        found = self._repeated("GET", path, query=query)
        if not isinstance(found, list) or len(found) > MAX_ENTRIES:
            raise Refused(f"{self.host} answered {path} with something that is no list of at most {MAX_ENTRIES} entries")
        return tuple(self.checked(path, what, one) for one in found)

    def send(self, method: str, path: str, *, again: bool = False, **body: object) -> Any:
        """Change something. `again`: doing it twice is the same as once, so it is repeated if the forge is away."""
        return self._repeated(method, path, body=json.dumps(body).encode()) if again else self.once(
            method, path, json.dumps(body).encode()
        )  # fmt: skip

    def once(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        """One exchange: the JSON of the answer, or None if it is empty. Raises Refused, Retryable."""
        headers = {**self._headers, **({"Content-Type": kind} if body is not None else {})}
        request = urllib.request.Request(self.root + path, data=body, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                raw = answer.read(MAX_BYTES + 1)
                if answer.length and len(raw) <= MAX_BYTES:
                    raise http.client.IncompleteRead(raw, answer.length)
                return self._json(path, raw)
        except urllib.error.HTTPError as error:
            with error:
                raise self._said_no(path, error, error.read(4096)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Retryable(f"{self.host} does not answer: {self._safe(str(error))}", after=30) from None

    def _repeated(self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: bytes | None = None) -> Any:
        where = f"{path}?{urlencode(query)}" if query else path
        for wait in _WAITS:
            try:
                return self.once(method, where, body)
            except Retryable:
                self._pause(wait)
        return self.once(method, where, body)

    def _json(self, path: str, raw: bytes) -> Any:
        if len(raw) > MAX_BYTES:
            raise Refused(f"{self.host} answered {path} with more than {MAX_BYTES >> 20} MiB")
        try:
            return json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            raise Refused(f"{self.host} answered {path} with something that is not JSON") from None

    def checked(self, path: str, what: type[_Some], found: object) -> _Some:
        """An answer with its fields and types checked. Raises Refused naming the field, not its value."""
        try:
            return what.model_validate(found)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise Refused(f"{self.host} answered {path} as no forge of this kind does: {printable(where, 80)}") from None

    def _said_no(self, path: str, error: urllib.error.HTTPError, raw: bytes) -> Refused | Retryable:
        said = _said(raw) or str(error.reason)
        text = f"{self.host} answered {path.partition('?')[0]} with {error.code}: {self._safe(said)}"
        if error.code == 404:
            return NotFound(text)
        limited = error.code == 403 and error.headers.get("x-ratelimit-remaining") == "0"
        if error.code in (408, 429) or error.code >= 500 or limited:
            after = error.headers.get("Retry-After", "")
            return Retryable(text, after=float(after) if re.fullmatch(r"[0-9]{1,5}", after) else 60)
        if 300 <= error.code < 400:
            return Refused(text, hint="it sends elsewhere, and the token is not sent along: name the address it has now")
        if error.code in (401, 403):
            return Refused(text, hint="the token is missing, has ended, or may not do this: see docs/forges.md")
        return Refused(text)

    def _safe(self, text: str) -> str:
        """Someone else's words, cut, without the token: a forge may repeat what it was sent."""
        for part in (self._secret, self._secret.rpartition(" ")[2]):
            text = text.replace(part, "***") if part else text
        return printable(text, 200)


def _said(raw: bytes) -> str:
    """The message of an answer that says no; GitHub's own is `Validation Failed`, and why is in the list beside it."""
    try:
        answer = json.loads(raw)
        message = str(answer["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    errors = answer.get("errors")
    why = [one.get("message") for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return "; ".join([message, *(one for one in why if isinstance(one, str))])


class NotFound(Refused):
    """There is no such thing, or this account may not see it."""


def form(field: str, name: str, data: bytes) -> tuple[str, bytes]:
    """A file as the only field of a form (RFC 7578): content type and body."""
    edge = secrets.token_hex(16)
    head = f'--{edge}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
    kind = "Content-Type: application/octet-stream\r\n\r\n"
    return f"multipart/form-data; boundary={edge}", f"{head}{kind}".encode() + data + f"\r\n--{edge}--\r\n".encode()
