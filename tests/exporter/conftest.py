"""Which machine does a test of the exporter see? Cards of the stand-in for NVML, and a folder that stands for `/`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac import assets
from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec

PROGRAM = assets.playbooks() / "module_utils"
sys.path.insert(0, str(PROGRAM))

PSI = "some avg10=0.00 avg60=0.00 avg300=0.00 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"


@dataclass(frozen=True)
class Measured:
    """One machine. `run`: the folder of the stand-in's state; `root`: its `/`; `files`: where its sampler writes."""

    library: Path
    etc: Path
    run: Path
    root: Path
    files: Path

    def environment(self) -> dict[str, str]:
        paths = {
            "LD_LIBRARY_PATH": self.library.parent,
            "SWARM_NVML_ETC": self.etc,
            "SWARM_NVML_RUN": self.run,
            "PYTHONPATH": PROGRAM,
        }
        return {**os.environ, **{key: str(value) for key, value in paths.items()}}

    def ask(self, code: str) -> object:
        """`found` after `code`, in a process of its own, where `context`, `labels` and `gpus` are at hand."""
        preamble = (
            "import json, sys\nfrom pathlib import Path\nfrom swarm_node.machine.run import Context\n"
            "from swarm_node.exporter import labels as holders, of_gpus, of_allocations\n"
            f"context, run = Context(None, check=True, root={str(self.root)!r}), Path({str(self.run)!r})\n"
            "labels, gpus = holders.read(context), of_gpus.Gpus()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", preamble + code + "\nprint(json.dumps(found))"],
            env=self.environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def label(self, allocations: dict[str, dict[str, object]], instances: dict[str, str] | None = None) -> None:
        """Leave labels, as a step does."""
        path = self.root / "run/swarm-telemetry/labels.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {"interface": "", "instances": instances or {}, "allocations": allocations}
        path.write_text(json.dumps(told))

    def cgroup(self, name: str, **files: str) -> Path:
        """The cgroup of an allocation with the kernel's files; others, or other texts, by name with `_` for the dot."""
        folder = self.root / f"sys/fs/cgroup/swarm.slice/swarm-{name.replace('-', '_')}.slice"
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "cpu.stat": "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\nthrottled_usec 250000\n",
            "memory.current": "1073741824\n", "memory.max": "2147483648\n", "memory.events": "low 0\noom 2\noom_kill 1\n",
            "pids.current": "12\n", "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n8:16 rbytes=1 wbytes=0 rios=1 wios=0\n",
            "cpu.pressure": PSI.format(some=1500000, full=0), "memory.pressure": PSI.format(some=10, full=5),
            "io.pressure": PSI.format(some=0, full=0), **{key.replace("_", ".", 1): text for key, text in files.items()},
        }  # fmt: skip
        for file, text in texts.items():
            (folder / file).write_text(text)
        return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    return compile_stand_in(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


def machine(library: Path, folder: Path, spec: NodeSpec) -> Measured:
    found = Measured(library, folder / "etc", folder / "nvml", folder / "root", folder / "files")
    for each in (found.etc, found.run, found.root, found.files):
        each.mkdir(parents=True)
    (found.etc / "gpus").write_text(spec.inventory())
    return found


@pytest.fixture
def h100(library: Path, tmp_path: Path) -> Measured:
    return machine(library, tmp_path, NodeSpec("gpu-01", 1, "H100", 8))


@pytest.fixture
def l40s(library: Path, tmp_path: Path) -> Measured:
    return machine(library, tmp_path, NodeSpec("gpu-03", 3, "L40S", 4))
