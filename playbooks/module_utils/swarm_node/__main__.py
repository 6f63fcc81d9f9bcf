"""Which question is this program asked?

`observe [SECONDS]`, `step` (a request as JSON on stdin), `claim` (see claim.py), `boot`, `history [LINES]` or `metrics`; JSON on
stdout. `install`, for root by hand: the digest of what is installed then. `sample` and `serve PORT [SCRAPER …]` are what systemd
runs where the node is measured, and `lend` where memory is lent; they do not end.
"""

from __future__ import annotations

import json
import sys
from typing import Any, List

_USAGE = """\
usage: observe [SECONDS] | step | claim | boot | history [LINES] | metrics | install | sample | lend | serve PORT [SCRAPER …]"""


def main(arguments: List[str]) -> int:
    """Exit status 0 when an answer was given (failures of steps stand in the answer), 2 when the question is unknown."""
    verb = arguments[0] if arguments else ""
    if verb == "boot":
        from .program.boot import run

        return run(apart=True)
    if verb == "claim":
        from .records.claim import hold

        hold()
        return 0
    if verb in ("sample", "lend") or (verb == "serve" and arguments[1:2] and arguments[1].isdecimal()):
        return _endless(verb, arguments[1:])
    if verb not in ("observe", "step", "history", "install", "metrics"):
        print(_USAGE, file=sys.stderr)
        return 2
    json.dump(_answer(verb, arguments[1:]), sys.stdout)
    return 0


def _endless(verb: str, words: List[str]) -> int:
    if verb == "sample":
        from .exporter.sampler import sample

        return sample()
    if verb == "lend":
        from .program.lend import run

        run()
    from .exporter.server import serve

    return serve(int(words[0]), words[1:])


def _answer(verb: str, words: List[str]) -> Any:
    # Each is imported where it is asked for: starting Python is most of what a short answer costs.
    if verb == "observe":
        from .program.observe import watched

        return watched(float(words[0]) if words else 0)
    if verb == "step":
        from .program.step import perform

        return perform(json.load(sys.stdin), apart=True)
    if verb == "metrics":
        from .exporter.answer import asked

        return asked()
    if verb == "history":
        from .machine.run import Context
        from .records.audit import lines, moves

        most = int(words[0]) if words else 200
        return [*lines(most=most), *moves(Context(None, check=True), most)]
    from .machine.install import alone

    return alone()
