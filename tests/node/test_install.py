"""Is the program the same wherever it is packed, and does it install itself?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from swarm_iac.reach.node_program import agent_digest, archive

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
