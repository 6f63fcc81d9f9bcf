"""Is a measurement only what is one number, and is nobody asked but whom the operator named?"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from swarm_iac.autopilot.reading import Reading, address, expression, of_prometheus
from swarm_iac.errors import SwarmError
from tests.autopilot.fleet import chat, fleet


class Answers(http.server.ThreadingHTTPServer):
    """Answers every query with what the test says, and remembers what was asked."""

    daemon_threads = True
    status, body, wait = 200, b"", 0.0
    headers: tuple[tuple[str, str], ...] = ()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        self.server.asked.append((self.path, urllib.parse.parse_qs(body).get("query", [""])[0]))
        time.sleep(self.server.wait)
        self.send_response(self.server.status)
        for key, value in self.server.headers:
            self.send_header(key, value)
        self.end_headers()
        with contextlib.suppress(OSError):  # who asked does not wait for all of it
            self.wfile.write(self.server.body)

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[Answers]:
    with Answers() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def vector(*values: object) -> bytes:
    result = [{"metric": {}, "value": [1.0, value]} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def test_one_number_is_a_measurement(prometheus: Answers) -> None:
    stack = fleet(workloads={"chat": chat(), "job": {"each": {"gpus": 1}}})
    prometheus.body = vector("240.5")
    found = of_prometheus(prometheus.url, stack)
    assert {name: one.value for name, one in found.items()} == {"chat": 240.5}
    assert prometheus.asked == [("/api/v1/query", 'sum(swarm:requests:rate{fleet="test",workload="chat"})')]
    prometheus.body = b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "7"]}}'
    assert of_prometheus(prometheus.url, stack)["chat"].value == 7


@pytest.mark.parametrize(
    "body",
    [
        vector(), vector("1", "2"), vector("NaN"), vector("+Inf"), vector("-1"), vector("1e300"), vector(1), vector(None), vector("x"),
        b"", b"{", b"[]", b"null", b'{"status": "error"}', b'{"status": "success", "data": []}', b"[" * 100_000, b" " * 4_000_001,
        b'{"status": "success", "data": {"resultType": "vector", "result": [3]}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": [["a", "b"]]}}',
    ],
    ids=range(19),
)  # fmt: skip
def test_what_is_not_one_number_is_none(prometheus: Answers, body: bytes) -> None:
    prometheus.body = body
    found = of_prometheus(prometheus.url, fleet())["chat"]
    assert found.value is None and found.why


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 503])
def test_refusal_is_no_measurement(prometheus: Answers, status: int) -> None:
    prometheus.status, prometheus.body = status, vector("5")
    assert of_prometheus(prometheus.url, fleet())["chat"].value is None


def test_no_redirect_is_followed(prometheus: Answers) -> None:
    with Answers() as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        other.body = vector("5")
        prometheus.status, prometheus.headers = 302, (("Location", f"{other.url}/api/v1/query"),)
        assert of_prometheus(prometheus.url, fleet())["chat"].value is None
        assert other.asked == []
        other.shutdown()


def test_slow_prometheus_is_asked_once_for_all(prometheus: Answers) -> None:
    prometheus.wait = 3.0
    began = time.monotonic()
    found = of_prometheus(prometheus.url, fleet(workloads={f"s{i}": chat() for i in range(20)}), timeout=0.3)
    assert time.monotonic() - began < 2.5
    assert len(found) == 20 and all(one.value is None and "did not answer" in one.why for one in found.values())


def test_dead_prometheus_is_no_error() -> None:
    found = of_prometheus("http://127.0.0.1:9", fleet())
    assert found["chat"].value is None


@pytest.mark.parametrize("text", ["", "ftp://a", "file:///etc/passwd", "http://", "prometheus:9090", "http://a\x1b"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(SwarmError):
        address(text)


def test_of_a_mean_it_is_asked_how_many_replicas_it_is_of(prometheus: Answers) -> None:
    prometheus.body = vector("3")
    found = of_prometheus(prometheus.url, fleet(workloads={"chat": chat(scale={"on": "gpu", "target": 70.0})}))
    assert found == {"chat": Reading(3.0, replicas=3)}
    family = 'swarm:holder_gpu_active:ratio{fleet="test",workload="chat"}'
    assert [query for _, query in prometheus.asked] == [f"100 * avg({family})", f"count(count by (allocation) ({family}))"]


def test_a_mean_of_some_replicas_alone_is_no_measurement() -> None:
    """The others are on a node that is dark, and not idle."""
    assert Reading(5.0, replicas=3).of_all(4) == Reading(None, "1 of 4 replicas was not measured")
    assert Reading(5.0, replicas=4).of_all(4).value == 5.0
    assert Reading(5.0).of_all(4).value == 5.0, "a total"


def test_expressions() -> None:
    scale = fleet(workloads={"chat": chat(scale={"on": "gpu", "target": 70.0})}).workloads["chat"].scale
    assert scale is not None
    assert expression("lab", "chat", scale) == '100 * avg(swarm:holder_gpu_active:ratio{fleet="lab",workload="chat"})'
    own = scale.model_copy(update={"on": "query", "query": "sum(up)"})
    assert expression("lab", "chat", own) == "sum(up)"
