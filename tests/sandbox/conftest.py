"""Which machine does a test of the NVML stand-in see? One in a folder of its own, with eight H100 or four L40S."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec

_PREAMBLE = """
import ctypes, json, os, sys
import pynvml as n
def attempt(call, *args):
    try:
        return call(*args)
    except n.NVMLError as error:
        return f"error {error.value}"
def profile(kind):
    found = attempt(n.nvmlDeviceGetGpuInstanceProfileInfo, gpu(0), kind, 1)
    return found if isinstance(found, str) else [found.id, found.sliceCount, found.instanceCount, found.memorySizeMB]
def placements(number):
    found, count = (n.c_nvmlGpuInstancePlacement_t * 16)(), ctypes.c_uint(16)
    n.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(0), number, found, ctypes.byref(count))
    return [[one.start, one.size] for one in list(found)[: count.value]]
n.nvmlInit()
if len(sys.argv) > 2:
    os.seteuid(int(sys.argv[2]))
gpu = lambda i: n.nvmlDeviceGetHandleByIndex(i)
print(json.dumps(eval(sys.argv[1])))
"""


@dataclass(frozen=True)
class Nvml:
    """A machine whose cards are asked through the real Python binding, in a process of its own each time."""

    library: Path
    etc: Path
    run: Path

    def ask(self, expression: str, user: int | None = None) -> object:
        """The value of `expression`, where `n` is pynvml, `gpu(i)` a handle, `attempt` catches NVML's errors;
        `profile(kind)` and `placements(number)` ask for MIG profiles."""
        paths = {"LD_LIBRARY_PATH": self.library.parent, "SWARM_NVML_ETC": self.etc, "SWARM_NVML_RUN": self.run}
        done = subprocess.run(
            [sys.executable, "-c", _PREAMBLE, expression, *([str(user)] if user else [])],
            env={**os.environ, **{k: str(v) for k, v in paths.items()}},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stand_in(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


def _machine(library: Path, folder: Path, node: NodeSpec) -> Nvml:
    for name in ("etc", "run"):
        (folder / name).mkdir(parents=True)
    (folder / "etc" / "gpus").write_text(node.inventory())
    return Nvml(library, folder / "etc", folder / "run")


@pytest.fixture
def h100(library: Path, tmp_path: Path) -> Nvml:
    return _machine(library, tmp_path / "h100", NodeSpec("gpu-01", 1, "H100", 8))


@pytest.fixture
def l40s(library: Path, tmp_path: Path) -> Nvml:
    return _machine(library, tmp_path / "l40s", NodeSpec("gpu-03", 3, "L40S", 4))


@pytest.fixture
def alone(library: Path, tmp_path: Path) -> Nvml:
    return _machine(library, tmp_path / "alone", NodeSpec("gpu-01", 1, "H100", 1))
