"""Is the program the same wherever it is packed, and does it install itself?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import boot_unit
from swarm_node.machine import install
from swarm_node.machine.run import NodeError
from swarm_node.program import observe, step

from swarm_iac.reach.node_program import agent_digest, archive
from tests.node.conftest import GUARD

_INSTALL = """
import sys; sys.path.insert(0, sys.argv[1])
from swarm_node.machine import install
from swarm_node.records import ledger
from swarm_node.machine.run import Context
with ledger.opened(check=False, root=sys.argv[2]) as book:
    print([change["new"] for change in install.apply(Context(book, root=sys.argv[2]))], install.installed(sys.argv[2]))
"""


def _python(*words: str) -> str:
    done = subprocess.run([sys.executable, "-I", "-S", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_program_installs_itself_once_under_its_digest(tmp_path: Path) -> None:
    packed = tmp_path / "program.zip"
    packed.write_bytes(archive())
    root = tmp_path / "root"
    name = agent_digest()
    assert _python("-c", _INSTALL, str(packed), str(root)) == f"['{name}'] {name}"
    home = root / "usr/local/lib/swarm"
    (home / "older").mkdir()
    installed = str(home / "current")
    assert _python("-c", _INSTALL, installed, str(root)) == f"[] {name}"
    assert list(home.glob("current/swarm_node/concerns/__pycache__/gpus.*.pyc"))
    assert archive() == archive()


def test_a_step_that_was_killed_before_all_was_written_anew_is_seen_and_done_again(
    machine: Path, nvml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is the new one then, and nothing else would tell that services still run the one of before."""
    monkeypatch.setattr(boot_unit, "apply", lambda context, *_: install.apply(context))
    monkeypatch.setattr(install, "running", lambda: {"__main__.py": b"", "swarm_node/__main__.py": b""})
    monkeypatch.setattr(observe.health, "runs", lambda *_: ({}, {}))
    asked = {"verb": "prepare", "steps": [{"id": "n/prepare", "want": {}}], "guard": GUARD}

    def prepare(end: Any) -> tuple[bool, str]:
        monkeypatch.setattr(boot_unit, "walk", end)
        child = os.fork()
        if not child:
            os._exit(not step.perform(asked, root=str(machine))["results"][0]["ok"])
        return os.waitpid(child, 0)[1] == 0, str(observe.observe(str(machine))["agent"])

    name = install.digest(install.running())
    assert prepare(lambda *_: os._exit(9)) == (False, "") and install.installed(str(machine)) == name
    written = machine / "written"
    assert prepare(lambda *_: [written.touch()][1:]) == (True, name) and written.exists()
    written.unlink()
    assert prepare(lambda *_: [written.touch()][1:]) == (True, name) and not written.exists(), "once"

    def refused(*_: Any) -> None:
        raise NodeError("a port is taken")

    monkeypatch.setattr(install, "running", lambda: {"__main__.py": b"", "swarm_node/__main__.py": b"#"})
    newer = install.digest(install.running())
    assert prepare(refused) == (False, newer), "what fails has told so, and keeps nobody from changing what it failed at"
