"""What went wrong in the sandbox, and how is it mended?"""

from __future__ import annotations

from swarm_iac.errors import SwarmError


class SandboxError(SwarmError):
    """A failure of the virtual fleet: `message` says what, `hint` how to mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
