"""A fleet repository in git whose nodes answer over a stand-in for ssh, in the shape that `swarm top` reads."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.typed import Ended, swarm

STACK = """\
fleet: lab
telemetry: {}
prices: {H100: 2.50 EUR/h}
hardware: {h: {gpus: 4 x H100, vcpus: 8, memory: 1 TB}, cpu: {vcpus: 8, memory: 1 TB}}
nodes:
  n1: {hardware: h, ssh: root@n1.invalid}
  n2: {hardware: h, ssh: root@n2.invalid}
  c1: {hardware: cpu, ssh: root@c1.invalid}
"""
#: 2026-11-01T00:00Z
T = 1_793_491_200
ADA = {"workload": "train", "user": "ada", "team": "vision"}
BO = {"workload": "chat", "user": "bo", "team": "speech"}


@dataclass
class Lab:
    """`now`: of the machine's clock [s]."""

    root: Path
    answers: Path
    now: int = T

    def say(
        self, node: str, *held: tuple[str, float, float | None, dict[str, str], str], cards: int = 4, **more: object
    ) -> None:
        """Let a node answer. `held`: card, part, activity, whose, allocation."""
        samples: list[list[object]] = [["swarm_gpu_up", {"gpu": str(gpu)}, 1] for gpu in range(cards)]
        samples += [["swarm_exporter_collector_fresh", {"collector": one}, 1] for one in ("gpus", "allocations")]
        rates: list[list[object]] = []
        for gpu, part, active, whose, allocation in held:
            samples.append(["swarm_gpu_allocated_ratio", {"gpu": gpu, "allocation": allocation, **whose}, part])
            if active is not None:
                samples.append(["swarm_gpu_sm_active_ratio", {"gpu": gpu}, active])
                samples.append(["swarm_gpu_busy_ratio", {"gpu": gpu}, 1.0])
                samples.append(["swarm_gpu_memory_bandwidth_ratio", {"gpu": gpu}, active / 2])
            for mode in ("user", "system"):
                rates.append(["swarm_allocation_cpu_seconds_total", {"allocation": allocation, "mode": mode, **whose}, 0.05])
        (self.answers / node).write_text(json.dumps({"samples": samples, "rates": rates, **more}))

    def record(self, *words: str, after: int = 0) -> Ended:
        """`swarm usage lab --record`, so much later."""
        self.now += after
        return swarm("usage", "lab", "--record", *words, at=self.root)

    def ask(self, *words: str) -> Ended:
        return swarm("usage", "lab", "--since", "2026-11-01", *words, at=self.root, width=200)

    def commit(self, text: str) -> None:
        """As a colleague would."""
        (self.root / "stacks" / "lab.yaml").write_text(text)
        for words in (("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-qm", "x")):
            subprocess.run(["git", *words], cwd=self.root, check=True)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    root, bin_, answers = tmp_path / "fleet", tmp_path / "bin", tmp_path / "answers"
    for folder in (root / "stacks", bin_, answers):
        folder.mkdir(parents=True)
    fake = bin_ / "ssh"
    fake.write_text(
        f'#!/bin/sh\nfor node in n1 n2 n3 c1; do case "$*" in *$node.invalid*) exec cat {answers}/$node;; esac; done\nexit 255\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    (root / "Pulumi.yaml").write_text("name: lab\n")
    (root / ".gitignore").write_text(".state/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    found = Lab(root, answers)

    def clock() -> float:
        return float(found.now)

    monkeypatch.setattr(time, "time", clock)
    found.commit(STACK)
    found.say("n1", ("0", 1, 0.8, ADA, "train-0"), ("1", 0.25, 0.0, BO, "chat-0"))
    found.say("n2")
    found.say("c1", cards=0)
    return found
