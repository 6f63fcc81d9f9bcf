"""Who is let in, and who is not: token files, proxies, guesses, addresses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.requests import Request
from typer.testing import CliRunner

from swarm_iac.cli.application import application
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.web import border
from swarm_iac.web.rights import Viewer
from swarm_iac.web.sign_in import SESSION_S, TRIES, WINDOW_S, Listen, Proxy, Sessions, Throttle, listen, tokens

TOKEN = "x" * 40


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "people"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_is_its_persons(tmp_path: Path) -> None:
    found = tokens(write(tmp_path, f"# people\n\nada research,vision {TOKEN}1\nroot admin {TOKEN}2\n"))
    assert found.of(TOKEN + "1") == Viewer("ada", frozenset({"research", "vision"}))
    assert found.of(TOKEN + "2") == Viewer("root", admin=True)
    assert found.of(TOKEN) is None and found.of("") is None and found.of(TOKEN + "1 ") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"ada {TOKEN}", ":1:1: expected: NAME TEAM"),
        (f"\nADA research {TOKEN}", ":2:1: expected"),
        ("ada research short", "fewer than 32"),
        ("# nobody\n", "nobody in it"),
        (f"ada research {TOKEN}\neve research {TOKEN}", "two people have one token"),
        (f"a<b> research {TOKEN}", "expected"),
    ],
)
def test_a_wrong_token_file_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SwarmError) as error:
        tokens(write(tmp_path, text))
    assert said in str(error.value)
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Refused):
        tokens(write(tmp_path, f"ada research {TOKEN}", mode))


def test_a_link_a_folder_and_a_pipe_are_no_token_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write(tmp_path, f"ada research {TOKEN}"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", ".", "pipe", "absent"):
        with pytest.raises(SwarmError):
            tokens(tmp_path / name)


def test_a_header_is_believed_from_its_proxy_alone() -> None:
    proxy = Proxy("x-remote-user", "10.0.0.2", frozenset({"root"}))
    assert proxy.of("10.0.0.2", ["ada"]) == Viewer("ada")
    assert proxy.of("::ffff:10.0.0.2", ["root"]) == Viewer("root", admin=True)
    assert proxy.of("10.0.0.3", ["root"]) is None
    for values in ([], [""], ["ada", "root"], ["ada,root"], ["Root"], ["a b"], ["<b>"]):
        assert proxy.of("10.0.0.2", values) is None


def test_guessing_ends_and_begins_again() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for _ in range(TRIES):
        assert not throttle.waits("a")
        throttle.failed("a")
    assert throttle.waits("a") and not throttle.waits("b")
    now[0] = WINDOW_S + 1
    assert not throttle.waits("a")
    for i in range(100):
        throttle.failed(f"address-{i}")
    assert throttle.waits("another one")


def test_a_session_ends() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first, second = sessions.begin(Viewer("ada")), sessions.begin(Viewer("cy"))
    assert first != second and sessions.of(first) == Viewer("ada") and sessions.of("") is None
    sessions.end(first)
    assert sessions.of(first) is None and sessions.of(second)
    now[0] = SESSION_S + 1
    assert sessions.of(second) is None


@pytest.mark.parametrize("text", ["127.0.0.1", "host:80", "127.0.0.1:99999", ":80", "127.0.0.1:x", "\x1b[0m:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SwarmError):
        listen(text)
    assert listen("[::1]:80").loopback and not listen("0.0.0.0:80").loopback


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "0.0.0.0:0"], "nobody would have to sign in"),
        (["--listen", "[::]:0"], "nobody would have to sign in"),
        (["--listen", "10.0.0.1:0", "--token-file", "FILE"], "in clear"),
        (["--proxy-header", "X-User"], "go together"),
        (["--proxy-header", "Cookie", "--proxy-from", "10.0.0.1"], "no header with a name"),
        (["--proxy-header", "X-User", "--proxy-from", "proxy.example.org"], "is no address"),
        (["--admin", "ada"], "--admin needs"),
    ],
)
def test_an_open_door_is_refused(tmp_path: Path, words: list[str], said: str) -> None:
    file = write(tmp_path, f"ada research {TOKEN}")
    found = CliRunner().invoke(application(), ["web", *[str(file) if word == "FILE" else word for word in words]])
    assert isinstance(found.exception, SwarmError) and said in str(found.exception)


@pytest.mark.parametrize(("found", "let_in"), [(os.geteuid(), True), (os.geteuid() + 1, False), (-1, False), (None, False)])
def test_without_sign_in_only_the_own_account_is_let_in(
    monkeypatch: pytest.MonkeyPatch, found: int | None, let_in: bool
) -> None:
    monkeypatch.setattr(border, "account", lambda *_: found)
    request = Request({"type": "http", "headers": [], "client": ("127.0.0.1", 1)})
    assert (border.Border(Listen("127.0.0.1", 8470)).viewer(request) is border.OWNER) is let_in
