"""Who makes this change, and from which commit? For the audit log of each node."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from pathlib import Path


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
        words = ["git", "-C", str(folder or Path.cwd()), "describe", "--always", "--exclude=*", "--dirty=+"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
