"""Who applies merges on this machine? One run at a time, and nobody powers a node off meanwhile.

A merge begins with what is known of machines that are off, so none may go off between that and its work.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm_iac import git
from swarm_iac.errors import Retryable
from swarm_iac.live import checkpoint

_FILE = "swarm-merges.lock"


@contextmanager
def alone(root: Path, *, wait: bool = True) -> Iterator[None]:
    """Only one run on this machine applies merges; others wait. Those elsewhere are kept out by the engine's lock.

    Without `wait`, raises Retryable where another does.
    """
    with _held(root, fcntl.LOCK_EX, wait=wait):
        yield


@contextmanager
def between_merges(root: Path) -> Iterator[None]:
    """No merge begins meanwhile. Raises Retryable while one is applied."""
    with _held(root, fcntl.LOCK_SH, wait=False):
        yield


@contextmanager
def _held(root: Path, way: int, *, wait: bool) -> Iterator[None]:
    folder = checkpoint.state_folder(root) or git.own_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FILE).open("w") as lock:
        try:
            fcntl.flock(lock, way if wait else way | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Retryable("merges are being applied on this machine", after=600) from None
        yield
