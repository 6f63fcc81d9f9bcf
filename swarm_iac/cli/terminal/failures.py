"""How is an error reported? As text on stderr; with --json, where no document was printed, as one on stdout as well.

A script that reads the answer of `swarm plan --json` then finds the refusal in the same place:

    {"error": {"kind": "Refused", "message": …, "hint": …, "file": …, "line": …, "column": …, "exit_code": 3, "problems": []}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swarm_iac.errors import Problem, StackFileError, SwarmError

NAME = "--json"


class Printed:
    """Was a document printed since the command began?"""

    document = False


def as_json(words: Sequence[str]) -> bool:
    """Is an error to be printed as a document, too? `words`: the command line."""
    return NAME in _options(words) and not Printed.document


def document(error: SwarmError, exit_code: int) -> dict[str, Any]:
    """What a machine reads of an error."""
    problems = error.problems if isinstance(error, StackFileError) else ()
    first = problems[0] if problems else error
    place = first.place
    told = {
        "kind": type(error).__name__,
        "message": first.message,
        "hint": first.hint,
        "file": place.file if place else "",
        "line": place.line if place else 0,
        "column": place.column if place else 0,
        "exit_code": exit_code,
        "problems": [_problem(one) for one in problems],
    }
    return {"error": told}


def _problem(one: Problem) -> dict[str, Any]:
    place = one.place
    return {"file": place.file, "line": place.line, "column": place.column, "path": one.path, "message": one.message,
            "hint": one.hint}  # fmt: skip


def _options(words: Sequence[str]) -> Sequence[str]:
    """What comes before `--` is ours; the rest belongs to another program."""
    return words[: words.index("--")] if "--" in words else words
