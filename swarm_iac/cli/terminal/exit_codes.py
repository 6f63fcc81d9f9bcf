"""How does a command end for a script that must tell "nothing to do" from "something changes" and from an error?

With --detailed-exitcode: 0 nothing would change, 2 something would, 1 an error of any kind. Without it each kind of error
has a code of its own (see errors), and a plan with changes ends with 0. Loaded before the commands are: imports nothing.
"""

from __future__ import annotations

NAME = "--detailed-exitcode"
CHANGES = 2
#: What a shell says of a process that a signal ended, and what this command does after Ctrl-C.
_SIGNALS = range(129, 193)


class Changes(SystemExit):
    """Something would change, and whoever called asked to know it by the exit code."""

    def __init__(self) -> None:
        super().__init__(CHANGES)


def tell(detailed: bool, changes: bool) -> None:
    """Raises Changes where it was asked for and there are some."""
    if detailed and changes:
        raise Changes


def code(own: int, words: list[str]) -> int:
    """The exit code of an error: its `own`, or 1 where only three codes were asked for. `words`: the command line.

    That a signal ended it is no answer, so it keeps its code.
    """
    return 1 if own and own not in _SIGNALS and NAME in words else own
