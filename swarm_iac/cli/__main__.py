"""How does the command `swarm` start, and how does it end when something is wrong?"""

from __future__ import annotations

import os
import signal
import sys
from importlib import metadata
from typing import Annotated

import typer

from swarm_iac.errors import SwarmError
from swarm_iac.printable import printable


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"swarm-iac {metadata.version('swarm-iac')}")
        raise typer.Exit


def _whole(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of the command itself."""


def _application() -> typer.Typer:
    """The whole command tree. Built in a function so that `import swarm_iac.cli` costs nothing."""
    from swarm_iac.cli import (
        commands_answers,
        commands_engine,
        commands_fleet,
        commands_operator,
        commands_sandbox,
        commands_stack,
    )

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


def main() -> None:
    """Run the command line; every error of ours becomes text on stderr and its own exit code."""
    try:
        _application()()
    except SwarmError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
