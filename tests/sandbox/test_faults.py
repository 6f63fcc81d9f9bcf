"""Is what a fault sends to a node a command that its shell can read, and is a fault that is none refused?"""

from __future__ import annotations

import subprocess
import time

import pytest

from swarm_iac.sandbox import faults
from swarm_iac.sandbox.spec import Say, silent
from swarm_iac.sandbox.tool import SandboxError


class Heard:
    """A node whose shell only reads. Its clock is what `off` says. [s]"""

    def __init__(self, off: float = 0) -> None:
        self.off = off
        self.heard: list[str] = []

    def run(self, node: str, command: str, seconds: float = 60) -> str:
        done = subprocess.run(["sh", "-nc", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        self.heard.append(command)
        return f"{time.time() + self.off:.3f}"

    def link(self, node: str, up: bool) -> None:
        self.heard.append(f"link {up}")

    def power_off(self, node: str) -> None:
        self.heard.append("power off")

    def power_on(self, node: str, say: Say) -> None:
        self.heard.append("power on")

    def reboot(self, node: str, say: Say) -> None:
        self.heard.append("reboot")


@pytest.mark.parametrize(
    "words",
    ["power-off", "power-on", "reboot", "unreachable", "reachable", "slow 400", "ssh-drop", "disk-full", "read-only", "clock -3600",
     "nvml-error * set-power 999", "gpu-lost 1", "gpu-busy 1 4321 900", "clear"],
)  # fmt: skip
def test_every_fault_is_something_that_a_node_understands(words: str) -> None:
    node, (name, *args) = Heard(), words.split()
    faults.cause(node, "gpu-01", name, tuple(args), silent)
    assert node.heard
    assert f"\n{name}" in (faults.__doc__ or "") or f"| {name}" in (faults.__doc__ or ""), "it stands in the list"


@pytest.mark.parametrize("words", ["flood", "slow", "slow soon", "clock 1 2", "nvml-error 0 reboot;x 1"])
def test_what_is_no_fault_never_reaches_the_node(words: str) -> None:
    node, (name, *args) = Heard(), words.split()
    with pytest.raises(SandboxError):
        faults.cause(node, "gpu-01", name, tuple(args), silent)
    assert node.heard == []


@pytest.mark.parametrize(("off", "set_back"), [(0.2, False), (3600.0, True), (-3600.0, True)])
def test_clear_sets_back_only_a_clock_that_is_off(off: float, set_back: bool) -> None:
    node = Heard(off)
    faults.cause(node, "gpu-01", "clear", (), silent)
    assert any(command.startswith("date -s") for command in node.heard) is set_back
