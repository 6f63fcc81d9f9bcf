"""Which commands explain a decision, or try another one? why, what-if, rebalance, replay."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from swarm_iac.cli import decisions
from swarm_iac.cli.commands_engine import Stack
from swarm_iac.cli.commands_fleet import Json
from swarm_iac.cli.screen import show_json

From = Annotated[Path | None, typer.Option("--from", help="A stack file anywhere, its lock beside it; in place of --stack.")]


def why(
    workload: Annotated[str, typer.Argument(help="Name of a workload.")],
    stack: Stack = "dev",
    source: From = None,
    json: Json = False,
) -> None:
    """Say why a workload stands where it stands, or what keeps it out and which changes would place it.

    Placed: why each node takes it, and the price of the second best. Moved: for whose sake. Not placed: the smallest set
    of rules and facts that forbids it, each with its line, and the cheapest changes, each tried by solving. Exits 0.

    Example: swarm why pretrain
    """
    from swarm_iac.cli import answers

    decision = decisions.of_file(source) if source else decisions.current(stack)
    answer = answers.explain(decision, workload, datetime.date.today())
    if json:
        show_json(answers.as_json(answer, decision))
    else:
        for line in answers.lines(answer, decision, _options(stack, source)):
            typer.echo(line)


def _options(stack: str, source: Path | None) -> str:
    """What another command needs, to be about the same stack."""
    return f" --from {source}" if source else f" --stack {stack}" if stack != "dev" else ""


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (why,):
        app.command()(command)
