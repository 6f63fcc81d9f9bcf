"""Which commands run Pulumi, or set it up? preview, up, refresh, destroy, adopt, env, toolchain, init, demo."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import tempfile
from pathlib import Path
from typing import Annotated, Literal

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
Positional = Annotated[str, typer.Argument(metavar="[STACK]", help="Name or file of the stack; same as --stack.")]
#: Pulumi's options with which an `up` shows no preview first, so that there is no summary.
_UNSEEN = {"--skip-preview", "-f", "--preview-only", "--target", "-t"}
_PASS = {"allow_extra_args": True, "ignore_unknown_options": True}


AllowStop = Annotated[
    int,
    typer.Option("--allow-stop", min=0, metavar="N", help="Running allocations this run may stop, in place of solve.stops."),
]
Detailed = Annotated[
    bool, typer.Option(exit_codes.NAME, help="Exit 0 if nothing would change, 2 if something would, 1 on an error.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Retry a halted roll-out, starting with the node where it failed.")]
Only = Annotated[
    str,
    typer.Option(
        "--only", metavar="NODE|TEAM[,…]", help="Change only these nodes or teams; the rest stays as it is. See docs/order.md.",
        envvar="SWARM_ONLY",
    ),
]  # fmt: skip


def _run(
    verb: str, stack: str, extra: list[str], allow_stop: int = 0, retry: bool = False, only: str = "", *, detailed: bool = False
) -> None:
    from swarm_iac.cli.decisions import deciding

    if extra and not extra[0].startswith("-"):
        stack, *extra = extra  # the stack, as in all commands; pulumi's own options begin with a dash
    stack, root = deciding.inside(stack), engine.repository()
    more = {VARIABLES["allow_stop"]: str(allow_stop)} if allow_stop else {}
    more |= {VARIABLES["retry"]: "1"} if retry else {}
    more |= {VARIABLES["only"]: only} if only else {}
    if verb == "up":
        from swarm_iac.cli.live_sharing import of_up
        from swarm_iac.cli.power.waking import wake

        wake(root, stack, say)
        more |= of_up(root, stack)
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
        say("")  # it was killed in the middle of a line
    for line in engine.ending(verb, status, cut_short):
        say(line)
    if status == 0:
        exit_codes.tell(detailed, changes)
    raise SystemExit(status if status >= 0 else 128 - status)


def _sum_up(stack: str, file: Path, status: int, *, quiet: bool) -> bool:
    """Print the summary of a preview as the last line; would anything change? `quiet`: stdout is a document.

    If nothing changes, the engine does not call the provider, and there is no file.
    """
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.plan.show.causes import why_stopped
    from swarm_iac.plan.show.summary import Summary, given_up, pending

    if status and not file.exists():
        return False  # it failed before the summary was known
    found = Summary.model_validate_json(file.read_bytes()) if file.exists() else Summary()
    decision = deciding.peek(stack)
    why = why_stopped(decision.stack, decision.last, decision.placement, datetime.date.today())
    stops = {name: why.get(name, cause) for name, cause in found.stop.items()}
    lost = {name: why for name, why in given_up(decision.stack, decision.last, decision.placement).items() if name not in stops}
    found = found.model_copy(update={"stop": stops, "lost": lost, "pending": pending(decision.placement)})
    (say if quiet else typer.echo)(f"{decision.stack.fleet}: {found.line()}")
    return found.changes


def _say_done(stack: str, file: Path, *, quiet: bool) -> None:
    """Print the summary of a successful run as its last line: everything its preview showed."""
    from swarm_iac.cli.decisions import deciding
    from swarm_iac.plan.show.summary import Summary, pending

    found = Summary.model_validate_json(file.read_bytes()) if file.exists() else Summary()
    with contextlib.suppress(SwarmError):  # the stack file was edited meanwhile; the run succeeded all the same
        decision = deciding.peek(stack)
        found = found.model_copy(update={"pending": pending(decision.placement)})
        (say if quiet else typer.echo)(f"{decision.stack.fleet}: {found.done()}")


def preview(
    context: typer.Context, stack: Stack = "dev", allow_stop: AllowStop = 0, retry: Retry = False, only: Only = "",
    detailed: Detailed = False,
) -> None:  # fmt: skip
    """Show all changes needed to reach the desired state. Accepts pulumi's options.

    Name the stack first, or with --stack.

    Examples: swarm preview lab --diff; swarm preview --expect-no-changes; swarm preview --only gpu-03
    """
    _run("preview", stack, context.args, allow_stop, retry, only, detailed=detailed)


def up(context: typer.Context, stack: Stack = "dev", allow_stop: AllowStop = 0, retry: Retry = False, only: Only = "") -> None:
    """Apply all changes. Accepts pulumi's options.

    Name the stack first, or with --stack.

    Examples: swarm up; swarm up --yes; swarm up --only gpu-03; swarm up --only research; swarm up --retry
    """
    _run("up", stack, context.args, allow_stop, retry, only)


def refresh(context: typer.Context, stack: Stack = "dev") -> None:
    """Read the machines into the state. Changes nothing."""
    _run("refresh", stack, context.args)


def destroy(context: typer.Context, stack: Stack = "dev") -> None:
    """Restore every machine to its original state."""
    _run("destroy", stack, context.args)


def adopt(
    lineage: Annotated[str | None, typer.Argument(help="The lineage to take over, as named in the nodes' ledgers.")] = None,
    stack: Stack = "dev",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """After losing the state: show who owns the nodes, or, given a LINEAGE, take them over again.

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
            show(table("owners of the nodes", adoption.HEADS, found.rows()))
        for node, why in sorted(found.unreachable.items()):
            say(f"{node}: {why}")
        raise SystemExit(4 if found.unreachable else 0)
    adoption.adopt(engine.repository(), stack, lineage, say)
    say(f"this repository's state now has lineage {lineage}; swarm preview shows what differs")


def env() -> None:
    """Print the environment for bare `pulumi`: eval "$(swarm env)"."""
    for name, value in engine.environment(engine.repository(), say).items():
        typer.echo(f"export {name}={shlex.quote(value)}")


def toolchain() -> None:
    """Make sure the Pulumi CLI is available: from PATH, else installed or built (about 5 minutes, once)."""
    folder = require_pulumi(say)
    say(f"pulumi: {folder / 'pulumi'}")


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create.")],
    forge: Annotated[
        Literal["github", "gitea", "gitlab"] | None, typer.Option("--forge", help="Also write what its pull requests need.")
    ] = None,
    monitoring: Annotated[
        bool, typer.Option("--monitoring", help="Add monitoring/ to an existing fleet repository; a new one has it.")
    ] = False,
) -> None:
    """Create a fleet repository: Pulumi.yaml, program, a first stack and limits.

    With --forge in an existing fleet repository, only the files for pull requests are added; with --monitoring, those for
    Prometheus and Grafana.

    Examples: swarm init myfleet && cd myfleet && swarm plan; swarm init . --forge github; swarm init . --monitoring
    """
    from swarm_iac.cli.initialise import make

    for line in make(folder, forge or "", monitoring=monitoring):
        say(line)


def demo() -> None:
    """Start the sandbox, apply stacks/dev.yaml to it and show the result (what `make up` runs)."""
    from swarm_iac.cli.demo import run

    raise SystemExit(run(engine.repository()))


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (preview, up, refresh, destroy):
        app.command(context_settings=_PASS)(command)
    for plain in (adopt, env, toolchain, init, demo):
        app.command()(plain)
