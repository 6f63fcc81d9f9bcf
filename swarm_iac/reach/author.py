"""Who makes this change, and from which commit? For the audit log of each node."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import SwarmError


def who(named: str = "") -> str:
    """user@host, or `named` for a pipeline that acts for a person."""
    if named:
        return named
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def commit(folder: Path | None = None) -> str:
    """Short commit of the fleet repository, with '+' when files that git knows have changed; empty outside of git."""
    try:
        return git.text(folder or Path.cwd(), "describe", "--always", "--exclude=*", "--dirty=+")
    except SwarmError:
        return ""
