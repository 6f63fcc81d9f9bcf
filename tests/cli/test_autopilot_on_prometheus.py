"""Does the autopilot follow a query of a real Prometheus, and does nothing change while that, or what it scrapes, is gone?"""

from __future__ import annotations

import http.server
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.cli import engine
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.run_options import VARIABLES
from tests.cli.test_autopilot import swarm
from tests.cli.test_killed_autopilot import TWO_NODES, Machines

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs make promtool")]

#: Of the operator's own metric: waiting calls of both shards, and the tenant by a label of theirs.
QUERY = 'sum(calls_waiting{tenant=~"a|b"}) - sum(calls_parked)'
ASKING = "scale: {on: query, query: '" + QUERY + "', target: 40}"


class Service(http.server.ThreadingHTTPServer):
    """What is scraped. `waiting`: calls in all."""

    daemon_threads = True
    waiting = 80

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Page)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Page(http.server.BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        waiting = self.server.waiting
        lines = (f'calls_waiting{{tenant="a"}} {waiting}', 'calls_waiting{tenant="b"} 7', "calls_parked 7")
        body = "\n".join([*lines, ""]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Lab:
    """A Prometheus, what it scrapes, and an autopilot whose clock can be set on."""

    def __init__(self, root: Path) -> None:
        self.root, self.scraped, self.web = root, free_port(), free_port()
        (root / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: calls, static_configs: [{{targets: ['127.0.0.1:{self.scraped}']}}]}}]\n"
        )
        self.service, self.prometheus = Service(self.scraped), self.started()
        self.pilot = loop.Autopilot(root, "lab", loop.of_source(root, f"http://127.0.0.1:{self.web}"), lambda text: None)
        self.later = 0.0

    def started(self) -> subprocess.Popen[bytes]:
        words = [f"--config.file={self.root}/prometheus.yml", f"--storage.tsdb.path={self.root}/data"]
        words.append(f"--web.listen-address=127.0.0.1:{self.web}")
        return subprocess.Popen(["prometheus", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def measured(self) -> float | None:
        return self.pilot.measure(self.pilot._decision().stack)["chat"].value

    def until(self, value: float | None) -> float:
        """Seconds until that is measured."""
        began = time.monotonic()
        while self.measured() != value:
            assert time.monotonic() - began < 90, self.measured()
            time.sleep(0.2)
        return time.monotonic() - began

    def ticks(self, count: int = 3) -> str:
        """So many, 200 s apart by the autopilot's clock; the reason of the last."""
        for _ in range(count):
            found = self.pilot.once()
            self.later += 200
        return found.decided[0].reason

    def end(self) -> None:
        self.prometheus.kill()
        self.prometheus.wait()
        self.service.end()


@pytest.fixture
def machines(root: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    scale = "scale: {on: requests_per_replica, target: 40}"
    assert scale in TWO_NODES
    (root / "stacks" / "lab.yaml").write_text(TWO_NODES.replace(scale, ASKING))
    monkeypatch.chdir(root)
    swarm(root, "solve", "--stack", "lab")
    (root / "Pulumi.lab.yaml").write_text("")
    (root / "load.json").write_text("{}")
    one = Machines(root)
    monkeypatch.setattr(engine, "pulumi", one.up)
    monkeypatch.setattr(engine, "at_once", lambda *_: {})
    one.up(root, "lab", [], None, more={VARIABLES["only"]: "n1,n2"})
    return one


@pytest.fixture
def lab(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    one, steady = Lab(machines.root), time.monotonic
    monkeypatch.setattr(loop.time, "monotonic", lambda: steady() + one.later)
    yield one
    monkeypatch.undo()
    one.end()


def test_replicas_follow_a_query_and_stay_as_they_are_while_nothing_is_known(lab: Lab, machines: Machines) -> None:
    lab.until(80)
    assert "2 replicas are right" in lab.ticks()
    lab.service.waiting = 240
    lab.until(240)
    lab.ticks()
    was = machines.processes()
    assert len(was) == 6

    lab.prometheus.send_signal(signal.SIGKILL)
    lab.prometheus.wait()
    lab.service.waiting = 10  # which nobody knows
    assert lab.measured() is None
    assert "no change without a measurement: Prometheus did not answer" in lab.ticks(6)
    assert machines.processes() == was

    lab.prometheus = lab.started()
    assert lab.until(10) < 30
    lab.service.end()  # what is scraped is gone, and Prometheus is there
    lab.until(None)
    assert "no change without a measurement: the query gives 0 values" in lab.ticks(6)
    assert machines.processes() == was

    lab.service = Service(lab.scraped)
    lab.service.waiting = 10
    assert lab.until(10) < 30
    lab.ticks(6)
    assert len(machines.processes()) == 2 and machines.processes().items() <= was.items()
