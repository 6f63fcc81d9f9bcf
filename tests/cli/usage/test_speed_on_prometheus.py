"""Is a speed measured from what a real Prometheus has kept, with the rules that `swarm init` writes and one of one's own?"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.autopilot.test_speeds import FILE as ONE
from tests.cli.test_autopilot_on_prometheus import free_port
from tests.cli.typed import swarm

FILE = ONE.replace("each: {gpus: 1,", "each: {gpus: 2,")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs make promtool")]
HOURS = 30


def history(now: int) -> str:
    """Two replicas on H100, busy for 12 of 30 hours at about 50 kTok/s, one on A100 that has little to do; in OpenMetrics."""
    rng, rates, busy = random.Random(1), [], []
    for at in range(now - HOURS * 3600, now, 60):
        for allocation, hardware, works in (("chat-0", "h", True), ("chat-1", "h", True), ("chat-2", "a", False)):
            much = works and (now - at) // 3600 < 12
            active = rng.uniform(0.85, 1.0) if much else rng.uniform(0, 0.3)
            rate = rng.uniform(46_000, 54_000) if much else rng.uniform(0, 9_000)
            labels = f'fleet="lab",workload="chat",allocation="{allocation}"'
            rates.append(f"swarm:work:rate{{{labels}}} {rate:.0f} {at}")
            # One card of the second replica is not measured for half of the time, and the rest says nothing then.
            for gpu in (0, 1) if allocation != "chat-1" or at % 7200 < 3600 else (0,):
                busy.append(f'swarm:holder_gpu_active:ratio{{{labels},hardware="{hardware}",gpu="{gpu}"}} {active:.3f} {at}')
    rates.sort(key=lambda line: line.split("{")[1].split("}")[0])
    busy.sort(key=lambda line: line.split("{")[1].split("}")[0])
    return "\n".join((
        "# TYPE swarm:work:rate gauge", *rates, "# TYPE swarm:holder_gpu_active:ratio gauge", *busy, "# EOF\n",
    ))  # fmt: skip


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    at = tmp_path_factory.mktemp("prometheus")
    (at / "history").write_text(history(int(time.time()) // 60 * 60 - 3 * 3600))
    words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(at / "history"), str(at / "data")]
    subprocess.run(words, check=True, capture_output=True)
    (at / "prometheus.yml").write_text("scrape_configs: []\n")
    port = free_port()
    words = [f"--config.file={at}/prometheus.yml", f"--storage.tsdb.path={at}/data", f"--web.listen-address=127.0.0.1:{port}"]
    server = subprocess.Popen(["prometheus", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_the_speed_of_busy_hours_is_suggested(tmp_path: Path, prometheus: str) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks" / "lab.yaml").write_text(FILE)
    words = ("speed", "lab", "--metrics", prometheus, "--since", "3d")
    began = time.monotonic()
    while (done := swarm(*words, "--json", at=tmp_path)).code:
        assert time.monotonic() - began < 60 and "Prometheus" in done.err, done.err
        time.sleep(0.5)
    found = {one["model"]: one for one in json.loads(done.out)["speeds"]}
    h100, a100 = found["H100"], found["A100"]
    assert (
        48 < float(h100["suggested"].removesuffix(" kTok/s")) < 52 and h100["replicas"] == {"declared": 4, "suggested": 2}
    ) or h100["replicas"] == {"declared": 4, "suggested": 3}
    assert 200 <= h100["moments"] <= 12 * 12 * 3 / 2 + 20, "twelve hours of one replica, six of the other, a moment every 5 min"
    assert (a100["suggested"], a100["moments"]) == (None, 0), "it never had enough to do"
    print(swarm(*words, at=tmp_path, width=160).out)
