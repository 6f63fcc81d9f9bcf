"""Does a health check ever cost its node more than its own answer? Each fails on 3f04825."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import units  # isort: skip
from swarm_node.machine import systemd  # isort: skip
from swarm_node.program import health  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import Context  # isort: skip

ANSWERS = {
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "not http": b"\x00\xff\xfe junk\r\n",
    "nothing": b"",
    "no end": b"x" * 100_000,
    "a status of nine digits": b"HTTP/1.1 200000000 OK\r\n\r\n",
    "text where digits belong": "HTTP/1.1 ²²² OK\r\n\r\n".encode(),
}


class Server:
    """Answers every connection with `answer`, a byte each `drip` seconds where that is not 0. `asked`: the first lines."""

    def __init__(self, answer: bytes, drip: float = 0) -> None:
        self.answer, self.drip, self.asked = answer, drip, [b""]
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line:
            try:
                self.asked.append(line.recv(4096).split(b"\r\n")[0])
                for at in range(len(self.answer)) if self.drip else ():
                    line.sendall(self.answer[at : at + 1])
                    time.sleep(self.drip)
                line.sendall(b"" if self.drip else self.answer)
            except OSError:
                return


@pytest.fixture
def server() -> Iterator[Any]:
    made: list[Server] = []

    def make(answer: bytes, drip: float = 0) -> Server:
        made.append(Server(answer, drip))
        return made[-1]

    yield make
    for one in made:
        one.socket.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A node on which each of `checks` is an allocation that has run for long."""
    monkeypatch.setattr(systemd, "show", lambda *_: {"ActiveState": "active", "ActiveEnterTimestampMonotonic": "1"})

    def make(**checks: dict[str, Any]) -> Any:
        book = ledger.load(str(tmp_path), check=False)
        book.guard(**GUARD)
        for name, check in checks.items():
            unit = {"user": "ada", "command": "serve", "active": True, **check}
            book.record("allocations", f"{name}-0", value={"workload": name, "unit": unit})
        return Context(book, check=True, root=str(tmp_path))

    return make


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_answer_is_ever_more_than_an_answer(answer: bytes, server: Any, machine: Any) -> None:
    here = machine(web={"healthy": "/", "port": server(answer).port}, other={"healthy": ""})
    assert health.all_of(here, 5) == {"web-0": "starting", "other-0": "healthy"}


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/\x00", "/é", "/?q=%20", "/\ud800"])
def test_no_path_is_ever_more_than_a_path(path: str, server: Any, machine: Any) -> None:
    there = server(b"HTTP/1.1 200 OK\r\n\r\n")
    here = machine(web={"healthy": path, "port": there.port})
    assert health.all_of(here, 5)["web-0"] in ("healthy", "unknown", "starting")
    line = there.asked[-1]
    assert not line or (line.startswith(b"GET /") and line.count(b" ") == 2 and line.endswith(b" HTTP/1.1"))


@pytest.mark.engine
def test_answers_that_drip_never_take_longer_than_all_may_take(server: Any, machine: Any) -> None:
    dripping = server(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000, drip=0.4)
    well = server(b"HTTP/1.1 204 No Content\r\n\r\n")
    checks = {f"drip{number}": {"healthy": "/", "port": dripping.port} for number in range(20)}
    here = machine(**checks, web={"healthy": "/", "port": well.port})
    began = time.monotonic()
    found = health.all_of(here, 2)
    assert time.monotonic() - began < 3
    assert found["web-0"] == "healthy"
    assert {found[f"{name}-0"] for name in checks} == {"unknown"}


@pytest.mark.engine
def test_commands_that_hang_never_darken_their_node(machine: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them outlasted the 20 s in which a node has to answer."""
    well = server(b"HTTP/1.1 200 OK\r\n\r\n")
    here = machine(a={"healthy": "hang"}, b={"healthy": "hang"}, c={"healthy": "fine"}, web={"healthy": "/", "port": well.port})
    run = here.run

    def real(argv: list[str], **more: Any) -> Any:
        return run(["/bin/sleep", "30"] if argv[-1] == "hang" else ["/bin/true"], **more)

    monkeypatch.setattr(here, "run", real)
    began = time.monotonic()
    found = health.all_of(here, 2)
    assert time.monotonic() - began < 4
    assert found == {"a-0": "unknown", "b-0": "unknown", "c-0": "healthy", "web-0": "healthy"}


def test_an_exception_about_one_allocation_never_reaches_another(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine(bad={"healthy": "x"}, torn={"healthy": "x"}, web={"healthy": ""})
    probe = units.probe
    monkeypatch.setattr(units, "probe", lambda *all_of, **_: 1 / 0 if all_of[2]["healthy"] else probe(*all_of))
    here.ledger.state["allocations"]["torn-0"]["unit"] = ["not", "a", "unit"]
    assert health.all_of(here, 2) == {"bad-0": "unknown", "torn-0": "unknown", "web-0": "healthy"}


def test_root_never_goes_where_an_answer_sends_it(server: Any, machine: Any) -> None:
    secret = server(b"HTTP/1.1 200 OK\r\n\r\n")
    sends = server(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/secret\r\n\r\n" % secret.port)
    here = machine(web={"healthy": "/", "port": sends.port})
    assert health.all_of(here, 5) == {"web-0": "healthy"}
    assert secret.asked == [b""]


def test_what_a_workload_printed_never_ends_a_step(tmp_path: Path) -> None:
    """Its journal is quoted where it fails, and need be no text, nor short."""
    here = Context(ledger.load(str(tmp_path)), root=str(tmp_path))
    assert here.run(["/usr/bin/printf", r"\377\376 a"]) == "\ufffd\ufffd a"
    fake = tmp_path / "journalctl"
    fake.write_text("#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' 'x'\nprintf '\\377'\n")
    fake.chmod(0o755)
    shown = subprocess.run([str(fake)], capture_output=True, check=True).stdout
    assert len(shown) == 100_001
    here.run = lambda argv, **_: Context.run(here, [str(fake), *argv[1:]])
    assert len(systemd.journal(here, "swarm-web_0.service")) <= 2000
    assert os.access(fake, os.X_OK)
