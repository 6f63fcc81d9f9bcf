"""How is the virtual fleet run from the command line? `swarm sandbox …` passes its arguments on."""

from __future__ import annotations

import shutil
from pathlib import Path

import typer

from swarm_iac.cli.terminal.screen import say

_PASS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def sandbox(context: typer.Context) -> None:
    """A virtual fleet: up | down [--purge] | reset | status | ssh NODE | fault NODE NAME | image.

    Examples: swarm sandbox up; swarm sandbox ssh gpu-01 nproc; swarm sandbox fault gpu-03 power-off
    """
    from swarm_iac.sandbox import main

    words = list(context.args)
    purge = "--purge" in words
    if purge:
        words.remove("--purge")
    folder = Path(".sandbox")
    status = 0 if purge and not folder.exists() else main(words or ["--help"], say)
    if purge and words == ["down"]:
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(status)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command(context_settings=_PASS, add_help_option=False)(sandbox)
