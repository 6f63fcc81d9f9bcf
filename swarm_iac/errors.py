"""Which failures can a user see, and how is each reported?

SwarmError                  has a message, a hint, and perhaps a place
├── StackFileError          the stack file (or policy, or lock) is wrong; carries every problem found
├── Refused                 a rule forbids it; trying again will not help
│   ├── LimitExceeded       a user, node or cluster limit is broken
│   └── StaleLock           the lock is not valid and SWARM_FROZEN is set
├── Retryable               it may work later (`after` seconds)
│   └── Unreachable         a node did not answer
├── ConvergeFailed          some steps failed; the others were completed
└── ToolMissing             a required program is not installed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """A position in a file. `line` and `column` count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake: where, at which path of the document, what, and how to fix it."""

    place: Place
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        head = f"{self.place}: {self.path}: {self.message}" if self.path else f"{self.place}: {self.message}"
        return f"{head}\n  hint: {self.hint}" if self.hint else head


#: Of more than so many that say the same of different places, only the first is told whole.
ALIKE = 3


def told(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Each in words; where many say the same, the first of them, how many more there are, and where the last is."""
    alike: dict[tuple[str, str], list[Problem]] = {}
    for one in problems:
        alike.setdefault((one.message, one.hint), []).append(one)
    every = []
    for ones in alike.values():
        first, last = ones[0], ones[-1]
        more = f"\n  and {len(ones) - 1} more like it, the last at {last.place}{f': {last.path}' * bool(last.path)}"
        every += [(first, f"{first}{more}")] if len(ones) > ALIKE else [(one, str(one)) for one in ones]
    return tuple(text for _, text in sorted(every))


class SwarmError(Exception):
    """Base of everything this package raises on purpose. `exit_code`: of the command line."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\n  hint: {self.hint}" if self.hint else head


class StackFileError(SwarmError):
    """All problems of one reading, in the order of the file. Its text tells many that are alike once."""

    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(told(self.problems)))


class Refused(SwarmError):
    """A rule of the product forbids it. Never retried."""

    exit_code = 3


class LimitExceeded(Refused):
    """A limit per user, node or cluster would be exceeded."""


class StaleLock(Refused):
    """The lock file belongs to another problem, and SWARM_FROZEN forbids solving."""


class Retryable(SwarmError):
    """It failed now and may work after `after` seconds."""

    exit_code = 4

    def __init__(self, message: str, *, after: float = 0, hint: str = "", place: Place | None = None) -> None:
        super().__init__(message, hint=hint, place=place)
        self.after = after


class Unreachable(Retryable):
    """A node did not answer in time."""


class ConvergeFailed(SwarmError):
    """Some steps failed; everything else was completed."""

    exit_code = 5


class ToolMissing(SwarmError):
    """A required program is not on PATH."""

    exit_code = 6
