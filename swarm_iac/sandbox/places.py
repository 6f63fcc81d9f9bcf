"""Where in the sandbox's folder does everything lie?"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from swarm_iac.sandbox.spec import NodeSpec

#: A unix socket's name has at most 107 bytes, and ssh adds 17 of its own while it makes one.
_LONGEST_FOLDER = 60


@dataclass(frozen=True)
class Places:
    """All paths of one sandbox; `root` is absolute."""

    root: Path

    @property
    def sockets(self) -> Path:
        """`s` in the folder, or a private folder for temporary files where the folder's name is too long."""
        if len(os.fsencode(self.root)) <= _LONGEST_FOLDER:
            return self.root / "s"
        mark = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"swarm-{os.geteuid()}-{mark}"

    @property
    def settings(self) -> Path:
        return self.root / "sandbox.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def accelerator(self) -> Path:
        return self.root / "accelerator"

    @property
    def key(self) -> Path:
        return self.root / "keys" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.root / "ssh_config"

    @property
    def switch(self) -> Path:
        return self.sockets / "switch"

    @property
    def switch_pid(self) -> Path:
        return self.root / "switch.pid"

    def host_key(self, node: NodeSpec) -> Path:
        return self.root / "keys" / f"{node.name}_host_ed25519"

    def node(self, node: NodeSpec) -> Path:
        return self.root / node.name

    def pid(self, node: NodeSpec) -> Path:
        return self.node(node) / "pid"

    def monitor(self, node: NodeSpec) -> Path:
        return self.sockets / f"{node.name}.qmp"

    def make(self) -> None:
        """Make the folders, closed to everyone else."""
        for folder in (self.root, self.sockets, self.root / "keys"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
