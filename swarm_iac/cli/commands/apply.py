"""Which commands drive Pulumi? preview, up, refresh, destroy, env, toolchain, init and the demo."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.terminal import exit_codes
from swarm_iac.cli.terminal.screen import say, show, show_json, table
from swarm_iac.cli.toolchain import require_pulumi
from swarm_iac.errors import SwarmError
from swarm_iac.provider.plugin import in_flight
from swarm_iac.run_options import VARIABLES

Stack = Annotated[
    str,
    typer.Option(
        "--stack", "-s", help="Name of the stack (stacks/NAME.yaml), or its file.", envvar=["SWARM_STACK", "SWARM_STACK_NAME"]
    ),
]
Positional = Annotated[str, typer.Argument(metavar="[STACK]", help="Name of the stack or its file; the same as --stack.")]
#: Pulumi's options with which an `up` shows no preview first, so that nobody knows what it came to.
_UNSEEN = {"--skip-preview", "-f", "--preview-only", "--target", "-t"}
_PASS = {"allow_extra_args": True, "ignore_unknown_options": True}


AllowStop = Annotated[
    int,
    typer.Option("--allow-stop", min=0, metavar="N", help="Running allocations this run may stop, in place of solve.stops."),
]
Detailed = Annotated[
    bool, typer.Option(exit_codes.NAME, help="End with 0 when nothing would change, 2 when something would, 1 on an error.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Try a roll-out again that halted, on the node where it failed first.")]
Only = Annotated[
    str,
    typer.Option(
        "--only", metavar="NODE|TEAM[,…]", help="Change this part, and leave the rest as it is. See docs/order.md.",
        envvar="SWARM_ONLY",
    ),
]  # fmt: skip


def _run(
    verb: str, stack: str, extra: list[str], allow_stop: int = 0, retry: bool = False, only: str = "", *, detailed: bool = False
) -> None:
    from swarm_iac.cli.decisions import deciding

    if extra and not extra[0].startswith("-"):
        stack, *extra = extra  # the stack, as all commands take it; pulumi's own options begin with a dash
    stack, root = deciding.inside(stack), engine.repository()
    more = {VARIABLES["allow_stop"]: str(allow_stop)} if allow_stop else {}
    more |= {VARIABLES["retry"]: "1"} if retry else {}
    more |= {VARIABLES["only"]: only} if only else {}
    if verb == "up":
        more |= engine.at_once(root, stack, say)
    with tempfile.TemporaryDirectory() as folder:
        file, summary = Path(folder) / "in-flight", Path(folder) / "summary"
        more |= {VARIABLES["in_flight"]: str(file)}
        more |= {VARIABLES["summary"]: str(summary)} if verb in ("preview", "up") else {}
        status = engine.pulumi(root, stack, [verb, *extra], say, more=more).returncode
        cut_short = in_flight.was_in_flight(file)
        changes = verb == "preview" and _sum_up(stack, summary, status, quiet="--json" in extra)
        if verb == "up" and status == 0 and not _UNSEEN & {*extra}:
            _say_done(stack, summary, quiet="--json" in extra)
    if status < 0:
        say("")  # it ended in the middle of a line
    for line in engine.ending(verb, status, cut_short):
        say(line)
    if status == 0:
        exit_codes.tell(detailed, changes)
    raise SystemExit(status if status >= 0 else 128 - status)


def _sum_up(stack: str, file: Path, status: int, *, quiet: bool) -> bool:
    """Say what a preview came to, as the last line; would anything change? `quiet`: stdout is a document.

    The engine asks the provider for nothing where nothing changes, and then there is no file.
    """
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.plan.show.causes import why_stopped
    from swarm_iac.plan.show.summary import Summary, given_up, pending

    if status and not file.exists():
        return False  # it failed before anything was known
    found = Summary.model_validate_json(file.read_bytes()) if file.exists() else Summary()
    decision = deciding.peek(stack)
    why = why_stopped(decision.stack, decision.last, decision.placement, datetime.date.today())
    stops = {name: why.get(name, told) for name, told in found.stop.items()}
    lost = {name: why for name, why in given_up(decision.stack, decision.last, decision.placement).items() if name not in stops}
    found = found.model_copy(update={"stop": stops, "lost": lost, "pending": pending(decision.placement)})
    (say if quiet else typer.echo)(f"{decision.stack.fleet}: {found.line()}")
    return found.changes


def _say_done(stack: str, file: Path, *, quiet: bool) -> None:
    """Say what a run came to that ended well, as its last line: all that its preview showed."""
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.plan.show.summary import Summary, pending

    found = Summary.model_validate_json(file.read_bytes()) if file.exists() else Summary()
    with contextlib.suppress(SwarmError):  # the stack file was edited meanwhile; the run ended well for all that
        decision = deciding.peek(stack)
        found = found.model_copy(update={"pending": pending(decision.placement)})
        (say if quiet else typer.echo)(f"{decision.stack.fleet}: {found.done()}")


def preview(
    context: typer.Context, stack: Stack = "dev", allow_stop: AllowStop = 0, retry: Retry = False, only: Only = "",
    detailed: Detailed = False,
) -> None:  # fmt: skip
    """Show every difference between what is wanted and what the machines are. Takes pulumi's options too.

    The stack's name comes first, or as --stack.

    Examples: swarm preview lab --diff; swarm preview --expect-no-changes; swarm preview --only gpu-03
    """
    _run("preview", stack, context.args, allow_stop, retry, only, detailed=detailed)


def up(context: typer.Context, stack: Stack = "dev", allow_stop: AllowStop = 0, retry: Retry = False, only: Only = "") -> None:
    """Apply all changes. Takes pulumi's options too.

    The stack's name comes first, or as --stack.

    Examples: swarm up; swarm up --yes; swarm up --only gpu-03; swarm up --only research; swarm up --retry
    """
    _run("up", stack, context.args, allow_stop, retry, only)


def refresh(context: typer.Context, stack: Stack = "dev") -> None:
    """Read the machines into the state, and change nothing."""
    _run("refresh", stack, context.args)


def destroy(context: typer.Context, stack: Stack = "dev") -> None:
    """Give every machine back as it was found."""
    _run("destroy", stack, context.args)


def adopt(
    lineage: Annotated[str | None, typer.Argument(help="The lineage to take over, as the nodes' ledgers name it.")] = None,
    stack: Stack = "dev",
    json: Annotated[bool, typer.Option("--json", help="One JSON document for machines.")] = False,
) -> None:
    """After a lost state: show whose the nodes are, or, with a LINEAGE, make this repository their owner again.

    Examples: swarm adopt; swarm adopt 0b0c…; then swarm up, which changes only what differs
    """
    from swarm_iac.cli import adopt as adoption
    from swarm_iac.cli.decisions import deciding

    stack = deciding.inside(stack)
    if lineage is None:
        found = adoption.find(stack)
        if json:
            show_json([vars(one) for one in found.owners])
        else:
            show(table("whose the nodes are", adoption.HEADS, found.rows()))
        for node, why in sorted(found.dark.items()):
            say(f"{node}: {why}")
        raise SystemExit(4 if found.dark else 0)
    adoption.adopt(engine.repository(), stack, lineage, say)
    say(f"this repository's state is of lineage {lineage} now; swarm preview shows what differs")


def env() -> None:
    """Print the environment for bare `pulumi`: eval "$(swarm env)"."""
    for name, value in engine.environment(engine.repository(), say).items():
        typer.echo(f"export {name}={shlex.quote(value)}")


def toolchain() -> None:
    """Make sure that the Pulumi CLI is there: from PATH, else installed or built (about 5 minutes, once)."""
    folder = require_pulumi(say)
    say(f"pulumi: {folder / 'pulumi'}")


def init(folder: Annotated[Path, typer.Argument(help="Folder to make.")]) -> None:
    """Make a fleet repository: Pulumi.yaml, program, a first stack, limits and CI.

    Example: swarm init myfleet && cd myfleet && swarm plan
    """
    from swarm_iac.cli.initialise import make

    for line in make(folder):
        say(line)


def demo() -> None:
    """Start the sandbox, converge stacks/dev.yaml on it, and show what came of it (what `make up` runs)."""
    from swarm_iac.cli.demo import run

    raise SystemExit(run(engine.repository()))


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (preview, up, refresh, destroy):
        app.command(context_settings=_PASS)(command)
    for plain in (adopt, env, toolchain, init, demo):
        app.command()(plain)
