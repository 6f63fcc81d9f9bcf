"""What did a user mount in their own directory? It goes, so that it hides nothing from us and nothing keeps the directory.

With FUSE an account mounts what even root may not enter: removal would fail, or find nothing. The path to it is the
user's and may turn into a link to any other mount while we go there; so every part is opened without following links.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import List

from .run import Context, NodeError

_DETACH = 2  # MNT_DETACH of mount(2): with all that is mounted below it
#: More are not made in good faith, and each is a look at the whole table.
_MOST = 10_000


def clear(context: Context, path: str) -> None:
    """Detach everything that is mounted at `path` or below it. `path` stands in a folder of root's. NodeError when it stays."""
    for _ in range(0 if context.check else _MOST):
        found = below(context, path)
        if not found:
            return
        context.ledger.confirm()
        _detach(context, os.path.dirname(path), found[0])
    if not context.check:
        raise NodeError(f"more than {_MOST} mounts at {path}")


def below(context: Context, path: str) -> List[str]:
    """Mount points at `path` and below it, outer ones first."""
    try:
        with open(context.path("/proc/self/mountinfo"), encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split(" ")[4] for line in file]
    except OSError:
        return []
    plain = [re.sub(r"\\([0-7]{3})", lambda hit: chr(int(hit[1], 8)), point) for point in points]
    return sorted((point for point in plain if point == path or point.startswith(f"{path}/")), key=len)


def _detach(context: Context, home: str, point: str) -> None:
    handle = os.open(home, os.O_PATH | os.O_DIRECTORY)
    try:
        for part in os.path.relpath(point, home).split("/"):
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(f"/proc/self/fd/{handle}".encode(), _DETACH):
            raise NodeError(f"{point} cannot be unmounted: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(handle)
