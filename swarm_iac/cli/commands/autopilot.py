"""Which command follows the load between two commits? autopilot."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from swarm_iac.cli import engine
from swarm_iac.cli.commands.apply import Positional, Stack
from swarm_iac.cli.commands.inspection import Json
from swarm_iac.cli.decisions import deciding
from swarm_iac.cli.power.hooks import DEFAULT_LIMIT, FOLDER, LIMIT, Hooks
from swarm_iac.cli.terminal.screen import say, show_json

if TYPE_CHECKING:
    from swarm_iac.autopilot.tick import Tick


def autopilot(
    named: Positional = "",
    stack: Stack = "dev",
    once: Annotated[
        bool, typer.Option("--once", help="Decide once and end. Takes no replica away: that needs a history.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Decide, and write nothing.")] = False,
    interval: Annotated[float, typer.Option("--interval", "-i", min=1, max=300, help="Seconds between two decisions.")] = 5.0,
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics",
            metavar="URL|FILE",
            help='A Prometheus, or a file {"WORKLOAD": VALUE}. Default: the nodes, which measure GPUs alone.',
            envvar="SWARM_METRICS",
        ),
    ] = "",
    lease: Annotated[
        float, typer.Option("--lease", min=30, max=3600, help="Seconds for which replicas are granted, unless renewed.")
    ] = 600.0,
    power_hooks: Annotated[
        str,
        typer.Option(
            "--power-hooks",
            metavar="FOLDER",
            help="Power idle nodes off and on by its `resume`, `suspend` and `check`. Default: no node is.",
            envvar=FOLDER,
        ),
    ] = "",
    hook_timeout: Annotated[
        float, typer.Option("--hook-timeout", min=1, max=600, help="Seconds that a hook may take.", envvar=LIMIT)
    ] = DEFAULT_LIMIT,
    json: Json = False,
) -> None:
    """Let the number of replicas follow the load, within `replicas: 2..6` and `scale` of the stack file.

    Replicas above the guaranteed ones take only what is free: nothing is moved or stopped for them, and they are called back
    when a guarantee needs their capacity. Applied by `up`, of the nodes concerned; another `up` goes first. `swarm history
    --decisions` shows what was decided, and why. With --power-hooks, nodes under `power_saving` of the stack file are powered
    off while nothing is placed there. Runs until it is ended; see docs/autopilot.md.

    Examples: swarm autopilot prod --metrics http://prometheus:9090; swarm autopilot --once --dry-run
    swarm autopilot --metrics load.json --interval 10; swarm autopilot prod --power-hooks /etc/swarm/power
    """
    from swarm_iac.cli.live_sharing import Leadership
    from swarm_iac.cli.machines import autopilot_loop as loop
    from swarm_iac.cli.power.needs import powering
    from swarm_iac.cli.power.powering import line as power_line
    from swarm_iac.stackfile.locks.companions import existing

    root, name = engine.repository(), deciding.inside(named or stack)
    existing(root, name)  # a name that is mistyped would be waited for
    power = powering(root, name, Hooks.of(power_hooks, root, hook_timeout), say) if power_hooks else None
    lead = None if dry_run else Leadership(root, name, say, lease, leads=not once)
    if power and lead:
        power.share = lead.tell
    measure = loop.of_source(root, metrics)
    pilot = loop.Autopilot(root, name, measure, say, lease=lease, dry_run=dry_run, power=power, leadership=lead)

    def shown(outcome: Tick) -> None:
        if json:
            power_changes = [vars(one) for one in outcome.power]
            decided = [one.document() for one in outcome.decided]
            show_json({"decided": decided, "nodes": list(outcome.nodes)} | ({"power": power_changes} if power else {}))
        elif dry_run:
            for text in (*map(loop.line, outcome.decided), *map(power_line, outcome.power)):
                typer.echo(text)

    if once and dry_run:
        shown(pilot.once())
        return
    if once:
        loop.once(pilot, shown)
        return
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    try:
        loop.run(pilot, interval, over.wait, shown)
    finally:
        if power:
            power.end()


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(autopilot)
