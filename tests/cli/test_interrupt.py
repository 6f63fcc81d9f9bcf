"""Does Ctrl-C in the middle of a solve keep the best so far, on each way that a solve can go?"""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarm_iac.stackfile import lock
from tests.cli.typed import ROOT, swarm


def exact() -> str:
    """One model decides, and it takes a while: many sizes that do not fit each other."""
    sizes = [3, 5, 7, 2, 6, 1]
    works = "".join(
        f"  w{i}: {{user: u{i % 9}, replicas: {1 + i % 3}, each: {{gpus: {sizes[i % 6]}, vcpus: {3 + i % 7}, memory: {7 + 13 * (i % 11)} GB}}}}\n"
        for i in range(70)
    )
    return f"""\
fleet: lab
teams: {{all: {{users: [{", ".join(f"u{i}" for i in range(9))}]}}}}
limits: {{user: {{gpus: 400, vcpus: 4000, memory: 90 TB}}}}
hardware:
  h100: {{gpus: 8 x H100, vcpus: 24, memory: 256 GB}}
nodes:
  gpu-[01-45]: {{hardware: h100, ssh: "root@{{name}}.example.org"}}
workloads:
{works}solve: {{effort: thorough}}
"""


def filled() -> str:
    """Columns fill it, in some seconds: 121 nodes of eleven shapes, and no two workloads alike."""
    rng = random.Random(0)
    shapes = {f"m{k}": f"{{gpus: 8 x H100, vcpus: {47 + k}, memory: {360 - 11 * k} GB}}" for k in range(10)}
    works = ""
    for i in range(120):
        gpus = rng.choice((1, 2, 3, 5, 6, 7))
        replicas, vcpus = rng.randint(1, 4), gpus * rng.randint(4, 9) + rng.randint(0, 5)
        works += f"  w{i}: {{user: ada, replicas: {replicas}, each: {{gpus: {gpus}, vcpus: {vcpus}, memory: {gpus * rng.randint(20, 60)} GB}}}}\n"
    return f"""\
fleet: lab
teams: {{all: {{users: [ada]}}}}
limits: {{user: {{gpus: 4000, vcpus: 40000, memory: 900 TB}}}}
hardware:
{"".join(f"  {name}: {what}{chr(10)}" for name, what in shapes.items())}\
  large: {{gpus: 8 x H100, vcpus: 96, memory: 512 GB}}
nodes:
  large: {{hardware: large, ssh: root@large}}
{"".join(f"  {name}-[01-12]: {{hardware: {name}, ssh: 'root@{{name}}'}}{chr(10)}" for name in shapes)}\
workloads:
{works}solve: {{effort: thorough}}
"""


def begun(folder: Path, text: str, stderr: int) -> subprocess.Popen[str]:
    """`swarm solve` of a stack file in a repository of its own."""
    (folder / "Pulumi.yaml").write_text("name: lab\n")
    (folder / "stacks").mkdir()
    (folder / "stacks" / "dev.yaml").write_text(text)
    command = [sys.executable, "-m", "swarm_iac.cli", "solve"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, env=environment, text=True)


def placed(folder: Path) -> int:
    """Replicas that the lock has; the proof beside it says that it was cut."""
    proof = (folder / "stacks" / "dev.proof.yaml").read_text()
    assert 'cut: "by hand"' in proof and "optimal: false" in proof
    return len(lock.parse((folder / "stacks" / "dev.lock.yaml").read_text(), "dev.lock.yaml").placement.allocations)


def test_an_interrupt_on_a_terminal_keeps_the_best_so_far(tmp_path: Path) -> None:
    main, other = pty.openpty()
    search = begun(tmp_path, exact(), other)
    os.close(other)
    seen = ""
    started = time.monotonic()
    while "reached" not in seen and time.monotonic() - started < 60:
        seen += os.read(main, 4096).decode(errors="replace")
    search.send_signal(signal.SIGINT)
    search.communicate(timeout=60)
    assert "Ctrl-C keeps the best so far" in seen
    assert search.returncode == 0
    assert placed(tmp_path) > 50


@pytest.mark.parametrize("after", [0.0, 0.7])
def test_an_interrupt_while_columns_are_priced_keeps_the_best_so_far(tmp_path: Path, after: float) -> None:
    """Once the pricing had taken SIGINT's handler away: the process died of it, without a lock."""
    search = begun(tmp_path, filled(), subprocess.PIPE)
    assert search.stderr
    while "placed" not in (line := search.stderr.readline()) and line:
        pass
    time.sleep(after)
    search.send_signal(signal.SIGINT)
    _, said = search.communicate(timeout=60)
    assert "ending the search; the best so far is kept" in said
    assert search.returncode == 0
    assert placed(tmp_path) > 200


def test_a_second_interrupt_ends_at_once_and_keeps_nothing(tmp_path: Path) -> None:
    search = begun(tmp_path, filled(), subprocess.PIPE)
    assert search.stderr
    for word in ("placed", "ending the search"):
        while word not in (line := search.stderr.readline()) and line:
            pass
        search.send_signal(signal.SIGINT)
    _, said = search.communicate(timeout=60)
    assert "ended at once" in said
    assert search.returncode == 130
    assert not (tmp_path / "stacks" / "dev.lock.yaml").exists()


def test_the_help_says_how_an_interrupt_ends() -> None:
    said = " ".join(swarm("solve", "--help", at=ROOT).out.split())
    assert "the exit code is 0. A second Ctrl-C" in said
