"""How long does a run that changes nothing take, beside what an Ansible user would run on the same nodes? Prints figures.

python -m tests.benchmarks.sandbox        (in the repository, after `make up`)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from swarm_iac.cli import engine

NODES = ("gpu-01", "gpu-02", "gpu-03")
_RUNS = 3
_TASKS = 20


def seconds(words: list[str], root: Path, variables: dict[str, str]) -> float:
    """Median wall time of a command that must succeed. [s]"""
    took = []
    for _ in range(_RUNS):
        begin = time.monotonic()
        done = subprocess.run(words, cwd=root, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        took.append(time.monotonic() - begin)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return statistics.median(took)


def playbook() -> str:
    """Twenty settings as plain Ansible tasks: what one would write without this tool."""
    tasks = "".join(
        f"    - ansible.builtin.lineinfile:\n        path: /tmp/bench.conf\n        create: true\n        line: 'net.setting{n} = 1'\n"
        for n in range(_TASKS)
    )
    return f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}"


def main() -> None:
    """Print the table."""
    import os

    root = engine.repository()
    variables = {**os.environ, **engine.environment(root, lambda line: None), "ANSIBLE_HOST_KEY_CHECKING": "True"}
    config = variables["SWARM_SSH_CONFIG"]
    with tempfile.TemporaryDirectory() as folder:
        inventory, tasks = Path(folder) / "inventory", Path(folder) / "tasks.yml"
        inventory.write_text("".join(f"{node}\n" for node in NODES))
        tasks.write_text(playbook())
        ansible = ["--ssh-common-args", f"-F {config}", "-u", "root", "-i", str(inventory)]
        ping = seconds(["ansible", "all", "-m", "ping", *ansible], root, variables)
        plain = seconds(["ansible-playbook", str(tasks), *ansible], root, variables)
        for node in NODES:
            subprocess.run(["ssh", "-F", config, node, "rm -f /tmp/bench.conf"], check=True)
        look = seconds([sys.executable, "-m", "swarm_iac.cli", "assert"], root, variables)
        up = seconds(["pulumi", "up", "--yes", "--skip-preview", "--stack", "dev"], root, variables)
    rows = (
        ("ansible -m ping", ping),
        (f"{_TASKS} plain Ansible tasks", plain),
        ("swarm assert", look),
        ("no-op pulumi up", up),
    )
    for name, took in rows:
        print(f"{name:28} {took:6.1f} s   {took / ping:5.2f} x ping")


if __name__ == "__main__":
    main()
