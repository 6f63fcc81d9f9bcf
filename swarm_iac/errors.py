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
    """All problems of one reading, in the order of the file."""

    exit_code = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


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
