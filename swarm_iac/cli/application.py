"""What is the whole command tree of `swarm`?"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
#: The modules of `commands`, and which commands each adds. Of a command whose name is typed nothing else is loaded: to load and
#: build all of them took a third of the time of a short one.
MODULES = {
    "apply": ("preview", "up", "refresh", "destroy", "adopt", "env", "toolchain", "init", "demo"),
    "autopilot": ("autopilot",),
    "stack_files": ("validate", "schema", "program", "solve", "plan"),
    "answers": ("why", "limits", "shares", "rebalance", "replay", "what-if"),
    "pull_requests": ("rights", "pr"),
    "forges": ("pr",),
    "scheduled": ("drift", "snapshot"),
    "inspection": ("status", "ps", "logs", "shell", "history", "discover", "assert"),
    "measured": ("metrics", "top"),
    "speeds": ("speed",),
    "accounts": ("usage",),
    "operator": ("drain", "cordon", "lost", "ready", "undrain", "uncordon"),
    "sandbox": ("sandbox",),
    "web": ("web",),
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


def application(first: str = "") -> typer.Typer:
    """Every command; where `first` is the name of one, those of its module alone."""
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
    for module in [name for name, commands in MODULES.items() if first in commands] or MODULES:
        import_module(f"swarm_iac.cli.commands.{module}").register(app)
    return app
