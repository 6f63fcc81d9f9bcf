"""What does `swarm WORDS` print, and how does it end? Run in this process, as the installed command would."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from swarm_iac.cli.__main__ import main
from swarm_iac.cli.terminal import screen

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str


def swarm(*words: str, at: Path, width: int = 120) -> Ended:
    """Type `swarm WORDS` in the folder `at`, into a pipe that is `width` columns wide."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", ["swarm", *words]),
        patch.object(screen, "_PIPE_WIDTH", width),
        contextlib.chdir(at),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())
