"""How long does our own part take on a fleet of 1,000 nodes and 6,000 allocations? Prints figures; never fails on time.

    python -m tests.benchmarks.large [--nodes 1000] [--replicas 6000]

Each row is a process of its own, so seconds and memory are what a user would see.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SHAPE = "{gpus: 8 x H100, vcpus: 128, memory: 1 TB, nvme: 15 TB, nic: 100 Gbit/s, numa: 2, interface: eth1}"


def stack_file(nodes: int, replicas: int) -> str:
    """A stack file of so many nodes; workloads of 6 replicas, one GPU each."""
    users = max(1, replicas // 12)
    lines = ["fleet: large", "teams:", f"  all: {{users: [{', '.join(f'u{n}' for n in range(users))}]}}"]
    lines += ["limits:", "  cluster: {gpus: 100000, vcpus: 1000000, memory: 10 PB}", "hardware:", f"  h100: {_SHAPE}"]
    lines += ["tuning:", "  train: {gpu_power: 600 W, tcp: bbr, swappiness: 10}", "nodes:"]
    lines += [f"  gpu-[0001-{nodes:04d}]: {{hardware: h100, tuning: train, ssh: 'root@{{name}}'}}", "workloads:"]
    for number in range(replicas // 6):
        lines.append(
            f"  w{number}: {{user: u{number % users}, kind: batch, replicas: 6, "
            "each: {gpus: 1, vcpus: 4, memory: 30 GB}, run: {command: sleep infinity}}"
        )
    return "\n".join(lines) + "\n"


def measured(name: str, words: list[str], folder: Path) -> None:
    """Run one process and print its seconds, its peak memory, and how it ended."""
    begin = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    end = "" if done.returncode == 0 else f"  exit {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}"
    print(f"{name:44} {took:7.1f} s {peak:8.0f} MB{end}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=6000)
    asked = parser.parse_args()
    swarm = [sys.executable, "-m", "swarm_iac.cli"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stacks").mkdir()
        (folder / "Pulumi.yaml").write_text(
            "name: large\nruntime: python\nbackend: {url: 'file://./.state'}\n"
            f"plugins: {{providers: [{{name: swarm, path: {Path(__file__).parent / 'recorded'}}}]}}\n"
        )
        (folder / "machines.json").write_text("{}")
        os.environ |= {"PRETEND": str(folder / "machines.json"), "PRETEND_PATH": os.pathsep.join(sys.path)}
        (folder / "__main__.py").write_text("from swarm_iac.program import main\n\nmain()\n")
        (folder / "stacks" / "large.yaml").write_text(stack_file(asked.nodes, asked.replicas))
        print(f"{asked.nodes} nodes, {asked.replicas} replicas; memory is the largest process so far")
        measured("swarm validate", [*swarm, "validate", "stacks/large.yaml"], folder)
        measured("swarm solve, all new", [*swarm, "solve", "--stack", "large", "--json"], folder)
        measured("swarm solve, valid lock", [*swarm, "solve", "--stack", "large", "--json"], folder)
        measured("swarm plan --offline --json", [*swarm, "plan", "--stack", "large", "--offline", "--json"], folder)
        offline = ["env", "SWARM_OFFLINE=1", *swarm]
        measured("pulumi preview, offline", [*offline, "preview", "--stack", "large"], folder)
        measured("pulumi up, all new, recorded fleet", [*swarm, "up", "--stack", "large", "--yes", "--skip-preview"], folder)
        measured("pulumi preview, nothing to change", [*swarm, "preview", "--stack", "large"], folder)


if __name__ == "__main__":
    main()
