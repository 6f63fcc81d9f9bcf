"""Which commands talk to a forge? pr post, pr apply."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import AllowStop, Stack
from swarm_iac.cli.commands.pull_requests import pr
from swarm_iac.cli.terminal.screen import say
from swarm_iac.forge.opening import TOKEN

Remote = Annotated[str, typer.Option("--remote", help="The git remote that is the forge.")]
Base = Annotated[str, typer.Option("--base", help="The branch that describes the fleet.")]
Numbers = Annotated[list[int] | None, typer.Argument(metavar="[NUMBER…]", help="Pull requests. Default: all open ones.")]


def post(
    numbers: Numbers = None,
    base: Base = "main",
    remote: Remote = "origin",
    pages: Annotated[
        Path | None, typer.Option("--pages", help="In a job on GitHub: where it takes the pages from that the comment links.")
    ] = None,
) -> None:
    """Check pull requests and show the verdict on the forge: one comment, edited in place, and the status `swarm`.

    Everything that decides comes from the base branch; the files of a pull request are fetched as git objects and read as
    data. The page of each stack, with every row, is attached and linked. Forge and token come from the environment: see
    docs/forges.md.

    Exits with 3 if one that is named is red.

    Examples: swarm pr post; swarm pr post 12
    """
    from swarm_iac.cli.merging.verdicts import post_all

    green = post_all(engine.repository(), remote, base, tuple(numbers or ()), taken_environment(), say, pages)
    raise SystemExit(0 if green or not numbers else 3)


def apply(
    merge: Annotated[
        str,
        typer.Option(
            "--merge", metavar="COMMIT", help="Apply all merges up to this commit. Default: the base branch of the forge."
        ),
    ] = "",
    stack: Stack = "dev",
    since: Annotated[
        str, typer.Option("--since", metavar="COMMIT", help="Record first that everything up to this commit is applied.")
    ] = "",
    skip: Annotated[
        str, typer.Option("--skip", metavar="COMMIT", help="Leave what waits, up to this commit, to the next merge.")
    ] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why: shown on the forge, with who skipped it.")] = "",
    base: Base = "main",
    remote: Remote = "origin",
    allow_stop: AllowStop = 0,
) -> None:
    """After a merge: apply it, exactly once per merge commit, in the order of the branch.

    Every merge since the last applied one is verified (status by our own account for exactly its head, approvals for what
    the merge really does), compared with the machines, and applied as `swarm up` would. A killed run is resumed by the next.

    One that cannot be applied holds those after it. Put it back by a pull request (`git revert`), and skip it: what is merged
    next is judged and applied together with what was skipped.

    Examples: swarm pr apply; swarm pr apply --merge $GITHUB_SHA; once at the start: swarm pr apply --since HEAD
    swarm pr apply --skip 4f1c9a2be6d0 --reason "its node is gone; #14 takes it back"
    """
    from swarm_iac.cli.merging.verdicts import apply_merges

    environment = taken_environment()
    apply_merges(engine.repository(), stack, merge, since, (skip, reason), allow_stop, (remote, base), environment, say)


def taken_environment() -> Mapping[str, str]:
    """The environment as it is, and from here on without the token: no program that is started needs it."""
    found = dict(os.environ)
    os.environ.pop(TOKEN, None)
    return found


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the group `pr`, which is part of `app`."""
    known = [one.callback for one in pr.registered_commands]  # the group is one for all applications of a process
    for command in (post, apply):
        if command not in known:
            pr.command()(command)
