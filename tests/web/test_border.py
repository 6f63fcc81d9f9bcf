"""Does each request meet the border: names, methods, headers, forms, guesses?"""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from tests.web.conftest import TOKENS, Served, serving
from tests.web.test_rights import ADDRESSES


@pytest.mark.parametrize("path", [*ADDRESSES, "/nope", "/static/../sign_in.py", "/static/style.css"])
def test_every_answer_has_the_headers(own: Served, path: str) -> None:
    found = own.ask(path, most=10)  # an event comes at once, and the next one when something changes
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert found.headers["x-content-type-options"] == "nosniff" and found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == ("max-age=300" if path in ("/static/style.css", "/static/page.js") else "no-store")
    assert found.status < 500 and "server" not in found.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_is_changed_by_any_method(own: Served, method: str) -> None:
    for path in ("/", "/workloads/chat", "/events", "/static/style.css"):
        assert own.ask(path, method).status == 405


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example:80"])
def test_another_name_is_not_answered(own: Served, host: str) -> None:
    """A page elsewhere could have its name lead here (DNS rebinding)."""
    assert own.ask("/", host=host).status in (400, 421)
    assert own.ask("/", host=f"localhost:{own.port}").status == 200


def test_who_has_not_signed_in_sees_the_form_alone(signed: Served) -> None:
    for path in (one for one in ADDRESSES if not one.startswith("/static")):
        found = signed.ask(path)
        assert (found.status, found.headers.get("location")) == (303, "/sign-in") or path in (
            "/events",
            "/sign-in",
            "/sign-out",
        )
        assert path == "/sign-in" or found.status in (303, 403, 405)
        assert "gpu" not in found.text.lower() and "chat" not in found.text and "<nav" not in found.text


def test_a_session_is_for_this_page_alone(signed: Served) -> None:
    found = signed.ask("/sign-in", "POST", f"token={TOKENS['ada']}")
    assert found.status == 303
    words = {word.strip().lower() for word in found.cookies[0].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= words
    cookie = found.cookies[0].partition(";")[0]
    assert signed.ask("/", cookie=cookie).status == 200
    assert signed.ask("/sign-out", "POST", "", cookie=cookie, origin="http://evil.example").status == 403
    assert signed.ask("/sign-out", "POST", "", cookie=cookie).status == 303
    assert signed.ask("/", cookie=cookie).status == 303


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec_fetch_site": "cross-site"}])
def test_a_form_from_elsewhere_is_not_taken(signed: Served, headers: dict[str, str]) -> None:
    found = signed.ask("/sign-in", "POST", f"token={TOKENS['ada']}", **headers)
    assert found.status == 403 and not found.cookies


def test_guesses_end_in_a_wait(lab: Path) -> None:
    from tests.web.conftest import token_file

    with serving(lab, "--token-file", str(token_file(lab))) as served:
        assert served.ask("/sign-in", "POST", "token=" + "x" * 10_000).status == 403
        codes = [served.ask("/sign-in", "POST", f"token=guess{i}").status for i in range(6)]
        assert codes == [403] * 4 + [429] * 2
        # Nor is the right one looked at, so that nobody learns anything by guessing on.
        assert served.ask("/sign-in", "POST", f"token={TOKENS['ada']}").status == 429


def test_a_proxy_says_who_it_is(lab: Path) -> None:
    with serving(lab, "--proxy-header", "X-Remote-User", "--proxy-from", "127.0.0.1", "--host", "fleet.example.org") as served:
        assert served.ask("/", x_remote_user="ada").status == 200
        assert served.ask("/", x_remote_user="ada", host="fleet.example.org").status == 200
        assert served.ask("/").status == 403
        assert "secret-of-research" in served.ask("/workloads/tune", x_remote_user="eve").text
        assert "secret-of-research" not in served.ask("/workloads/tune", x_remote_user="cy").text
    with serving(lab, "--proxy-header", "X-Remote-User", "--proxy-from", "10.9.9.9") as served:
        assert served.ask("/", x_remote_user="ada").status == 403


def test_a_stream_is_not_taken_without_end(own: Served) -> None:
    """One person has 12 streams at most."""
    streams = []
    try:
        for _ in range(13):
            connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=10)
            streams.append(connection)
            connection.request("GET", "/events")
            last = connection.getresponse()
            if last.status == 200:
                last.read1(20)
        assert last.status == 503
    finally:
        for each in streams:
            each.close()
