"""Was a change in flight when the provider ended, and what is the summary of a preview? Left in files for the caller.

A killed provider cannot report the first itself; the second is the last line of the output, which only the caller can print.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_IN_FLIGHT, _ENDED = "in flight", "ended"


def began(file: Path | None) -> None:
    """A change starts."""
    leave(file, _IN_FLIGHT)


def ended(file: Path | None) -> None:
    """It ended, successfully or not."""
    leave(file, _ENDED)


def was_in_flight(file: Path) -> bool:
    """Did a change start and never end?"""
    return file.exists() and file.read_text() == _IN_FLIGHT


def leave(file: Path | None, text: str) -> None:
    """Write it if a file was asked for."""
    if file is not None:
        # The caller may be gone by now; that is no reason to fail.
        with contextlib.suppress(OSError):
            file.write_text(text)
