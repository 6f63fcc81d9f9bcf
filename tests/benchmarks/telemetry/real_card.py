"""Does the exporter say of a real card what `nvidia-smi` says, and what does it cost there?

    python -m tests.benchmarks.telemetry.real_card [SECONDS]

The real sampler and server, as processes of their own, on the cards of this machine. Where PyTorch is there, first with nothing to
do, then with products of matrices, then with copies. Nothing is set; the last page goes to standard error. The allocations, `tc`
and `systemctl` of a node are not there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.telemetry.processes import cpu, exporter, process, resident, scrape
from tests.exporter.text_format import parse

PROGRAM = Path(__file__).resolve().parents[3] / "playbooks/module_utils"
#: Our series, and the question to `nvidia-smi` that is its own of it, with what one of its units is in ours.
SAME = {
    'swarm_gpu_busy_ratio': ("utilization.gpu", 0.01),
    'swarm_gpu_memory_used_bytes': ("memory.used", 1 << 20),
    'swarm_gpu_memory_size_bytes': ("memory.total", 1 << 20),
    'swarm_gpu_power_watts': ("power.draw", 1),
    'swarm_gpu_power_limit_watts': ("enforced.power.limit", 1),
    'swarm_gpu_clock_hertz clock=sm': ("clocks.sm", 10**6),
    'swarm_gpu_clock_hertz clock=memory': ("clocks.mem", 10**6),
    'swarm_gpu_temperature_celsius sensor=gpu': ("temperature.gpu", 1),
    'swarm_gpu_temperature_celsius sensor=memory': ("temperature.memory", 1),
    'swarm_gpu_ecc_errors_total kind=corrected': ("ecc.errors.corrected.aggregate.total", 1),
    'swarm_gpu_ecc_errors_total kind=uncorrected': ("ecc.errors.uncorrected.aggregate.total", 1),
    'swarm_gpu_throttled reason=power_cap': ("clocks_event_reasons.sw_power_cap", 1),
    'swarm_gpu_throttled reason=thermal_software': ("clocks_event_reasons.sw_thermal_slowdown", 1),
}  # fmt: skip
#: What `nvidia-smi` cannot be asked for.
OURS = ("swarm_gpu_sm_active_ratio", "swarm_gpu_memory_bandwidth_ratio", "swarm_gpu_xid_errors_total", "swarm_gpu_last_xid")
LOADS = {
    "idle": "",
    "matrices": "a = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)\nwhile True:\n for _ in range(50): a @ a\n torch.cuda.synchronize()",
    "copies": "a = torch.empty(1 << 33, device='cuda', dtype=torch.uint8)\nb = a.clone()\nwhile True:\n for _ in range(50): b.copy_(a)\n torch.cuda.synchronize()",
}
#: Until a load is steady, and a sample of it alone lies in the file. [s]
STEADY = 16


def _of_first(page: str) -> dict[str, float]:
    """The series of the first card, by name and their other labels."""
    found = {}
    for (name, labels), value in parse(page).series.items():
        told = dict(labels)
        if told.pop("gpu", "") == "0" and name != "swarm_gpu_info":
            found[" ".join([name, *(f"{key}={word}" for key, word in sorted(told.items()))])] = value
    return found


def _smi() -> dict[str, float | None]:
    """What `nvidia-smi` says of the first card, in our units. None: it does not say."""
    asked = ",".join(question for question, _ in SAME.values())
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={asked}", "--format=csv,noheader,nounits"]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    numbers = {"Active": 1.0, "Not Active": 0.0}
    found: dict[str, float | None] = {}
    for (name, (_, unit)), word in zip(SAME.items(), words, strict=True):
        with contextlib.suppress(ValueError):
            found[name] = (numbers[word] if word in numbers else float(word)) * unit
        found.setdefault(name, None)
    return found


def _torch() -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", "import torch; torch.zeros(1).cuda()"], capture_output=True, check=False
        ).returncode
        == 0
    )


def main(seconds: float) -> int:
    """Prints the figures; exit status 1 where a value of ours is not near that of `nvidia-smi`, or is not there."""
    own = {**os.environ, "PYTHONPATH": str(PROGRAM)}
    loads = LOADS if _torch() else {"idle": ""}  # asked first: it wakes the card
    far = 0
    with tempfile.TemporaryDirectory() as folder, exporter("/", folder, own) as (sampler, server, port):
        time.sleep(STEADY)
        for load, code in loads.items():
            with process("import torch\n" + code, os.environ) if code else contextlib.nullcontext():
                time.sleep(STEADY if code else 0)
                smi, (page, _) = _smi(), scrape(port)
            far += _compare(load, _of_first(page), smi)
        _cost(sampler, server, port, seconds)
        print(scrape(port)[0], file=sys.stderr)
    return int(far > 0)


def _compare(load: str, ours: dict[str, float], smi: dict[str, float | None]) -> int:
    print(f"\n{load}\n{'series':62} {'ours':>14} {'nvidia-smi':>14}")
    far = 0
    for name, theirs in smi.items():
        mine = ours.get(name)
        # Steady values are equal; the others are measured at another moment of the same load.
        near = mine == theirs or (mine is not None and theirs is not None and abs(mine - theirs) <= max(0.15 * theirs, 3))
        far += not near
        print(f"{name:62} {_number(mine):>14} {_number(theirs):>14}{'' if near else '   <- apart'}")
    for name in OURS:
        print(f"{name:62} {_number(ours.get(name)):>14}")
    return far


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


def _cost(sampler: int, server: int, port: int, seconds: float) -> None:
    before, began, took = cpu(sampler), time.monotonic(), []
    while time.monotonic() < began + seconds:
        time.sleep(0.2)
        took.append(scrape(port)[1])
    part = (cpu(sampler) - before) / (time.monotonic() - began)
    median, p95, most = (1000 * sorted(took)[int(place * (len(took) - 1))] for place in (0.5, 0.95, 1))
    print(f"\nsampler: {100 * part:.2f} % of one core over {seconds:g} s")
    print(f"{len(took)} scrapes: median {median:.1f} ms, p95 {p95:.1f} ms, most {most:.1f} ms")
    print(f"resident: sampler {resident(sampler):.0f} MB, server {resident(server):.0f} MB")


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60))
