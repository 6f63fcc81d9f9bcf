"""Does a real Prometheus, set up by what `swarm init` and `swarm metrics` write, scrape a real exporter?"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli import initialise
from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec
from tests.cli.typed import swarm
from tests.exporter.conftest import Measured, machine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("gcc") is None, reason="needs gcc, and make promtool"
    ),
]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def started() -> Iterator[Callable[..., None]]:
    ours: list[subprocess.Popen[bytes]] = []
    yield lambda *words, **more: ours.append(
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    )
    for one in ours:
        one.kill()
        one.wait()


def node(folder: Path) -> Measured:
    found = machine(compile_stand_in(folder / "libnvidia-ml.so.1"), folder / "machine", NodeSpec("gpu-01", 1, "H100", 8))
    found.label({"train-0": {"workload": "train", "user": "ada", "team": "vision", "gpus": [0, 1]}})
    found.cgroup("train-0")
    (found.run / "processes").write_text("0 4711 1024\n")
    return found


def test_prometheus_scrapes_joins_and_warns(tmp_path: Path, started: Callable[..., None]) -> None:
    measured, port, web = node(tmp_path), free_port(), free_port()
    lab = tmp_path / "lab"
    initialise.make(lab)
    hardware = "hardware: {h: {gpus: 8 x H100, vcpus: 8, memory: 1 TB}}\nnodes: {gpu-01: {hardware: h, ssh: local}}\n"
    (lab / "stacks/dev.yaml").write_text(f"fleet: lab\ntelemetry: {{port: {port}}}\n{hardware}")
    assert swarm("metrics", at=lab).code == 0
    config = lab / "monitoring/prometheus.yml"
    config.write_text(re.sub("interval: 15s", "interval: 1s", config.read_text()))
    folder, root = str(measured.files), str(measured.root)
    for code in (
        f"from swarm_node.exporter.sampler import sample; sample({root!r}, {folder!r})",
        f"from swarm_node.exporter.server import serve; serve({port}, [], {folder!r}, {root!r})",
    ):
        started(sys.executable, "-c", code, env=measured.environment())
    data = f"--storage.tsdb.path={tmp_path / 'data'}"
    started("prometheus", f"--config.file={config}", data, f"--web.listen-address=127.0.0.1:{web}")

    def ask(query: str) -> list[Any]:
        url = f"http://127.0.0.1:{web}/api/v1/query?query={urllib.parse.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return list(json.load(answer)["data"]["result"])
        except OSError:
            return []

    assert until(lambda: ask("swarm_gpu_sm_active_ratio")), "nothing was scraped"
    (up,) = [one for one in ask('up{job="swarm"}') if one["value"][1] == "1"]
    assert up["metric"].items() >= {"instance": "gpu-01", "fleet": "lab", "stack": "dev"}.items()
    joined = "swarm_gpu_power_watts * on (fleet, instance, gpu) group_right () swarm_gpu_allocated_ratio"
    power = {one["metric"]["gpu"]: (one["metric"]["team"], float(one["value"][1])) for one in ask(joined)}
    assert power == {"0": ("vision", 700.0), "1": ("vision", 70.0)}
    # SM activity is a difference of two samples: before the second one, the rule has the part of the time in use.
    assert until(lambda: [one for one in ask("swarm:team_gpus_active:sum") if float(one["value"][1]) == 0.83])
    (held,) = ask("swarm:team_gpus_active:sum")
    assert held["metric"]["team"] == "vision"
    (measured.run / "xid").write_text("3 79\n")
    assert until(lambda: ask('ALERTS{alertname="SwarmGpuXid", gpu="3", alertstate="firing"}')), "an alert fires"
    assert not ask('ALERTS{alertname="SwarmGpuXid", gpu!="3"}')


def until(look: Callable[[], Any], most: float = 90) -> Any:
    end = time.monotonic() + most
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.5)
    return found
