"""How does a script tell "nothing to do" from "something changes" and from an error?

With --detailed-exitcode: 0 nothing would change, 2 something would, 1 any error. Without it each kind of error has its own
code (see errors), and a plan with changes exits with 0. Loaded before the commands: imports nothing.
"""

from __future__ import annotations

NAME = "--detailed-exitcode"
CHANGES = 2
#: Exit codes of a process killed by a signal, as a shell reports it and as this command uses after Ctrl-C.
_SIGNALS = range(129, 193)


class Changes(SystemExit):
    """Something would change, and the caller asked for that in the exit code."""

    def __init__(self) -> None:
        super().__init__(CHANGES)


def tell(detailed: bool, changes: bool) -> None:
    """Raises Changes if asked for and there are any."""
    if detailed and changes:
        raise Changes


def code(own: int, words: list[str]) -> int:
    """The exit code of an error: its `own`, or 1 if only three codes were asked for. `words`: the command line.

    Being killed by a signal is not an answer, so that code stays.
    """
    return 1 if own and own not in _SIGNALS and NAME in words else own
