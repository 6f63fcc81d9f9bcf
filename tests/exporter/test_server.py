"""Who is answered, how soon, and with nothing that is old? On a socket of this machine."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from swarm_node.exporter import answer, server
from swarm_node.exporter.families import COLLECTORS
from swarm_node.exporter.sampler import TIMES

from tests.exporter.conftest import Measured
from tests.exporter.text_format import parse

ONE: list[Any] = ["swarm_gpu_power_watts", {"gpu": "0"}, 300.0]


def leave(folder: Path, name: str = "gpus", age: float = 0, samples: Any = (ONE,)) -> None:
    found = {"began": time.monotonic() - age, "took": 0.01, "failures": 2, "cpu": 1.5, "samples": list(samples)}
    (folder / f"{name}.json").write_text(json.dumps(found))


def values(folder: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, labels, value in answer.Files(str(folder)).samples():
        found.setdefault(name + labels.get("collector", ""), []).append(value)
    return found


def test_young_values_are_shown_and_old_ones_vanish(tmp_path: Path) -> None:
    leave(tmp_path, age=TIMES["gpus"].most - 1)
    shown = values(tmp_path)
    assert shown["swarm_gpu_power_watts"] == [300] and shown["swarm_exporter_collector_freshgpus"] == [1]
    leave(tmp_path, age=TIMES["gpus"].most + 0.1)
    shown = values(tmp_path)
    assert "swarm_gpu_power_watts" not in shown and shown["swarm_exporter_collector_freshgpus"] == [0]
    assert shown["swarm_exporter_collector_age_secondsgpus"][0] > TIMES["gpus"].most


def test_what_was_measured_in_the_future_is_not_shown(tmp_path: Path) -> None:
    leave(tmp_path, age=-60)
    assert "swarm_gpu_power_watts" not in values(tmp_path), "as of a file that was copied from another machine"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"began": 1}', '{"began": "x", "took": 0, "failures": 0, "cpu": 0, "samples": []}']
)
def test_a_file_that_is_torn_hides_no_other(tmp_path: Path, text: str) -> None:
    leave(tmp_path, "gpus")
    (tmp_path / "units.json").write_text(text)
    shown = values(tmp_path)
    assert shown["swarm_gpu_power_watts"] == [300] and shown["swarm_exporter_collector_freshunits"] == [0]


def test_every_collector_is_told_of(tmp_path: Path) -> None:
    shown = values(tmp_path)
    assert [shown[f"swarm_exporter_collector_fresh{name}"] for name in COLLECTORS] == [[0]] * len(COLLECTORS)
    assert set(TIMES) == set(COLLECTORS)


def test_text_and_values_are_the_same_and_follow_the_files(tmp_path: Path) -> None:
    files = answer.Files(str(tmp_path))
    for value in (1.0, 2.0):
        leave(tmp_path, samples=[[ONE[0], ONE[1], value]])
        leave(tmp_path, "units", samples=[["swarm_allocation_restarts_total", {"allocation": "a-0"}, value]])
        page = parse(files.page())
        assert page.series["swarm_gpu_power_watts", frozenset({("gpu", "0")})] == value
        assert {(name, frozenset(labels.items())) for name, labels, _ in files.samples()} == set(page.series)
    (tmp_path / "gpus.json").unlink()
    assert "swarm_gpu_power_watts" not in files.page(), "what was read before is not shown for ever"


def talk(folder: Path, scrapers: list[str], say: Callable[[int], Awaitable[Any]]) -> Any:
    async def both() -> Any:
        one = server.Server(scrapers, str(folder))
        listening = await one.listen(0)
        async with listening:
            # Of port 0 each address gets another one.
            return await say(next(each.getsockname()[1] for each in listening.sockets if each.family is socket.AF_INET))

    return asyncio.run(both())


async def request(port: int, text: bytes, wait: float = 8) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        return await asyncio.wait_for(reader.read(), wait)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_scraper_is_answered(tmp_path: Path) -> None:
    leave(tmp_path)
    found = talk(tmp_path, [], lambda port: request(port, GET)).decode()
    head, _, body = found.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n") and "text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body.encode())}" in head
    assert parse(body).series["swarm_gpu_power_watts", frozenset({("gpu", "0")})] == 300


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /<script> HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"\x16\x03\x01\x02\x00 \r\n\r\n", "400 Bad Request"),
        (b"GET /" + b"x" * 20000, ""),
    ],
)
def test_whoever_asks_for_something_else_gets_nothing_back(tmp_path: Path, text: bytes, status: str) -> None:
    found = talk(tmp_path, [], lambda port: request(port, text)).decode()
    assert found.startswith(f"HTTP/1.1 {status}\r\n" if status else ("HTTP/1.1 4" if found else ""))
    assert "passwd" not in found and "script" not in found and "xxxx" not in found


def test_nobody_but_a_scraper_is_answered(tmp_path: Path) -> None:
    leave(tmp_path)
    assert talk(tmp_path, ["10.9.9.9"], lambda port: request(port, GET)) == b"", "not even this machine's own users"
    assert b"200 OK" in talk(tmp_path, ["127.0.0.0/8"], lambda port: request(port, GET))


@pytest.mark.parametrize(
    ("scrapers", "peer", "may"),
    [
        ([], "127.0.0.1", True), ([], "::1", True), ([], "10.0.0.1", False), ([], "::ffff:127.0.0.1", True),
        (["10.0.0.5"], "10.0.0.5", True), (["10.0.0.5"], "10.0.0.50", False), (["10.0.0.5"], "::ffff:10.0.0.5", True),
        (["10.1.0.0/16"], "10.1.255.1", True), (["10.1.0.0/16"], "10.2.0.1", False), (["fd00:1::/64"], "fd00:1::9", True),
        (["fd00:1::/64"], "fd00:1:0:1::9", False), (["10.0.0.5"], "", False), (["10.0.0.5"], "fe80::1%eth0", False),
    ],
)  # fmt: skip
def test_who_may_ask(scrapers: list[str], peer: str, may: bool) -> None:
    assert server.Server(scrapers).may(peer) is may


def test_loopback_alone_is_listened_on_without_scrapers(tmp_path: Path) -> None:
    async def where() -> list[str]:
        listening = await server.Server([], str(tmp_path)).listen(0)
        async with listening:
            return [one.getsockname()[0] for one in listening.sockets]

    assert set(asyncio.run(where())) <= {"127.0.0.1", "::1"}


def test_the_slow_are_cut_off_and_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_DEADLINE_S", 0.5)
    leave(tmp_path)

    async def both(port: int) -> tuple[bytes, float, bytes]:
        slow = [asyncio.create_task(request(port, b"GET /met")) for _ in range(server._AT_ONCE - 1)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        answered = await request(port, GET)
        took = time.monotonic() - began
        return answered, took, b"".join(await asyncio.gather(*slow))

    answered, took, slow = talk(tmp_path, [], both)
    assert b"200 OK" in answered and took < 0.4 and slow == b""


def test_a_driver_that_hangs_makes_its_values_vanish_and_holds_up_nothing(
    h100: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real sampler in a process of its own; the hang is inside the library."""
    h100.label({"a-0": {"workload": "a", "user": "ada"}})
    h100.cgroup("a-0")
    short = "from swarm_node.exporter import sampler\nsampler.TIMES = {k: sampler.Every(0.5, 1.5) for k in sampler.TIMES}\n"
    code = f"{short}sampler.sample({str(h100.root)!r}, {str(h100.files)!r})"
    monkeypatch.setitem(answer.TIMES, "gpus", type(TIMES["gpus"])(0.5, 1.5))
    monkeypatch.setitem(answer.TIMES, "allocations", type(TIMES["gpus"])(0.5, 1.5))
    process = subprocess.Popen([sys.executable, "-c", code], env=h100.environment())
    try:
        wait(lambda: "swarm_gpu_power_watts" in values(h100.files))
        (h100.run / "faults").write_text("hang nvmlDeviceGetPowerUsage 3\n")
        wait(lambda: "swarm_gpu_power_watts" not in values(h100.files))
        shown = values(h100.files)
        assert not [name for name in shown if name.startswith("swarm_gpu_")], "none is as it was before the hang"
        assert shown["swarm_exporter_collector_freshgpus"] == [0] and shown["swarm_allocation_memory_bytes"] == [1 << 30]
        began = time.monotonic()
        assert b"200 OK" in talk(h100.files, [], lambda port: request(port, GET))
        assert time.monotonic() - began < 1, "no scrape waits for a driver"
        (h100.run / "faults").unlink()
        wait(lambda: "swarm_gpu_power_watts" in values(h100.files))
    finally:
        process.kill()
        process.wait()


def wait(true: Callable[[], bool], most: float = 20) -> None:
    end = time.monotonic() + most
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)
