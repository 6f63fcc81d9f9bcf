"""Which secrets does a command get, and can nobody but root read them on this machine?"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Iterable

from ..machine.run import Context, NodeError

#: Filled by operators. A value goes from here to the command's environment through systemd's credentials and stands
#: nowhere else.
FOLDER = "/etc/swarm/secrets"


def named(want: Dict[str, Any]) -> Dict[str, str]:
    """Variables whose value is `secret:NAME`, by variable. NodeError for names that are none."""
    found = {}
    for name, value in sorted((want.get("env") or {}).items()):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise NodeError(f"{name!r} is no name of a variable")
        if value.startswith("secret:"):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value[7:]):
                raise NodeError(f"{value!r} names no secret")
            found[name] = value[7:]
    return found


def ready(context: Context, names: Iterable[str]) -> None:
    """NodeError when one of them is not there, or others than root can read it."""
    for name in sorted(set(names)):
        path = f"{FOLDER}/{name}"
        try:
            seen = os.stat(context.path(path))
        except OSError as error:
            raise NodeError(f"secret {name}: {path}: {error.strerror}; put it there, for root alone (mode 0600)") from None
        if not stat.S_ISREG(seen.st_mode) or seen.st_mode & 0o077 or seen.st_uid not in (0, os.geteuid()):
            raise NodeError(
                f"secret {name}: {path} is not root's alone (mode {stat.S_IMODE(seen.st_mode):04o}); chmod 600 {path}"
            )
