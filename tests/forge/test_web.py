"""Is a forge's answer bounded and checked, and does the token stay with the forge it belongs to?"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from swarm_iac.errors import Refused, Retryable
from swarm_iac.forge import opened, web
from swarm_iac.forge.web import Reply, Web

TOKEN = "t0p-secret-value"
Raw = tuple[int, dict[str, str], bytes]


class Number(Reply):
    number: int


class Host:
    """A web server on loopback that answers as it was told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.bodies: list[bytes] = []
        self.reply: Callable[[str], Raw] = lambda _: (200, {}, b"{}")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                outer.asked.append((self.command, self.path, self.headers.get("Authorization")))
                status, headers, body = outer.reply(self.path)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_PUT = answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    pair = (Host(), Host())
    yield pair
    for one in pair:
        one.server.shutdown()
        one.server.server_close()


def asker(host: Host) -> Web:
    return Web(host.root, ("Authorization", f"token {TOKEN}"), pause=lambda _: None)


def test_a_redirect_never_carries_the_token_anywhere(hosts: tuple[Host, Host]) -> None:
    forge, other = hosts
    forge.reply = lambda _: (302, {"Location": f"{other.root}/stolen"}, b"")
    with pytest.raises(Refused, match="302") as refused:
        asker(forge).get("/x", Number)
    assert other.asked == []
    assert "token is not sent along" in str(refused.value)


def test_an_answer_that_is_too_large_is_refused(hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch) -> None:
    forge, _ = hosts
    monkeypatch.setattr(web, "MAX_BYTES", 1000)
    forge.reply = lambda _: (200, {}, b'{"number": 1, "x": "' + b"y" * 2000 + b'"}')
    with pytest.raises(Refused, match="more than"):
        asker(forge).get("/x", Number)


def test_a_list_without_an_end_is_refused(hosts: tuple[Host, Host]) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (200, {}, json.dumps([{"number": 1}] * web.PAGE).encode())
    with pytest.raises(Refused, match="more than"):
        list(asker(forge).all("/x", Number))
    assert len(forge.asked) <= web.MAX_ENTRIES // web.PAGE + 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"number": "x"}', b'{"number": null}', b"[" * 100_000, b"\xff", b""])
def test_an_answer_of_another_shape_is_refused_without_its_text(hosts: tuple[Host, Host], body: bytes) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (200, {}, body)
    with pytest.raises(Refused):
        asker(forge).get("/x", Number)


def test_what_a_forge_repeats_of_the_token_is_not_shown(hosts: tuple[Host, Host]) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (403, {}, json.dumps({"message": f"bad token {TOKEN}\x1b[2J"}).encode())
    with pytest.raises(Refused) as refused:
        asker(forge).get("/x", Number)
    assert TOKEN not in str(refused.value) and "\x1b" not in str(refused.value)
    assert "***" in str(refused.value)


def test_an_answer_that_breaks_off_may_come_later(hosts: tuple[Host, Host]) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (200, {"Content-Length": "99"}, b"{")
    with pytest.raises(Retryable, match="does not answer"):
        asker(forge).get("/x", Number)


@pytest.mark.parametrize(("status", "headers"), [(502, {}), (429, {"Retry-After": "7"}), (403, {"x-ratelimit-remaining": "0"})])
def test_a_forge_that_is_busy_is_asked_again_and_then_later(
    hosts: tuple[Host, Host], status: int, headers: dict[str, str]
) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (status, headers, b"{}")
    with pytest.raises(Retryable) as later:
        asker(forge).get("/x", Number)
    assert len(forge.asked) == 3
    assert later.value.after == (7 if "Retry-After" in headers else 60)


def test_what_may_not_be_done_twice_is_sent_once(hosts: tuple[Host, Host]) -> None:
    forge, _ = hosts
    forge.reply = lambda _: (502, {}, b"")
    with pytest.raises(Retryable):
        asker(forge).once("POST", "/comments", b"{}")
    with pytest.raises(Retryable):
        asker(forge).send("POST", "/comments", body="x")
    assert len(forge.asked) == 2


@pytest.mark.parametrize(
    "root", ["http://forge.example", "https://user:pass@forge.example", "ftp://x", "https://x/?q=1", "x", ""]
)
def test_an_address_that_would_give_the_token_away_is_refused(root: str) -> None:
    with pytest.raises(Refused) as refused:
        Web(root, ("Authorization", f"token {TOKEN}"))
    assert TOKEN not in str(refused.value) and "pass" not in str(refused.value)


JOB = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "fleet/lab", "GITHUB_SERVER_URL": "http://localhost:1",
       "GITHUB_API_URL": "https://api.github.example", "SWARM_FORGE_TOKEN": TOKEN}  # fmt: skip


def test_the_forge_of_a_job_is_known_from_its_environment() -> None:
    assert opened({**JOB, "GITEA_ACTIONS": "true"}).kind == "gitea"
    assert opened(JOB).kind == "github"
    lab = {"GITLAB_CI": "true", "CI_SERVER_URL": "https://gitlab.example", "CI_PROJECT_PATH": "fleet/sub/lab"}
    assert opened({**lab, "SWARM_FORGE_TOKEN": TOKEN}).kind == "gitlab"


@pytest.mark.parametrize("wrong", [
    {"SWARM_FORGE_TOKEN": ""}, {"SWARM_FORGE_TOKEN": f"{TOKEN}\n"}, {"SWARM_FORGE_TOKEN": f"{TOKEN}\r\nX: y"}, {"SWARM_FORGE": "cvs"},
    {"SWARM_FORGE_REPOSITORY": "../x"}, {"SWARM_FORGE_REPOSITORY": "a/../b"}, {"SWARM_FORGE_REPOSITORY": "a/b?x"},
    {"SWARM_FORGE_REPOSITORY": "alone"},
])  # fmt: skip
def test_an_environment_that_names_no_forge_is_refused_without_the_token(wrong: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        opened({**JOB, **wrong})
    assert TOKEN not in str(refused.value)
