"""What is the whole command tree of `swarm`?"""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from swarm_iac.cli import (
    commands_answers,
    commands_engine,
    commands_fleet,
    commands_operator,
    commands_sandbox,
    commands_stack,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"swarm-iac {metadata.version('swarm-iac')}")
        raise typer.Exit


def _whole(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of the command itself."""


def application() -> typer.Typer:
    """Every command."""
    app = typer.Typer(
        name="swarm",
        help="Infrastructure as code for GPU fleets.\n\n"
        "First steps: `swarm validate stacks/dev.yaml`, `swarm plan`, `swarm up`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whole)
    rooms = (commands_engine, commands_stack, commands_answers, commands_fleet, commands_operator, commands_sandbox)
    for module in rooms:
        module.register(app)
    return app
