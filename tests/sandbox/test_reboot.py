"""Is a boot waited for, and for its whole time?

A node's sshd may be gone before it says that a reboot has succeeded; the first boot comes after minutes of building.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swarm_iac.sandbox import Sandbox, SandboxError, access, fleet, switch
from swarm_iac.sandbox.image import Image
from swarm_iac.sandbox.machine import Host, VirtualMachine

_SSH = """#!/bin/sh
case "$*" in
*boot_id*) cat {boot} ;;
*reboot*) {then}; echo 'Connection closed' >&2; exit 255 ;;
esac
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    (tmp_path / "boot").write_text("first\n")
    return Sandbox(tmp_path / "box", 2400)


def _answers_as(then: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = folder / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(_SSH.format(boot=folder / "boot", then=then))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")


def test_a_connection_that_ends_with_the_node_is_no_failure(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers_as(f"echo second > {tmp_path / 'boot'}", tmp_path, monkeypatch)
    said: list[str] = []
    sandbox.reboot("gpu-01", said.append)
    assert "gpu-01: ssh answers" in said[0]


def test_a_node_that_does_not_restart_is_told_with_what_ssh_said(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers_as(":", tmp_path, monkeypatch)
    monkeypatch.setattr(fleet, "_BOOT_SECONDS", 1)
    with pytest.raises(SandboxError, match="gpu-01 did not come back") as caught:
        sandbox.reboot("gpu-01")
    assert "Connection closed" in caught.value.hint


def test_the_time_in_which_the_image_is_built_is_not_taken_from_the_boot(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers_as(":", tmp_path, monkeypatch)
    monkeypatch.setattr(fleet, "_BOOT_SECONDS", 1)
    monkeypatch.setattr(access, "prepare", lambda *_: None)
    monkeypatch.setattr(switch, "start", lambda *_: None)
    monkeypatch.setattr(Sandbox, "_start", lambda *_: None)
    monkeypatch.setattr(VirtualMachine, "running", lambda _: True)

    def built(*_: object) -> Host:
        time.sleep(1.2)
        return Host(Image(tmp_path), "tcg", None)

    asked: set[int] = set()

    def answers(port: int) -> bool:
        """Not at once."""
        before = port in asked
        asked.add(port)
        return before

    monkeypatch.setattr(Sandbox, "_host", built)
    monkeypatch.setattr(access, "answers", answers)
    said: list[str] = []
    sandbox.up(said.append)
    assert "3 nodes up" in said[-2]
