"""Is a language host whose engine was killed ended, and no other process?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.cli.engine import RUN, end_language_hosts

Started = dict[str, subprocess.Popen[bytes]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    host, other = tmp_path / "pulumi-language-python", tmp_path / "pulumi-resource-swarm"
    for path in (host, other):
        shutil.copy(shutil.which("sleep") or "/bin/sleep", path)
    ones = {
        "host": subprocess.Popen([host, "60"], env={**os.environ, RUN: "this"}),
        "host of another run": subprocess.Popen([host, "60"], env={**os.environ, RUN: "that"}),
        "provider": subprocess.Popen([other, "60"], env={**os.environ, RUN: "this"}),
    }
    yield ones
    for one in ones.values():
        one.kill()
        one.wait()


def test_only_the_language_host_of_the_run_is_ended(started: Started) -> None:
    end_language_hosts("this")
    assert started["host"].wait(10) == -signal.SIGTERM
    assert started["host of another run"].poll() is None
    assert started["provider"].poll() is None, "it finishes its step"
