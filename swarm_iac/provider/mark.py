"""Was a change under way when the provider ended? It cannot say so itself once it was killed, so it leaves a mark."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Names the file, for the provider; whoever starts the engine sets it and looks afterwards.
NAME = "SWARM_IN_HAND"
_IN_HAND, _ENDED = "in hand", "ended"


def begun() -> None:
    """A change begins."""
    _write(_IN_HAND)


def ended() -> None:
    """It ended, well or not."""
    _write(_ENDED)


def left_in_hand(path: Path) -> bool:
    """Did a change begin and never end?"""
    return path.exists() and path.read_text() == _IN_HAND


def _write(words: str) -> None:
    if os.environ.get(NAME):
        # Who asked for it may be gone by now; that is no reason to fail.
        with contextlib.suppress(OSError):
            Path(os.environ[NAME]).write_text(words)
