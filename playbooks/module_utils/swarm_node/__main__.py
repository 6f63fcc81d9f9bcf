"""Which question is this program asked? `observe [SECONDS]`, `step` (a request as JSON on stdin) or `boot`, `history [LINES]`; JSON on stdout."""

from __future__ import annotations

import json
import sys
from typing import List


def main(arguments: List[str]) -> int:
    """Exit status 0 when an answer was given (failures of steps stand in the answer), 2 when the question is unknown."""
    verb = arguments[0] if arguments else ""
    if verb == "observe":
        from .observe import watched

        json.dump(watched(float(arguments[1]) if arguments[1:] else 0), sys.stdout)
        return 0
    if verb == "step":
        from .step import perform

        json.dump(perform(json.load(sys.stdin), apart=True), sys.stdout)
        return 0
    if verb == "boot":
        from .boot import run

        return run(apart=True)
    if verb == "history":
        from .audit import lines

        json.dump(lines(most=int(arguments[1]) if arguments[1:] else 200), sys.stdout)
        return 0
    print("usage: observe [SECONDS] | step | boot | history [LINES]", file=sys.stderr)
    return 2
