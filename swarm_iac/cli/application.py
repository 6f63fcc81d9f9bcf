"""What is the whole command tree of `swarm`?"""

from __future__ import annotations

from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from swarm_iac.cli.commands import (
    accounts,
    answers,
    apply,
    autopilot,
    forges,
    inspection,
    measured,
    operator,
    pull_requests,
    sandbox,
    scheduled,
    speeds,
    stack_files,
    web,
)

#: Command groups, in the order of a first day. Every command is in exactly one; a test checks that.
GROUPS = {
    "Change the fleet": ("plan", "preview", "up", "autopilot", "refresh", "destroy"),
    "Stack file and placement": ("validate", "schema", "solve", "what-if", "why", "rebalance", "replay"),
    "Pull requests": ("pr", "rights", "drift", "snapshot", "speed"),
    "Look at the fleet": (
        "status",
        "ps",
        "top",
        "web",
        "usage",
        "metrics",
        "limits",
        "shares",
        "logs",
        "shell",
        "history",
        "assert",
    ),
    "Work on nodes": ("drain", "undrain", "cordon", "uncordon", "lost", "ready"),
    "Set up": ("init", "discover", "adopt", "demo", "sandbox", "env", "toolchain", "program"),
}


class Grouped(TyperGroup):
    """The command tree, shown in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Called for --help: one section per group instead of one list of thirty."""
        width = max(map(len, self.commands))
        limit = formatter.width - 6 - width
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), self.commands[name].get_short_help_str(limit))
                        for name in names
                        if name in self.commands
                    ]
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
        cls=Grouped,
        help="Infrastructure as code for GPU fleets.\n\n"
        "First steps: `swarm validate stacks/dev.yaml`, `swarm plan`, `swarm up`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whole)
    for module in (
        apply,
        autopilot,
        stack_files,
        answers,
        forges,
        pull_requests,
        scheduled,
        inspection,
        measured,
        speeds,
        accounts,
        operator,
        sandbox,
        web,
    ):
        module.register(app)
    return app
