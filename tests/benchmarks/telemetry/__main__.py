"""What does measuring a node cost: the sampler's CPU time, and how long a scrape takes?

    python -m tests.benchmarks.telemetry [SECONDS]

The real sampler and server, as processes of their own, on the stand-in for NVML with 8 H100 and a tree of 20 cgroups. The
stand-in reads its files anew on every call, so a card costs more here than a driver's own answer would. What `tc` and
`systemctl` cost is not in it, for neither is asked here: tests/e2e/test_telemetry.py counts the whole slice on a real node.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec
from tests.benchmarks.telemetry.processes import cpu, exporter, resident, scrape
from tests.exporter.conftest import Measured, machine
from tests.exporter.text_format import parse

CARDS, ALLOCATIONS, SCRAPES = 8, 20, 200
#: What is promised: part of one core, and the 95th percentile of a scrape. [s]
CPU, P95 = 0.01, 0.05


def _fleet(folder: Path) -> Measured:
    found = machine(compile_stand_in(folder / "libnvidia-ml.so.1"), folder, NodeSpec("gpu-01", 1, "H100", CARDS))
    names = [f"train-{number}" for number in range(ALLOCATIONS)]
    found.label(
        {
            name: {
                "workload": "train",
                "user": "ada",
                "team": "vision",
                "gpus": [number] if number < CARDS else [],
                "quotas": {},
            }
            for number, name in enumerate(names)
        }
    )
    for name in names:
        found.cgroup(name)
    return found


def main(seconds: float) -> int:
    """Prints the figures; exit status 1 if one is worse than promised."""
    with tempfile.TemporaryDirectory() as name:
        measured = _fleet(Path(name))
        with exporter(str(measured.root), str(measured.files), measured.environment()) as (sampler, server, port):
            time.sleep(8)  # both have started, and each collector has sampled
            before, began, served = cpu(sampler), time.monotonic(), cpu(server)
            took, size, series = [], 0, 0
            for _ in range(SCRAPES):
                time.sleep(seconds / SCRAPES)
                page, each = scrape(port)
                took.append(each)
                size, series = len(page), len(parse(page).series)
            part = (cpu(sampler) - before) / (time.monotonic() - began)
            work = (cpu(server) - served) / SCRAPES
            memory = [resident(pid) for pid in (sampler, server)]
    p95 = sorted(took)[int(0.95 * len(took))]
    print(f"{CARDS} cards, {ALLOCATIONS} allocations: {series} series, {size / 1000:.0f} kB")
    print(f"sampler: {100 * part:.2f} % of one core over {seconds:g} s (promised: {100 * CPU:g} %)")
    print(
        f"scrape: median {1000 * sorted(took)[len(took) // 2]:.1f} ms, p95 {1000 * p95:.1f} ms (promised: {1000 * P95:g} ms); {1000 * work:.1f} ms of CPU each"
    )
    print(f"resident: sampler {memory[0]:.0f} MB, server {memory[1]:.0f} MB (the slice has 256 MiB)")
    return int(part > CPU or p95 > P95)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60))
