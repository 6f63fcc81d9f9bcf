"""Was a change under way when the provider ended, and what does a preview come to? Left in files for whoever started it.

It cannot say the first itself once it was killed; the second is the last line, which only the last to write can say.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Names the file, for the provider; whoever starts the engine sets it and looks afterwards.
NAME = "SWARM_IN_HAND"
#: Names the file for what a preview comes to: a plan.summary as JSON.
SUMMARY = "SWARM_SUMMARY"
_IN_HAND, _ENDED = "in hand", "ended"


def begun() -> None:
    """A change begins."""
    _write(NAME, _IN_HAND)


def ended() -> None:
    """It ended, well or not."""
    _write(NAME, _ENDED)


def left_in_hand(path: Path) -> bool:
    """Did a change begin and never end?"""
    return path.exists() and path.read_text() == _IN_HAND


def foreseen(text: str) -> None:
    """What the preview comes to."""
    _write(SUMMARY, text)


def _write(name: str, words: str) -> None:
    if os.environ.get(name):
        # Who asked for it may be gone by now; that is no reason to fail.
        with contextlib.suppress(OSError):
            Path(os.environ[name]).write_text(words)
