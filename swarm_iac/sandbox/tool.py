"""How is another program run, and what is said when that, or anything else in the sandbox, fails?"""

from __future__ import annotations

import subprocess
from pathlib import Path

from swarm_iac.errors import SwarmError

PACKAGES = Path(__file__).with_name("packages.txt")


class SandboxError(SwarmError):
    """A failure of the virtual fleet: `message` says what, `hint` how to fix it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)


def run(*command: str | Path, seconds: float = 60, stdin: str | None = None) -> str:
    """The program's standard output; a failure names the program and ends with its last words."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, input=stdin, check=False)
    except FileNotFoundError:
        needed = " ".join(PACKAGES.read_text().split())
        raise SandboxError(f"{words[0]} is not installed", f"the sandbox needs the Debian packages {needed}") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{words[0]} did not end within {seconds:.0f} s") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip()[-600:]
        raise SandboxError(f"{words[0]} failed ({done.returncode}): {last}")
    return done.stdout
