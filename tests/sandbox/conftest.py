"""Which machine does a test of the NVML stand-in see? One in a folder of its own, with eight H100 or four L40S."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac.sandbox.image import compile_stand_in
from swarm_iac.sandbox.spec import NodeSpec
from tests.sandbox import asking


@dataclass(frozen=True)
class Nvml:
    """A machine whose cards are asked through the real Python binding, in a process of its own each time."""

    library: Path
    etc: Path
    run: Path

    def ask(self, expression: str, user: int | None = None) -> object:
        """The value of `expression`; see `asking.ask`."""
        paths = {"LD_LIBRARY_PATH": self.library.parent, "SWARM_NVML_ETC": self.etc, "SWARM_NVML_RUN": self.run}
        return asking.ask(expression, {**os.environ, **{key: str(path) for key, path in paths.items()}}, user)


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
