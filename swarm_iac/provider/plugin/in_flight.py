"""Was a change under way when the provider ended, and what does a preview come to? Left in files for the caller.

The provider cannot say the first itself once it was killed; the second is the last line, which only the last to write
can say.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_IN_FLIGHT, _ENDED = "in flight", "ended"


def began(file: Path | None) -> None:
    """A change begins."""
    leave(file, _IN_FLIGHT)


def ended(file: Path | None) -> None:
    """It ended, well or not."""
    leave(file, _ENDED)


def was_in_flight(file: Path) -> bool:
    """Did a change begin and never end?"""
    return file.exists() and file.read_text() == _IN_FLIGHT


def leave(file: Path | None, text: str) -> None:
    """Write it, where a file was asked for."""
    if file is not None:
        # The caller may be gone by now; that is no reason to fail.
        with contextlib.suppress(OSError):
            file.write_text(text)
