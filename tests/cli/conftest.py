"""A small fleet in a repository of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
workloads:
  a: {user: ada, each: {gpus: 2}}
  b: {user: ada, each: {gpus: 7}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "lab.yaml").write_text(STACK)
    return tmp_path
