"""How is the sandbox worked before, or without, the command `swarm`? `python -m swarm_iac.sandbox VERB`."""

from __future__ import annotations

import sys

from swarm_iac.sandbox.command import main
from swarm_iac.sandbox.tool import SandboxError


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], _say))
    except SandboxError as error:
        sys.exit(f"error: {error}")
